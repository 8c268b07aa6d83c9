"""A chat model behind an OpenAI-compatible server, one request per thread.

Rate limits, server errors and timeouts are tried again with growing pauses (by the `openai` client); what remains is an
`EngineFault`. The key is read from the environment when the engine opens and is neither logged nor stored. Leaves out
tool calling: a call is text here, as for every engine.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import Future, ThreadPoolExecutor

from coevo_lib.engines.base import EngineContext, EngineFault, Reply, Request, full_context_reply
from coevo_lib.errors import UserError


def api_model_id(base_url: str, model: str) -> str:
    """An API shows no weights, so its address and name stand for them."""
    return "api-" + hashlib.sha256(f"{base_url.rstrip('/')} {model}".encode()).hexdigest()[:16]


class ApiEngine(EngineContext):
    def __init__(
        self, base_url: str, model: str, *, key_env: str = "OPENAI_API_KEY", concurrency: int = 8, retries: int = 5,
        timeout: float = 120.0,
    ):  # fmt: skip
        self.model_id = api_model_id(base_url, model)
        self._model = model
        key = os.environ.get(key_env)
        if not key:
            raise UserError(f"engine: the variable {key_env} holds no key; set it (any word for a local server)")
        try:
            from openai import OpenAI
        except ImportError:
            raise UserError("engine: the package openai is not installed; run `pip install openai`") from None
        self._client = OpenAI(api_key=key, base_url=base_url, max_retries=retries, timeout=timeout)
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="api")

    def submit(self, request: Request) -> Future[Reply]:
        try:
            return self._threads.submit(self._ask, request)
        except RuntimeError:
            raise EngineFault("the API engine is closed") from None

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._client.close()

    def _ask(self, request: Request) -> Reply:
        from openai import APIStatusError, OpenAIError

        fault = None
        try:
            answer = self._client.chat.completions.create(
                model=self._model, messages=list(request.messages), max_tokens=request.max_tokens,
                temperature=request.temperature, stop=list(request.stop) or None,
            )  # fmt: skip
            choice = answer.choices[0]
        except APIStatusError as error:
            if error.code == "context_length_exceeded":
                return full_context_reply(0)
            # Not the answer's own text: it may repeat the key.
            fault = EngineFault(f"API: HTTP {error.status_code} ({type(error).__name__})")
        except (OpenAIError, LookupError, TypeError, ValueError) as error:
            fault = EngineFault(f"API: {type(error).__name__}")
        if fault:
            raise fault  # out here, so that the client's exception, with the request's headers, is not chained to it
        usage = answer.usage
        return Reply(
            text=choice.message.content or "",
            prompt_tokens=usage.prompt_tokens if usage else 0,
            output_tokens=usage.completion_tokens if usage else 0,
            finish="length" if choice.finish_reason == "length" else "stop",
        )
