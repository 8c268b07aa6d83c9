"""Engines: one request in, a future reply out, whoever computes it.

`open_engine` serves a model folder (vLLM, transformers, or only what the cache holds); `open_api_engine` asks an
OpenAI-compatible server. Importing this loads no model library. Leaves out the episodes that send the requests.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coevo_lib.cache import ReplyCache
    from coevo_lib.engines.base import Engine

KINDS = ("auto", "vllm", "transformers", "replay")


def open_engine(
    kind: str,
    model_dir: str | Path,
    *,
    cache: ReplyCache | None = None,
    concurrency: int = 64,
    max_model_len: int = 2048,
) -> Engine:
    """With a cache the engine starts at the first reply that the cache lacks; without one it starts now."""
    from coevo_lib.cache import CachedEngine, ReplayEngine
    from coevo_lib.models import model_id

    kind, name = _resolve(kind), model_id(model_dir)
    if kind == "replay":
        return ReplayEngine(_required(cache), name)

    def start() -> Engine:
        return _start(kind, model_dir, concurrency, max_model_len)

    return start() if cache is None else CachedEngine(start, cache, name)


def open_api_engine(
    base_url: str, model: str, *, key_env: str = "OPENAI_API_KEY", cache: ReplyCache | None = None, concurrency: int = 8
) -> Engine:
    """A chat model behind an OpenAI-compatible server; the key is read from the environment variable `key_env`."""
    from coevo_lib.cache import CachedEngine
    from coevo_lib.engines.api_engine import ApiEngine, api_model_id

    def start() -> Engine:
        return ApiEngine(base_url, model, key_env=key_env, concurrency=concurrency)

    return start() if cache is None else CachedEngine(start, cache, api_model_id(base_url, model))


def _resolve(kind: str) -> str:
    from coevo_lib.errors import UserError

    if kind not in KINDS:
        raise UserError(f"engine: {kind!r} is not known; use one of {', '.join(KINDS)}")
    if kind == "auto":
        return "vllm" if find_spec("vllm") else "transformers"
    if kind == "vllm" and not find_spec("vllm"):
        raise UserError("engine: vllm is not installed; install it or set engine to 'transformers'")
    return kind


def _required(cache: ReplyCache | None) -> ReplyCache:
    from coevo_lib.errors import UserError

    if cache is None:
        raise UserError("engine: replay has no reply cache to read; pass one or set engine to 'auto'")
    return cache


def _start(kind: str, model_dir: str | Path, concurrency: int, max_model_len: int) -> Engine:
    if kind == "vllm":
        from coevo_lib.engines.vllm_engine import VllmEngine as engine_type
    else:
        from coevo_lib.engines.hf_engine import TransformersEngine as engine_type
    return engine_type(model_dir, concurrency=concurrency, max_model_len=max_model_len)
