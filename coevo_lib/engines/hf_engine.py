"""The engine that needs only transformers: one owner thread generates for batches of waiting requests.

Several times slower than vLLM, and a batch ends with its longest reply. Leaves out caching.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from concurrent.futures import Future
from pathlib import Path

from coevo_lib.engines.base import (
    EngineContext,
    EngineFault,
    Reply,
    Request,
    cut_at_stop,
    full_context_reply,
    render_chat,
)
from coevo_lib.errors import UserError
from coevo_lib.models import model_id

LARGEST_BATCH = 32
LENGTH_STEP = 64
GATHER_SECONDS = 0.01  # episodes that were answered together send their next turns together

Job = tuple[Request, Future]


class TransformersEngine(EngineContext):
    def __init__(self, model_dir: str | Path, *, concurrency: int = 64, max_model_len: int = 2048):
        self.model_id = model_id(model_dir)
        self.alive = True
        self._batch = min(concurrency, LARGEST_BATCH)
        self._max_model_len = max_model_len
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._load(model_dir)
        self._owner = threading.Thread(target=self._own, name="transformers-owner", daemon=True)
        self._owner.start()

    def submit(self, request: Request) -> Future[Reply]:
        future: Future[Reply] = Future()
        future.set_running_or_notify_cancel()
        with self._changed:
            if self.alive:
                self._waiting.append((request, future))
                self._changed.notify()
                return future
        future.set_exception(EngineFault("the transformers engine is closed"))
        return future

    def close(self) -> None:
        """The batch in work is finished; whatever waits becomes a fault."""
        with self._changed:
            self.alive = False
            orphans, self._waiting = list(self._waiting), deque()
            self._changed.notify()
        for _, future in orphans:
            future.set_exception(EngineFault("the transformers engine was closed"))
        if self._owner is not threading.current_thread():
            self._owner.join()
        self._model = None

    def _load(self, model_dir: str | Path) -> None:
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8192")  # read when torch is first imported
        try:
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer
            from transformers.utils import logging

            bars = logging.is_progress_bar_enabled()
            logging.disable_progress_bar()
            self._tokenizer = AutoTokenizer.from_pretrained(model_dir, padding_side="left")
            device, attention = ("cuda", "sdpa") if torch.cuda.is_available() else ("cpu", "eager")
            model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.bfloat16, attn_implementation=attention)
            self._model = model.eval().to(device)
            if bars:
                logging.enable_progress_bar()
        except Exception as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise UserError(f"engine: transformers cannot start ({reason}); check the model {model_dir}") from None

    def _own(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or not self.alive)
                if not self.alive:
                    return
            time.sleep(GATHER_SECONDS)
            jobs = self._take()
            try:
                replies = self._generate([request for request, _ in jobs]) if jobs else []
            except Exception as error:
                for _, future in jobs:
                    future.set_exception(EngineFault(f"transformers failed: {type(error).__name__}: {error}"))
                continue
            for (_, future), reply in zip(jobs, replies):
                future.set_result(reply)

    def _take(self) -> list[Job]:
        """The oldest request and those that can share its batch, because their settings are equal."""
        with self._changed:
            if not self._waiting:
                return []
            kind = _settings(self._waiting[0][0])
            jobs = [job for job in self._waiting if _settings(job[0]) == kind][: self._batch]
            taken = {id(future) for _, future in jobs}
            self._waiting = deque(job for job in self._waiting if id(job[1]) not in taken)
        return jobs

    def _generate(self, requests: list[Request]) -> list[Reply]:
        prompts = [self._tokenizer(render_chat(r.messages), add_special_tokens=False)["input_ids"] for r in requests]
        replies = [full_context_reply(len(prompt)) for prompt in prompts]
        fitting = [place for place, prompt in enumerate(prompts) if len(prompt) < self._max_model_len]
        if fitting:
            outputs = self._run([prompts[place] for place in fitting], requests[fitting[0]])
            for place, tokens in zip(fitting, outputs):
                replies[place] = self._reply(requests[place], len(prompts[place]), tokens)
        return replies

    def _run(self, prompts: list[list[int]], request: Request) -> list[list[int]]:
        import torch

        # On a CPU every new shape of a matrix product costs more than the product itself, so shapes are few: a cache of
        # fixed length, prompts in steps, batches in powers of two (the last row repeated).
        rows = prompts + [prompts[-1]] * (2 ** (len(prompts) - 1).bit_length() - len(prompts))
        padded = self._tokenizer.pad({"input_ids": rows}, return_tensors="pt", pad_to_multiple_of=LENGTH_STEP)
        batch = padded.to(self._model.device)
        options = {"do_sample": False, "cache_implementation": "static"}
        if request.temperature > 0:
            options |= {"do_sample": True, "temperature": request.temperature, "top_k": 0, "top_p": 1.0}
        if request.stop:
            options |= {"stop_strings": list(request.stop), "tokenizer": self._tokenizer}
        with torch.inference_mode():
            output = self._model.generate(**batch, max_new_tokens=request.max_tokens, **options)
        return output[: len(prompts), batch["input_ids"].shape[1] :].tolist()

    def _reply(self, request: Request, prompt_tokens: int, tokens: list[int]) -> Reply:
        """A row of a batch goes on as padding after its own end, so its end is looked for here."""
        room = min(request.max_tokens, self._max_model_len - prompt_tokens)
        tokens, end = tokens[:room], self._tokenizer.eos_token_id
        ended = end in tokens
        count = tokens.index(end) + 1 if ended else len(tokens)
        text, stopped = cut_at_stop(self._tokenizer.decode(tokens[:count], skip_special_tokens=True), request.stop)
        if stopped and not ended:
            padding = self._tokenizer.pad_token_id
            count = next((place for place, token in enumerate(tokens) if token == padding), count)
        return Reply(text, prompt_tokens, count, "stop" if ended or stopped else "length")


def _settings(request: Request) -> tuple:
    return (request.max_tokens, request.temperature, request.stop)
