"""Shared by all tests: the tasks, harnesses with a composite tool, and students that are plain functions."""

import os
import re
import tempfile
from pathlib import Path

import pytest

# Hypothesis keeps files of its own; they belong in no checkout.
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(Path(tempfile.gettempdir()) / "coevo-hypothesis"))
from hypothesis import settings  # noqa: E402

from coevo_lib.agent import Episode, replay  # noqa: E402
from coevo_lib.arithmetic import numbers_in  # noqa: E402
from coevo_lib.calls import parse_call  # noqa: E402
from coevo_lib.engines.scripted import ScriptedEngine  # noqa: E402
from coevo_lib.errors import UserError  # noqa: E402
from coevo_lib.harness import Harness, parse_harness  # noqa: E402
from coevo_lib.rollouts import roll_out, student_jobs  # noqa: E402
from coevo_lib.task import load_task  # noqa: E402

settings.register_profile("repeatable", database=None, deadline=None, derandomize=True, max_examples=150)
settings.load_profile("repeatable")

PAIRS = {
    "attendance": ("staff", "hours"), "budget": ("managers", "wish"), "stock": ("products", "stock"),
    "anomaly": ("machines", "readings"), "webtest": ("elements", "peek"), "shopadmin": ("pages", "page"),
    "refactor": ("places", "code"), "mock": ("boxes", "open"),
}  # fmt: skip


def pytest_configure(config):
    config.addinivalue_line("markers", "model: loads or trains the real student; leave out with -m 'not model'")


@pytest.fixture(scope="session")
def tasks():
    """Task name -> task, for every task that the package ships."""
    return {name: load_task(name) for name in PAIRS}


@pytest.fixture(scope="session")
def mock(tasks):
    return tasks["mock"]


@pytest.fixture(scope="session")
def attendance(tasks):
    return tasks["attendance"]


@pytest.fixture(scope="session")
def shopadmin(tasks):
    return tasks["shopadmin"]


@pytest.fixture(scope="session")
def with_composite():
    """Makes a harness whose composite tool reads everything at once; `hidden` takes the two base tools away."""

    def make(task, hidden=False, more=""):
        first, each = PAIRS[task.name]
        hide = f'hide = ["{first}", "{each}"]' if hidden else ""
        text = f'[tools]\n{hide}\n[[tools.composite]]\nname = "{first}_and_{each}"\nfirst = "{first}"\neach = "{each}"\ndoc = "all at once"\n'
        return parse_harness(text + more)

    return make


@pytest.fixture(scope="session")
def harnesses(with_composite):
    """Makes the three harnesses of a task that matter for its rules: h0, composite visible, base tools hidden."""
    return lambda task: [Harness(), with_composite(task), with_composite(task, hidden=True)]


@pytest.fixture(scope="session")
def played():
    """Replays one episode: task, instance, the replies as a list, and a harness."""

    def make(task, instance, texts, harness=None, **options) -> Episode:
        return replay(task, instance, harness or Harness(), texts, **options)

    return make


@pytest.fixture(scope="session")
def play_function():
    """Plays instances with a function of (system, observations) -> text in place of a model; returns trajectories."""

    def make(student, task, instances, harness=None, max_turns=12):
        jobs = student_jobs(task, instances, harness or Harness(), max_turns)
        return [e.trajectory for e in roll_out(ScriptedEngine(student_of(student)), jobs, concurrency=1)]

    return make


def student_of(function):
    """A scripted engine's answer from a function of (system text, list of (call text, observation), prompt)."""

    def answer(request):
        system, prompt, *rest = [message["content"] for message in request.messages]
        return function(system, list(zip(rest[::2], rest[1::2])), prompt)

    return answer


def quick_boxes(system, turns, prompt):
    """A student of the mock task that succeeds exactly where a composite tool is shown, else skips a box.

    Reads names as they are shown, so it plays a task with other tool names as well.
    """
    tools = re.findall(r"^(\w+)\((\w*)\):", system, re.M)
    names = [name for name, _ in tools]
    compute, finish = names[-2:]
    both = next((name for name in names if "_and_" in name), None)
    if not turns:
        return f"{both or names[0]}()"
    seen = turns[-1][1].split("\n(")[0]
    if both:
        steps = {1: f'{compute}("{"+".join(f"{n:g}" for n in numbers_in(seen))}")', 2: f"{finish}({seen})"}
        return steps.get(len(turns), f"{finish}(0)")
    listed = turns[0][1].split("\n(")[0].split(", ")
    if len(turns) == 1:
        return f'{names[1]}("{listed[0]}")'
    return f"{finish}({numbers_in(turns[1][1])[0]:g})"


@pytest.fixture(scope="session")
def boxes_student():
    return quick_boxes


# ---- rule 2: what an expert's call may rest on


def spoken(messages):
    """The prompt of a chat, and (call text, observation without notes) of each turn that was answered."""
    contents = [message["content"] for message in messages[1:]]
    plain = ["\n".join(line for line in text.split("\n") if not line.startswith("(")) for text in contents[2::2]]
    turns = [(text.strip(), seen) for text, seen in zip(contents[1::2], plain)]
    return contents[0], [turn for turn in turns if not turn[1].startswith(("error:", "refused:"))]


def answer_from_messages(name, messages):
    """The right final number, worked out from nothing but the text of the messages."""
    prompt, turns = spoken(messages)
    if name == "shopadmin":
        status = re.search(r"\b(complete|pending|canceled|refunded|shipped)\b", prompt)[1]
        start = max(i for i, (text, _) in enumerate(turns) if text.startswith("filter"))
        assert turns[start][0] == f'filter("{status}")'
        paid = dict(re.findall(r"#(\d+) paid (\d+)", "\n".join(seen for _, seen in turns[start:])))
        total = sum(map(int, paid.values()))
        return total / len(paid) if re.search("average|mean", prompt) else total
    pattern = r"planned \d+, worked (\d+), rate (\d+)" if name == "attendance" else r"(\d+)()"
    each = PAIRS[name][1]
    found = {}
    for text, seen in turns:
        if text.startswith(f"{each}("):
            found |= {parse_call(text).args[0]: match.groups() for match in re.finditer(pattern, seen)}
        found |= {m[1]: m.groups()[1:] for m in re.finditer(rf"^(\w+): {pattern}$", seen, re.M)}
    pay = re.search(r"\b(pay|due|earn|multiply)\b", prompt)
    total = sum(int(a) * (int(b) if pay else 1) for a, b in found.values())
    return total / len(found) if re.search("average|mean", prompt) else total


@pytest.fixture(scope="session")
def assert_grounded():
    """Fails where a call rests on anything that the messages before it do not show (rule 2)."""

    def check(name, messages, text):
        shown = "\n".join(message["content"] for message in messages[1:])
        call = parse_call(text)
        for arg in call.args:
            if call.tool == "submit":
                assert abs(arg - answer_from_messages(name, messages)) < 0.005
            elif isinstance(arg, str) and not numbers_in(arg):
                assert re.search(rf"\b{re.escape(arg)}\b", shown), f"{arg} was never shown"
            else:
                strange = set(numbers_in(str(arg))) - set(numbers_in(shown))
                assert not strange, f"{strange} in {text} was never shown"
        return call

    return check


# ---- the real student


@pytest.fixture(scope="session")
def student_base():
    """The converted base model's folder; skips where the package that brings its weights is not installed."""
    from coevo_lib.models import base_model_dir

    try:
        return base_model_dir()
    except UserError as error:
        pytest.skip(f"the student's weights are not installed: {error}")


@pytest.fixture(scope="session")
def student_tokenizer(student_base):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(student_base)
