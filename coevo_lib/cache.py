"""The reply cache: finished replies in SQLite, so that nothing is paid twice and a killed run continues.

`ReplyCache` stores; `CachedEngine` puts it in front of an engine; `ReplayEngine` is the cache alone. Safe for threads
and for several processes on a local disk. Leaves out eviction: delete the file to start afresh.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from coevo_lib.engines.base import Engine, EngineContext, EngineFault, Reply, Request, render_chat
from coevo_lib.errors import UserError

SCHEMA = """
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, model_id TEXT NOT NULL, text TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, finish TEXT NOT NULL
) WITHOUT ROWID
"""
WAIT_SECONDS = 60  # for another process that writes
MAX_STARTS = 3  # an engine that died is started again, but not for ever


def request_key(model_id: str, request: Request) -> str:
    """Everything that decides a reply, hashed."""
    settings = [request.max_tokens, float(request.temperature), list(request.stop), request.sample]
    return hashlib.sha256(json.dumps([model_id, render_chat(request.messages), *settings]).encode()).hexdigest()


class ReplyCache(EngineContext):
    """Every `put` is committed at once: a kill loses only replies that were still being computed."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._lock = threading.Lock()
        self._hits = self._misses = 0
        with self._named_errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(self.path, WAIT_SECONDS, isolation_level=None, check_same_thread=False)
            for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", SCHEMA):
                self._database.execute(statement)

    def get(self, key: str) -> Reply | None:
        with self._lock, self._named_errors():
            row = self._row(key)
            self._hits, self._misses = self._hits + (row is not None), self._misses + (row is None)
        return Reply(*row, cached=True) if row else None

    def put(self, key: str, model_id: str, reply: Reply) -> Reply:
        """Stores the reply and returns the stored one: where two processes drew it, the first draw counts for both."""
        values = (key, model_id, reply.text, reply.prompt_tokens, reply.output_tokens, reply.finish)
        with self._lock, self._named_errors():
            self._database.execute("INSERT OR IGNORE INTO replies VALUES (?, ?, ?, ?, ?, ?)", values)
            stored = self._row(key)
        return Reply(*stored, cached=reply.cached)

    def counts(self) -> dict[str, int]:
        """Replies stored by anybody; hits and misses of this object."""
        with self._lock, self._named_errors():
            stored = self._database.execute("SELECT count(*) FROM replies").fetchone()[0]
            return {"stored": stored, "hits": self._hits, "misses": self._misses}

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def _row(self, key: str) -> tuple | None:
        query = "SELECT text, prompt_tokens, output_tokens, finish FROM replies WHERE key = ?"
        return self._database.execute(query, (key,)).fetchone()

    @contextmanager
    def _named_errors(self):
        try:
            yield
        except (sqlite3.OperationalError, OSError) as error:
            raise UserError(f"cache: {self.path} cannot be used ({error}); check the disk or set COEVO_CACHE") from None
        except sqlite3.ProgrammingError as error:
            raise EngineFault(f"reply cache is closed: {error}") from None
        except sqlite3.DatabaseError as error:
            raise UserError(f"cache: {self.path} is damaged ({error}); delete it to compute its replies anew") from None


class CachedEngine(EngineContext):
    """Stored replies come back at once, equal requests in flight are joined, and the engine starts at the first miss.

    `engine` is an engine, or a function that starts one (then `model_id` says which model it will serve).
    """

    def __init__(self, engine: Engine | Callable[[], Engine], cache: ReplyCache, model_id: str | None = None):
        running = hasattr(engine, "submit")
        self.model_id = engine.model_id if running else model_id
        self._engine = engine if running else None
        self._factory = None if running else engine
        self._cache = cache
        self._in_flight: dict[str, Future[Reply]] = {}
        self._lock = threading.Lock()  # guards _in_flight
        self._start_lock = threading.Lock()  # guards the fields below; separate, so that hits never wait for a start
        self._starts, self._failure, self._closed = 0, None, False

    def submit(self, request: Request) -> Future[Reply]:
        key = request_key(self.model_id, request)
        with self._lock:
            if key in self._in_flight:
                return _joined(self._in_flight[key])
            if stored := self._cache.get(key):
                return _ready(stored)
            future: Future[Reply] = Future()
            future.set_running_or_notify_cancel()  # others may join it, so nobody may cancel it
            self._in_flight[key] = future
        try:
            self._running().submit(request).add_done_callback(lambda done: self._finish(key, future, done))
        except BaseException as error:
            self._settle(key, future, error=error)
            raise
        return future

    def close(self) -> None:
        """Closes the engine; the cache belongs to whoever opened it."""
        with self._start_lock:
            self._closed = True
            if self._engine is not None:
                self._engine.close()

    def _running(self) -> Engine:
        with self._start_lock:
            if self._closed:
                raise EngineFault("the engine is closed")
            if self._failure:
                raise self._failure
            dead = self._engine is not None and not getattr(self._engine, "alive", True)
            if self._engine is None or (dead and self._factory and self._starts < MAX_STARTS):
                self._starts += 1
                try:
                    self._engine = self._factory()
                except UserError as failure:
                    self._failure = failure  # the next request must not wait for the same end
                    raise
            return self._engine

    def _finish(self, key: str, future: Future[Reply], done: Future[Reply]) -> None:
        try:
            self._settle(key, future, reply=self._cache.put(key, self.model_id, done.result()))
        except BaseException as error:
            self._settle(key, future, error=error)

    def _settle(self, key: str, future: Future[Reply], reply: Reply | None = None, error: BaseException | None = None):
        with self._lock:
            self._in_flight.pop(key, None)
        _fill(future, reply, error)


class ReplayEngine(EngineContext):
    """The cache alone: a reply that it lacks is a fault that names the key."""

    def __init__(self, cache: ReplyCache, model_id: str):
        self.model_id = model_id
        self._cache = cache

    def submit(self, request: Request) -> Future[Reply]:
        key = request_key(self.model_id, request)
        if stored := self._cache.get(key):
            return _ready(stored)
        return _ready(error=EngineFault(f"replay: {self._cache.path} holds no reply {key} of model {self.model_id}"))

    def close(self) -> None:
        pass


def _joined(future: Future[Reply]) -> Future[Reply]:
    """A second reader of a reply that is being computed: it costs nothing, so it counts as cached."""
    view: Future[Reply] = Future()
    view.set_running_or_notify_cancel()

    def copy(done: Future[Reply]) -> None:
        error = done.exception()
        _fill(view, None if error else replace(done.result(), cached=True), error)

    future.add_done_callback(copy)
    return view


def _ready(reply: Reply | None = None, error: BaseException | None = None) -> Future[Reply]:
    future: Future[Reply] = Future()
    _fill(future, reply, error)
    return future


def _fill(future: Future[Reply], reply: Reply | None, error: BaseException | None) -> None:
    if error is None:
        future.set_result(reply)
    else:
        future.set_exception(error)
