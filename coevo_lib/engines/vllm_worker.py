"""The child process that owns one vLLM engine: `python -m coevo_lib.engines.vllm_worker FD PARENT SETTINGS`.

vLLM frees no memory when its objects go, so the engine lives and dies with this process. Frames are JSON over the
socket FD, never stdout, because vLLM prints. New requests join the running batch between two steps. Leaves out caching.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import traceback
from multiprocessing.connection import Connection

# Only full blocks of a prompt's beginning are reused. A turn is short, so vLLM's default for CPUs (128 tokens) would
# compute most of it again each time; 32 is the smallest that its CPU kernels take. Measured: 1.4 times the episodes.
BLOCK_SIZE = 32


def main(argv: list[str]) -> int:
    connection, parent, settings = Connection(int(argv[0])), int(argv[1]), json.loads(argv[2])
    _die_with(parent)
    try:
        llm, tokenizer = _load(settings)
        _send(connection, {"ready": True})
        _serve(connection, llm, tokenizer, settings["max_model_len"])
    except (EOFError, ConnectionError):
        os._exit(0)  # the parent closed its end; unloading by the book would take seconds
    except Exception as error:
        traceback.print_exc()
        lines = str(error).strip().splitlines() or [""]
        _send(connection, {"fatal": f"{type(error).__name__}: {lines[0]}"})
        return 1


def _die_with(parent: int) -> None:
    """A parent that is killed closes the socket, but only a worker between two steps would notice."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


def _load(settings: dict):
    from transformers import AutoTokenizer
    from vllm import LLM

    llm = LLM(
        model=settings["model_dir"],
        dtype="bfloat16",
        enforce_eager=True,
        enable_prefix_caching=True,
        block_size=BLOCK_SIZE,
        max_num_seqs=settings["concurrency"],
        max_model_len=settings["max_model_len"],
        disable_log_stats=True,
    )
    return llm, AutoTokenizer.from_pretrained(settings["model_dir"])


def _serve(connection: Connection, llm, tokenizer, max_model_len: int) -> None:
    engine = llm.llm_engine
    lengths: dict[str, int] = {}
    while True:
        while connection.poll(None if not engine.has_unfinished_requests() else 0):
            frame = json.loads(connection.recv_bytes())
            try:
                _add(engine, tokenizer, frame, max_model_len, lengths, connection)
            except Exception as error:
                traceback.print_exc()
                _send(connection, {"id": frame["id"], "error": f"{type(error).__name__}: {error}"})
        for output in engine.step():
            if output.finished:
                _send(connection, _reply(output, lengths.pop(output.request_id)))


def _add(engine, tokenizer, frame: dict, max_model_len: int, lengths: dict[str, int], connection: Connection) -> None:
    from vllm import SamplingParams

    tokens = tokenizer(frame["prompt"], add_special_tokens=False)["input_ids"]
    room = max_model_len - len(tokens)
    if room <= 0:
        _send(connection, {"id": frame["id"], "text": "", "prompt": len(tokens), "output": 0, "finish": "length"})
        return
    # No seed per request: vLLM's CPU sampler crashes on one.
    params = SamplingParams(
        temperature=frame["temperature"], max_tokens=min(frame["max_tokens"], room), stop=frame["stop"] or None
    )
    engine.add_request(frame["id"], {"prompt_token_ids": tokens}, params)
    lengths[frame["id"]] = len(tokens)


def _reply(output, prompt_tokens: int) -> dict:
    best = output.outputs[0]
    return {
        "id": output.request_id,
        "text": best.text,
        "prompt": prompt_tokens,
        "output": len(best.token_ids),
        "finish": "length" if best.finish_reason == "length" else "stop",
    }


def _send(connection: Connection, frame: dict) -> None:
    connection.send_bytes(json.dumps(frame).encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
