"""What every engine takes and gives: request, reply, the prompt's text, and the fault that is not a score.

Leaves out the engines themselves and the reply cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@dataclass(frozen=True)
class Request:
    messages: tuple[dict, ...]  # {"role": system|user|assistant, "content": str}
    max_tokens: int = 64
    temperature: float = 0.0  # 0 is greedy
    sample: int = 0  # index of the draw; tells repeated draws of one prompt apart
    stop: tuple[str, ...] = ()  # the reply ends before the first of these


@dataclass(frozen=True)
class Reply:
    text: str
    prompt_tokens: int
    output_tokens: int
    finish: str  # "stop" | "length"; a prompt that leaves no room in the context is an empty "length"
    cached: bool = False  # nothing was computed for this reply


class EngineFault(RuntimeError):
    """An infrastructure error: retried and counted, never a score."""


class Engine(Protocol):
    model_id: str  # content hash of base weights and adapter, or of an API model's name

    def submit(self, request: Request) -> Future[Reply]: ...

    def close(self) -> None: ...


class EngineContext:
    """`with engine:` closes it at the end."""

    def __enter__(self):
        return self

    def __exit__(self, *exc_info) -> None:
        self.close()


def render_chat(messages: Iterable[Mapping[str, str]], add_generation_prompt: bool = True) -> str:
    """The text that `CHAT_TEMPLATE` gives, without a tokenizer: the parent process needs it for cache keys."""
    turns = [f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n" for message in messages]
    return "".join(turns) + ("<|im_start|>assistant\n" if add_generation_prompt else "")


def cut_at_stop(text: str, stop: Iterable[str]) -> tuple[str, bool]:
    """The text before the first stop string, and whether there was one."""
    places = [place for place in (text.find(word) for word in stop) if place >= 0]
    return (text[: min(places)], True) if places else (text, False)


def full_context_reply(prompt_tokens: int) -> Reply:
    """An arm that fills the context has failed by itself: a reply, not a fault."""
    return Reply(text="", prompt_tokens=prompt_tokens, output_tokens=0, finish="length")
