"""Engines: the same request gives the same text everywhere, and infrastructure errors are faults, never replies."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from coevo_lib.cache import CachedEngine, ReplyCache
from coevo_lib.engines import open_api_engine, open_engine
from coevo_lib.engines.api_engine import ApiEngine
from coevo_lib.engines.base import EngineFault, Reply, Request, cut_at_stop
from coevo_lib.engines.hf_engine import TransformersEngine
from coevo_lib.engines.scripted import ScriptedEngine
from coevo_lib.engines.serve import ChatHandler, make_server, problem
from coevo_lib.errors import UserError
from coevo_lib.models import base_model_dir, merge_adapter, model_id

ROOT = Path(__file__).resolve().parents[1]
KEY = "sk-secret-of-the-test"
needs_vllm = pytest.mark.skipif(not find_spec("vllm"), reason="vLLM is not installed")


def ask(text: str, **settings) -> Request:
    return Request(({"role": "user", "content": text},), **settings)


CAPITAL = ask("What is the capital of France?", max_tokens=12)


@pytest.fixture(scope="session")
def base():
    return base_model_dir()


@pytest.fixture(scope="session")
def transformers_engine(base):
    with TransformersEngine(base, max_model_len=256) as engine:
        yield engine


@pytest.fixture(scope="session")
def vllm_engine(base):
    from coevo_lib.engines.vllm_engine import VllmEngine

    with VllmEngine(base, max_model_len=256) as engine:
        yield engine


@pytest.fixture
def hollow_model(base, tmp_path):
    """A model folder with a name and nothing else."""
    (tmp_path / "coevo_model.json").write_text(json.dumps({"id": "hollow"}))
    return tmp_path


def test_importing_the_engines_loads_no_model_library():
    engines = ["", ".base", ".serve", ".vllm_engine", ".vllm_worker", ".hf_engine", ".api_engine", ".scripted"]
    names = ", ".join([f"coevo_lib.engines{name}" for name in engines] + ["coevo_lib.cache", "coevo_lib.models"])
    heavy = {"torch", "vllm", "transformers", "peft", "openai"}
    code = f"import sys, {names}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_reply_is_cut_before_its_first_stop():
    assert cut_at_stop("one two three", ("three", "two")) == ("one ", True)
    assert cut_at_stop("one two", ("four",)) == ("one two", False)


def test_an_unknown_engine_is_named_with_the_choices(base):
    with pytest.raises(UserError, match="^engine: 'vlm' is not known; use one of auto, vllm, transformers, replay$"):
        open_engine("vlm", base)
    with pytest.raises(UserError, match="^engine: replay has no reply cache"):
        open_engine("replay", base)


def test_an_opened_engine_starts_at_the_first_reply_that_the_cache_lacks(base, tmp_path):
    with ReplyCache(tmp_path / "replies.sqlite") as cache:
        CachedEngine(ScriptedEngine(lambda request: "stored", model_id(base)), cache).submit(CAPITAL).result()
        for kind in ("auto", "replay"):
            started = time.monotonic()
            with open_engine(kind, base, cache=cache) as engine:
                assert engine.submit(CAPITAL).result().text == "stored"
            assert time.monotonic() - started < 2


# transformers


def test_transformers_answers_a_batch_as_it_answers_one(transformers_engine):
    alone = transformers_engine.submit(CAPITAL).result()
    assert alone == Reply("The capital of France is Paris.", prompt_tokens=16, output_tokens=8, finish="stop")
    requests = [CAPITAL, ask("What is the capital of Italy? Answer with a full sentence.", max_tokens=12), CAPITAL]
    replies = [future.result() for future in [transformers_engine.submit(request) for request in requests]]
    assert [replies[0], replies[2]] == [alone, alone]
    assert "Rome" in replies[1].text


def test_transformers_obeys_lengths_stops_and_the_context(transformers_engine):
    short = transformers_engine.submit(ask("What is the capital of France?", max_tokens=3)).result()
    assert (short.text, short.output_tokens, short.finish) == ("The capital of", 3, "length")
    stopped = transformers_engine.submit(ask("What is the capital of France?", stop=(" is",))).result()
    assert (stopped.text, stopped.finish) == ("The capital of France", "stop")
    full = transformers_engine.submit(ask("one two three " * 200)).result()
    assert (full.text, full.output_tokens, full.finish) == ("", 0, "length")


def test_an_adapter_changes_what_is_said_and_a_second_one_is_not_the_first(base, tmp_path):
    folders = [merge_adapter(base, make_adapter(base, seed, tmp_path / str(seed)), tmp_path) for seed in (1, 2)]
    texts = []
    for folder in folders:
        with TransformersEngine(folder) as engine:
            assert engine.model_id == model_id(folder) != model_id(base)
            texts.append(engine.submit(CAPITAL).result().text)
    assert len({"The capital of France is Paris.", *texts}) == 3


def make_adapter(model_dir, seed, folder):
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    plain = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    config = LoraConfig(r=4, lora_alpha=16, target_modules=["down_proj"], init_lora_weights=False)
    get_peft_model(plain, config).save_pretrained(folder)
    return folder


def test_transformers_that_cannot_load_is_an_error_for_the_user(hollow_model):
    with pytest.raises(UserError, match="^engine: transformers cannot start"):
        open_engine("transformers", hollow_model)


# vLLM


@needs_vllm
def test_vllm_says_what_transformers_says(vllm_engine, transformers_engine):
    reply = vllm_engine.submit(CAPITAL).result()
    assert reply == transformers_engine.submit(CAPITAL).result()
    assert vllm_engine.model_id == transformers_engine.model_id


@needs_vllm
def test_vllm_obeys_lengths_stops_and_the_context(vllm_engine):
    requests = [
        ask("What is the capital of France?", max_tokens=3), ask("What is the capital of France?", stop=(" is",)),
        ask("one two three " * 200), ask("Say anything.", temperature=0.8, max_tokens=4, sample=1),
    ]  # fmt: skip
    short, stopped, full, drawn = [future.result() for future in [vllm_engine.submit(request) for request in requests]]
    assert (short.text, short.output_tokens, short.finish) == ("The capital of", 3, "length")
    assert (stopped.text, stopped.finish) == ("The capital of France", "stop")
    assert (full.text, full.output_tokens, full.finish) == ("", 0, "length")
    assert drawn.text


@needs_vllm
def test_a_short_request_overtakes_a_long_one_in_vllm(vllm_engine):
    order = []
    long = vllm_engine.submit(ask("Write a very long story about a king and his castle.", max_tokens=120))
    long.add_done_callback(lambda _: order.append("long"))
    time.sleep(0.3)
    short = vllm_engine.submit(ask("Hello!", max_tokens=2))
    short.add_done_callback(lambda _: order.append("short"))
    assert (long.result().finish, short.result().output_tokens) == ("length", 2)
    assert order == ["short", "long"]


@needs_vllm
def test_a_vllm_worker_that_dies_is_a_fault_for_every_reply_it_owed(vllm_engine):
    owed = [vllm_engine.submit(ask(f"Tell me a long story about {n} cats.", max_tokens=200)) for n in range(3)]
    worker = int(vllm_engine.log_file.stem.removeprefix("vllm-"))
    os.kill(worker, signal.SIGKILL)
    for future in owed:
        with pytest.raises(EngineFault, match="killed by signal 9"):
            future.result(30)
    assert not vllm_engine.alive
    with pytest.raises(EngineFault):
        vllm_engine.submit(CAPITAL).result(30)


@needs_vllm
def test_vllm_that_cannot_start_is_an_error_for_the_user(hollow_model, tmp_path):
    with ReplyCache(tmp_path / "replies.sqlite") as cache, open_engine("vllm", hollow_model, cache=cache) as engine:
        for _ in range(2):  # the second one must not try again
            with pytest.raises(UserError, match="^engine: vllm cannot start .+; fix that or set engine to 'trans"):
                engine.submit(CAPITAL)


@needs_vllm
@pytest.mark.skipif(sys.platform != "linux", reason="the death signal is Linux's")
def test_a_vllm_worker_dies_with_its_parent(base):
    code = """
import sys, threading, time
from coevo_lib.engines.vllm_engine import VllmEngine
engine = VllmEngine.__new__(VllmEngine)
threading.Thread(target=engine.__init__, args=(sys.argv[1],), daemon=True).start()
while not getattr(engine, "log_file", None):
    time.sleep(0.01)
print(engine.log_file.stem.removeprefix("vllm-"), flush=True)
time.sleep(60)
"""
    command = [sys.executable, "-c", code, str(base)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        worker = int(parent.stdout.readline())
        assert Path(f"/proc/{worker}").exists()
        parent.kill()
    deadline = time.monotonic() + 20
    while _running(worker) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _running(worker)


def _running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


# API


@contextmanager
def served(engine, *statuses):
    """A server that answers the first requests with these statuses and then as it should."""
    left = list(statuses)

    class Flaky(ChatHandler):
        def do_POST(self):
            if not left:
                super().do_POST()
                return
            self.rfile.read(int(self.headers["Content-Length"]))
            self._send(left.pop(0), problem(f"refused {self.headers['Authorization']}"))

    Flaky.engine = engine
    with make_server(engine) as server:
        server.RequestHandlerClass = Flaky
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


@pytest.fixture
def echo(monkeypatch):
    monkeypatch.setenv("COEVO_TEST_KEY", KEY)
    return ScriptedEngine(lambda asked: f"{asked.messages[-1]['content']} {asked.max_tokens} {asked.temperature}")


def test_the_api_engine_speaks_to_a_chat_completions_server(echo, tmp_path):
    with served(echo) as url, ReplyCache(tmp_path / "replies.sqlite") as cache:
        with open_api_engine(url, "echo", key_env="COEVO_TEST_KEY", cache=cache) as engine:
            request = ask("hello STOP there", max_tokens=9, temperature=0.5, stop=("STOP",))
            reply, again = engine.submit(request).result(), engine.submit(request).result()
    assert (reply.text, reply.finish, reply.output_tokens) == ("hello ", "stop", 1)
    assert again.cached and again.text == reply.text
    assert KEY.encode() not in (tmp_path / "replies.sqlite").read_bytes()


def test_the_api_engine_waits_out_rate_limits_and_server_errors(echo):
    with served(echo, 429, 500) as url, ApiEngine(url, "echo", key_env="COEVO_TEST_KEY") as engine:
        assert engine.submit(ask("hello")).result().text == "hello 64 0.0"


@pytest.mark.parametrize("statuses", [(401,), (500, 500)], ids=["refused", "down for good"])
def test_what_the_api_refuses_for_good_is_a_fault_without_the_key(echo, statuses):
    with served(echo, *statuses) as url, ApiEngine(url, "echo", key_env="COEVO_TEST_KEY", retries=1) as engine:
        fault = engine.submit(ask("hello")).exception()
    assert isinstance(fault, EngineFault) and str(statuses[0]) in str(fault)
    assert KEY not in repr(fault) and fault.__context__ is None and fault.__cause__ is None


def test_a_server_that_is_not_there_is_a_fault(echo):
    with ApiEngine("http://127.0.0.1:9/v1", "echo", key_env="COEVO_TEST_KEY", retries=0) as engine:
        with pytest.raises(EngineFault, match="APIConnectionError"):
            engine.submit(ask("hello")).result()


def test_a_missing_key_names_its_variable(monkeypatch):
    monkeypatch.delenv("COEVO_TEST_KEY", raising=False)
    with pytest.raises(UserError, match="COEVO_TEST_KEY"):
        open_api_engine("http://127.0.0.1:9/v1", "echo", key_env="COEVO_TEST_KEY")


def test_an_engine_fault_behind_the_server_is_a_fault_before_it(echo):
    def fails(request):
        raise EngineFault("down")

    with served(ScriptedEngine(fails)) as url, ApiEngine(url, "echo", key_env="COEVO_TEST_KEY", retries=0) as engine:
        with pytest.raises(EngineFault, match="HTTP 500"):
            engine.submit(ask("hello")).result()


def test_the_student_can_stand_behind_the_server(echo, transformers_engine):
    with served(transformers_engine) as url, ApiEngine(url, "student", key_env="COEVO_TEST_KEY") as engine:
        assert engine.submit(CAPITAL).result() == transformers_engine.submit(CAPITAL).result()
