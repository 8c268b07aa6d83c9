"""A deterministic engine for tests and tours: a function answers in place of a model.

Leaves out tokenizers: token counts are word counts.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from coevo_lib.engines.base import EngineContext, EngineFault, Reply, Request, cut_at_stop, render_chat


class ScriptedEngine(EngineContext):
    """`answer` runs in the caller's thread; an `EngineFault` that it raises becomes the future's."""

    def __init__(self, answer: Callable[[Request], str], model_id: str = "scripted"):
        self.model_id = model_id
        self._answer = answer

    def submit(self, request: Request) -> Future[Reply]:
        future: Future[Reply] = Future()
        try:
            text, _ = cut_at_stop(self._answer(request), request.stop)
        except EngineFault as fault:
            future.set_exception(fault)
            return future
        words = len(render_chat(request.messages).split())
        future.set_result(Reply(text=text, prompt_tokens=words, output_tokens=len(text.split()), finish="stop"))
        return future

    def close(self) -> None:
        pass
