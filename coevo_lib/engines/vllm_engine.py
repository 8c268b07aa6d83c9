"""vLLM behind a child process: this side sends rendered prompts and turns answers into futures.

One owner thread starts the worker, reads its answers and notices its death. Leaves out everything that needs vLLM
itself (see `vllm_worker`) and caching.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from multiprocessing.connection import Connection
from pathlib import Path

from coevo_lib.engines.base import EngineContext, EngineFault, Reply, Request, render_chat
from coevo_lib.errors import UserError
from coevo_lib.models import default_cache_dir, model_id

CODE_ROOT = Path(__file__).resolve().parents[2]
STOP_SECONDS = 5


class VllmEngine(EngineContext):
    """Starts its worker and waits for it; `alive` turns false when the worker is gone."""

    def __init__(self, model_dir: str | Path, *, concurrency: int = 64, max_model_len: int = 2048):
        self.model_id = model_id(model_dir)
        self.alive = False
        self._settings = {
            "model_dir": str(model_dir), "concurrency": concurrency, "max_model_len": max_model_len
        }  # fmt: skip
        self._pending: dict[str, Future[Reply]] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()  # guards _pending and alive
        self._send_lock = threading.Lock()
        self._started = threading.Event()
        self._reason = ""
        self._process: subprocess.Popen | None = None
        self._connection: Connection | None = None
        self._closing = False
        # Linux ties a child's death signal to the *thread* that started it, so the thread that stays must start it.
        self._owner = threading.Thread(target=self._own, name="vllm-owner", daemon=True)
        self._owner.start()
        try:
            self._started.wait()
        except BaseException:  # an interrupted start must not leave a worker behind
            self.close()
            raise
        if not self.alive:
            raise UserError(f"engine: vllm cannot start ({self._reason}); fix that or set engine to 'transformers'")

    def submit(self, request: Request) -> Future[Reply]:
        future: Future[Reply] = Future()
        future.set_running_or_notify_cancel()  # a request that is out cannot be taken back
        name = str(next(self._numbers))
        frame = {
            "id": name, "prompt": render_chat(request.messages), "max_tokens": request.max_tokens,
            "temperature": request.temperature, "stop": list(request.stop),
        }  # fmt: skip
        with self._lock:
            if not self.alive:
                future.set_exception(EngineFault(f"vLLM worker is gone: {self._reason}"))
                return future
            self._pending[name] = future
        try:
            with self._send_lock:
                self._connection.send_bytes(json.dumps(frame).encode())
        except (OSError, ValueError):
            pass  # the owner thread sees the same death and fails every pending future
        return future

    def close(self) -> None:
        """Ends the worker; whatever is still pending becomes a fault."""
        self._closing = True
        if self._process:
            self._process.kill()  # it holds nothing that has to be saved
        if self._owner is not threading.current_thread():
            self._owner.join()

    def _own(self) -> None:
        try:
            self._start()
            while not self._closing:
                self._receive(json.loads(self._connection.recv_bytes()))
        except (EOFError, ConnectionError):
            pass  # the worker is gone; _end finds out why
        except Exception as error:
            self._reason = f"{type(error).__name__}: {error}"
        finally:
            self._end()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        logs = default_cache_dir() / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        starting = logs / f"vllm-starting-{os.getpid()}-{id(self)}.log"
        command = [sys.executable, "-m", "coevo_lib.engines.vllm_worker", str(theirs.fileno()), str(os.getpid())]
        with starting.open("wb") as log, theirs:
            self._process = subprocess.Popen(
                [*command, json.dumps(self._settings)],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=worker_environment(),
                start_new_session=True,  # interrupting a notebook cell must not kill the engine
            )  # fmt: skip
        self.log_file = starting.rename(logs / f"vllm-{self._process.pid}.log")
        self._connection = Connection(ours.detach())

    def _receive(self, frame: dict) -> None:
        if "ready" in frame:
            self.alive = True
            self._started.set()
        elif "fatal" in frame:
            self._reason = frame["fatal"]
        else:
            with self._lock:
                future = self._pending.pop(frame["id"])
            if "error" in frame:
                future.set_exception(EngineFault(f"vLLM refused the request: {frame['error']}"))
            else:
                future.set_result(Reply(frame["text"], frame["prompt"], frame["output"], frame["finish"]))

    def _end(self) -> None:
        with self._lock:
            self.alive = False
            orphans, self._pending = list(self._pending.values()), {}
        if self._process:
            self._bury(self._process)
        if self._connection:
            with self._send_lock:
                self._connection.close()
        for future in orphans:
            future.set_exception(EngineFault(f"vLLM worker is gone: {self._reason}"))
        self._started.set()

    def _bury(self, process: subprocess.Popen) -> None:
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._closing:
            self._reason = "closed"
        elif process.returncode < 0:
            self._reason = f"killed by signal {-process.returncode}"
        elif not self._reason:
            lines = self.log_file.read_text(errors="replace").strip().splitlines()
            self._reason = lines[-1].strip() if lines else f"exit code {process.returncode}"


def worker_environment() -> dict[str, str]:
    """What vLLM needs on a CPU; a variable that is already set wins, except those that isolate the worker."""
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    defaults = {"VLLM_CPU_KVCACHE_SPACE": "4", "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cpus))}
    fixed = {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "VLLM_NO_USAGE_STATS": "1",
    }  # fmt: skip
    path = os.pathsep.join(filter(None, [str(CODE_ROOT), os.environ.get("PYTHONPATH")]))
    return defaults | os.environ | fixed | {"PYTHONPATH": path}
