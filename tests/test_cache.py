"""The reply cache: nothing is paid twice, and a kill loses only what was in flight."""

import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import Future
from pathlib import Path

import pytest

from coevo_lib.cache import CachedEngine, ReplayEngine, ReplyCache, request_key
from coevo_lib.engines.base import EngineFault, Reply, Request
from coevo_lib.engines.scripted import ScriptedEngine
from coevo_lib.errors import UserError

ROOT = Path(__file__).resolve().parents[1]


def ask(text: str, **settings) -> Request:
    return Request(({"role": "user", "content": text},), **settings)


@pytest.fixture
def cache(tmp_path):
    with ReplyCache(tmp_path / "replies.sqlite") as opened:
        yield opened


class HeldEngine:
    """An engine whose replies come when the test says so."""

    model_id = "held"

    def __init__(self):
        self.asked: list[tuple[Request, Future]] = []

    def submit(self, request):
        self.asked.append((request, Future()))
        return self.asked[-1][1]

    def close(self):
        for _, future in self.asked:
            if not future.done():
                future.set_exception(EngineFault("closed"))


def test_a_second_request_is_answered_from_the_cache(cache):
    asked = []
    engine = CachedEngine(ScriptedEngine(lambda request: asked.append(request) or "yes"), cache)
    first, second = engine.submit(ask("a")).result(), engine.submit(ask("a")).result()
    assert (first.text, first.cached) == ("yes", False)
    assert (second.text, second.cached) == ("yes", True)
    assert len(asked) == 1
    assert cache.counts() == {"stored": 1, "hits": 1, "misses": 1}


def test_every_setting_that_decides_a_reply_is_in_the_key():
    requests = [
        ask("a"), ask("b"), ask("a", max_tokens=8), ask("a", temperature=0.5), ask("a", sample=1),
        ask("a", stop=("x",)), Request(({"role": "system", "content": "a"},)),
    ]  # fmt: skip
    keys = {request_key(model, request) for model in ("m1", "m2") for request in requests}
    assert len(keys) == 2 * len(requests)
    assert request_key("m", ask("a", temperature=0)) == request_key("m", ask("a", temperature=0.0))


def test_equal_requests_in_flight_are_joined(cache):
    held = HeldEngine()
    engine = CachedEngine(held, cache)
    futures = [engine.submit(ask("a")) for _ in range(3)]
    assert len(held.asked) == 1
    assert not futures[0].cancel(), "a shared request must not be cancelled by one of its readers"
    held.asked[0][1].set_result(Reply("yes", 1, 1, "stop"))
    assert [future.result(1).text for future in futures] == ["yes"] * 3
    assert [future.result(1).cached for future in futures] == [False, True, True]


def test_a_fault_reaches_every_reader_and_is_not_stored(cache):
    held = HeldEngine()
    engine = CachedEngine(held, cache)
    futures = [engine.submit(ask("a")) for _ in range(2)]
    held.asked[0][1].set_exception(EngineFault("down"))
    for future in futures:
        with pytest.raises(EngineFault, match="down"):
            future.result(1)
    assert cache.counts()["stored"] == 0
    engine.submit(ask("a"))
    assert len(held.asked) == 2, "a retry after a fault asks again"


def test_a_run_whose_replies_are_all_stored_never_starts_the_engine(cache):
    CachedEngine(ScriptedEngine(lambda request: "yes", "m"), cache).submit(ask("a")).result()

    def start():
        raise UserError("engine: started")

    engine = CachedEngine(start, cache, "m")
    assert engine.submit(ask("a")).result().text == "yes"
    for _ in range(2):
        with pytest.raises(UserError, match="started"):
            engine.submit(ask("b"))


def test_a_dead_engine_is_started_again_but_not_for_ever(cache):
    started = []

    def start():
        engine = ScriptedEngine(lambda request: "yes")
        engine.alive = False
        started.append(engine)
        return engine

    engine = CachedEngine(start, cache, "m")
    for number in range(6):
        engine.submit(ask(str(number))).result()
    assert len(started) == 3


def test_replay_names_the_missing_key(cache):
    CachedEngine(ScriptedEngine(lambda request: "yes", "m"), cache).submit(ask("a")).result()
    replay = ReplayEngine(cache, "m")
    assert replay.submit(ask("a")).result().cached
    with pytest.raises(EngineFault, match=request_key("m", ask("b"))):
        replay.submit(ask("b")).result()


def test_the_first_of_two_draws_counts_for_both_processes(cache):
    cache.put("k", "m", Reply("first", 1, 1, "stop"))
    assert cache.put("k", "m", Reply("second", 1, 1, "stop")).text == "first"


WORKER = textwrap.dedent("""
    import os, signal, sys
    from coevo_lib.cache import CachedEngine, ReplyCache
    from coevo_lib.engines.base import Request
    from coevo_lib.engines.scripted import ScriptedEngine

    path, first, last, fatal = sys.argv[1], *map(int, sys.argv[2:])

    def answer(request):
        number = int(request.messages[0]["content"])
        if number == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"reply {number}"

    engine = CachedEngine(ScriptedEngine(answer), ReplyCache(path))
    for number in range(first, last):
        engine.submit(Request(({"role": "user", "content": str(number)},))).result()
""")


def worker(path: Path, first: int, last: int, fatal: int = -1) -> subprocess.Popen:
    command = [sys.executable, "-c", WORKER, str(path), str(first), str(last), str(fatal)]
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)})


def test_a_killed_run_loses_only_the_reply_in_flight(tmp_path):
    path = tmp_path / "replies.sqlite"
    assert worker(path, 0, 50, fatal=30).wait() == -signal.SIGKILL
    computed = []
    with ReplyCache(path) as cache:
        assert cache.counts()["stored"] == 30
        engine = CachedEngine(ScriptedEngine(lambda request: computed.append(request) or "new"), cache)
        replies = [engine.submit(ask(str(number))).result() for number in range(50)]
    assert len(computed) == 20
    assert replies[29].text == "reply 29"


def test_several_processes_write_one_cache(tmp_path):
    path = tmp_path / "replies.sqlite"
    workers = [worker(path, first, first + 200) for first in (0, 100, 100)]
    assert [process.wait() for process in workers] == [0, 0, 0]
    with ReplyCache(path) as cache:
        assert cache.counts()["stored"] == 300


def test_a_damaged_file_is_named_with_the_fix(tmp_path):
    path = tmp_path / "replies.sqlite"
    path.write_bytes(b"not a database at all, but long enough to have a header" * 40)
    with pytest.raises(UserError, match="replies.sqlite is damaged.*delete it"):
        ReplyCache(path)
    with pytest.raises(UserError, match="cannot be used"):
        ReplyCache(tmp_path / "replies.sqlite" / "below-a-file.sqlite")
