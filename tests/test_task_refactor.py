"""refactor: a change across a repository, judged by a number, the shape of the code, and unit tests."""

import ast
import random
import re
import sys
import tomllib
from pathlib import Path

import pytest

from coevo_lib.agent import Episode
from coevo_lib.arithmetic import evaluate, numbers_in
from coevo_lib.calls import Call, render_call
from coevo_lib.expert import ScriptedExpert, play_expert
from coevo_lib.harness import Harness, parse_harness
from coevo_lib.rollouts import expert_episodes, random_episode
from coevo_lib.rows import turn_row
from coevo_lib.task import SPLITS, load_task
from coevo_lib.tasks import refactor

COMPOSITE = '[[tools.composite]]\nname = "places_and_code"\nfirst = "places"\neach = "code"\ndoc = "all at once"\n'
HARNESSES = [
    Harness(),
    parse_harness(COMPOSITE),
    parse_harness(f'[tools]\nhide = ["places", "code"]\n{COMPOSITE}'),
]


@pytest.fixture(scope="module")
def task():
    return refactor.Refactor(Path(refactor.__file__))


def sample(task, n=3):
    return [instance for split in SPLITS for instance in task.instances(split, n, diversity=8)]


def run(task, instance, calls, max_turns=60, harness=None):
    """The episode after some calls; what stands after its end is not played."""
    episode = Episode(task, instance, harness or Harness(), max_turns=max_turns)
    for call in calls:
        if not episode.done:
            episode.step(call if isinstance(call, str) else render_call(call))
    return episode


def plan(task, instance):
    """The right calls, step by step."""
    [episode] = expert_episodes(ScriptedExpert(directness=0.0), task, [instance], Harness(), max_turns=40)
    return episode.trajectory.calls


def writes(instance):
    return [Call("edit", (place, line)) for place, line in instance.data["after"].items()]


def written(instance):
    """The lines that can be written over: all but the imports."""
    lines = refactor._by_place(instance.data["files"])
    return {place: line for place, line in lines.items() if not line.startswith("from ")}


def finish(task, instance, calls):
    """The trajectory after some calls and the right number."""
    return run(task, instance, [*calls, Call("submit", (instance.data["answer"],))]).trajectory


def test_the_task_loads_and_asks_two_kinds(task):
    assert load_task("refactor").name == "refactor"
    ordinary = [t for t in task.templates.values() if not t.get("test_only")]
    assert len(ordinary) >= 8 and len(task.templates) - len(ordinary) >= 2
    assert {t["kind"] for t in task.templates.values()} == {"rename", "add"}


def test_the_prompt_shows_every_goal_value(task):
    for instance in sample(task, 10):
        for name in instance.goal.keys() - {"kind", "template"}:
            assert re.search(rf"\b{instance.goal[name]}\b", instance.prompt), (name, instance.prompt)


@pytest.mark.parametrize("directness", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("harness", HARNESSES, ids=["h0", "composite", "hidden"])
def test_the_expert_solves_every_instance(task, directness, harness):
    for episode in expert_episodes(ScriptedExpert(directness=directness), task, sample(task), harness, max_turns=14):
        assert episode.trajectory.success, episode.trajectory.feedback
        assert all(turn.status == "ok" for turn in episode.turns)


GUARDS = """
[hooks]
use = [
  {hook = "loop_breaker"}, {hook = "ledger", each = "code"}, {hook = "unread_list", first = "places", each = "code"},
  {hook = "finish_guard", tools = ["submit", "calc"], first = "places", each = "code"},
  {hook = "grounding_guard", tools = ["calc"]}, {hook = "coverage_guard", tools = ["calc"], each = "code", share = 1.0},
]
"""


def test_the_expert_passes_every_guard_of_a_harness(task):
    harness = parse_harness(GUARDS)
    for episode in expert_episodes(ScriptedExpert(directness=0.0), task, sample(task, 3), harness, max_turns=14):
        assert episode.trajectory.success


def test_a_longer_instance_takes_more_turns(task):
    lengths = []
    for size in (1, 2, 3, 5, 8, 12):
        [instance] = task.instances("train", 1, size=size)
        episode = Episode(task, instance, Harness(), max_turns=60)
        assert play_expert(ScriptedExpert(directness=0.0), episode).success
        lengths.append(len(episode.turns))
    assert lengths == sorted(set(lengths)) and 8 <= lengths[2] <= 14


def test_answers_are_short(task):
    for instance in task.instances("train", 40, diversity=8):
        lines = [*refactor._by_place(instance.data["files"]).values(), *instance.data["after"].values()]
        assert max(map(len, lines)) <= 46
        assert all(len(numbers_in(line)) <= 1 for line in lines), "one number a line: an edit is no computation"


@pytest.mark.parametrize("directness", [0.0, 1.0])
@pytest.mark.parametrize("harness", HARNESSES, ids=["h0", "composite", "hidden"])
def test_every_argument_of_the_expert_rests_on_the_messages(task, directness, harness):
    for episode in expert_episodes(ScriptedExpert(directness=directness), task, sample(task, 2), harness, max_turns=40):
        for index, turn in enumerate(episode.turns):
            shown = "\n".join(m["content"] for m in turn_row(episode, index, turn.text)["messages"][1:-1])
            words, numbers = set(re.findall(r"\w+", shown)), numbers_in(shown)
            for arg in turn.call.args:
                if turn.call.tool == "submit":
                    assert arg == total_shown(shown, episode.instance.goal)
                else:
                    assert set(re.findall(r"\w+", arg)) <= words and set(numbers_in(arg)) <= set(numbers)


def total_shown(shown, goal):
    """The sum that the prompt asks for, from nothing but lines that were shown unchanged."""
    return sum(map(int, re.findall(rf"= {goal['function']}\({goal['old']}=(\d+)\)", shown)))


def everywhere(line, goal):
    """The obvious shortcut: the name is changed, or the parameter is added, wherever the old name stands."""
    if goal["kind"] == "rename":
        return re.sub(rf"\b{goal['old']}\b", goal["new"], line)
    if line.startswith("def "):
        return line.replace(f"({goal['old']})", f"({goal['old']}, {goal['new']})")
    return re.sub(r"(\w+\([^)]+)\)", rf"\1, {goal['new']}={goal['value']})", line)


def test_a_change_of_everything_of_that_name_fails(task):
    for instance in task.instances("test", 60, diversity=8):
        goal, lines = instance.goal, refactor._by_place(instance.data["files"])
        for chosen in (instance.data["after"], lines):  # the listed places, or the whole repository
            calls = [Call("edit", (place, everywhere(lines[place], goal))) for place in chosen]
            assert not finish(task, instance, calls).success


def test_a_change_of_some_places_fails(task):
    for instance in task.instances("test", 20, diversity=8):
        for partial in ([], writes(instance)[:-1], [c for c in writes(instance) if "def " in c.args[1]]):
            assert not finish(task, instance, partial).success
            assert "is not changed" in finish(task, instance, partial).feedback


def test_every_instance_holds_a_trap_and_a_likely_answer_is_rare(task):
    instances = task.instances("select", 200, diversity=8)
    answers = [instance.data["answer"] for instance in instances]
    assert answers.count(max(answers, key=answers.count)) < 10
    for instance in instances:
        goal, before = instance.goal, refactor._by_place(instance.data["files"])
        assert any(everywhere(before[p], goal) != line for p, line in instance.data["after"].items())


@pytest.mark.parametrize("text, message", [
    ('places("nothing")', "error: function: no function 'nothing'"),
    ('places("")', "error: function: no function ''"),
    ('places("base")', "error: function: no function 'base'"),
    ('code("shop")', "error: place: no place 'shop'; a place is a file and a line number, as in file:1"),
    ('edit("x:1", "a = 1")', "error: place: no place 'x:1'; a place is a file and a line number, as in file:1"),
    ("code()", "error: code takes 1 argument (place), got 0"),
    ('submit("much")', "error: answer: 'much' is not a number"),
])  # fmt: skip
def test_a_tool_that_refuses_names_the_argument(task, text, message):
    [instance] = task.instances("train", 1)
    assert run(task, instance, [text]).turns[0].observation == message


@pytest.mark.parametrize("line, message", [
    ("a = 1" + " " * 90 + "+ 1", "longer than 80 characters"),
    ("total = fee(", "this is not one line of Python"),
    ("a = 1; import os", "this is not one line of Python"),
    ("a = 1\nimport os", "this is not one line of Python"),
    ("a = 1\rb = 2", "this is not one line of Python"),
    ("a = 1 \\", "this is not one line of Python"),
    ("a = '\0'", "this is not one line of Python"),
    ("", "this is not one line of Python"),
    ("@exit", "this is not one line of Python"),
    ("(" * 79, "this is not one line of Python"),
    ("import os", "neither a definition nor an assignment such as x = 1"),
    ("fee(rate=3)", "neither a definition nor an assignment such as x = 1"),
    ("class A: pass", "neither a definition nor an assignment such as x = 1"),
])  # fmt: skip
def test_a_line_of_another_form_is_refused(task, line, message):
    [instance] = task.instances("train", 1)
    place = next(iter(instance.data["after"]))
    [turn] = run(task, instance, [Call("edit", (place, line))]).turns
    assert turn.observation == f"error: line: {message}"


def test_an_import_stays_as_it_is(task):
    [instance] = task.instances("train", 1)
    place = next(p for p in refactor._by_place(instance.data["files"]) if p not in written(instance))
    [turn] = run(task, instance, [Call("edit", (place, "a = 1"))]).turns
    assert turn.observation == f"error: place: {place} is an import, which stays as it is"


def test_code_shows_the_line_as_it_stands(task):
    [instance] = task.instances("train", 1)
    [edit, *_] = writes(instance)
    episode = run(task, instance, [f'code("{edit.args[0]}")', edit, f'code("{edit.args[0]}")'])
    before, saved, after = [turn.observation for turn in episode.turns]
    assert (saved, after) == ("saved", edit.args[1]) and before != after


def test_a_replay_is_exact(task):
    for harness in HARNESSES:
        for instance in task.instances("train", 3, diversity=8):
            [planned] = expert_episodes(ScriptedExpert(), task, [instance], harness, max_turns=30)
            for episode in (planned, random_episode(task, instance, harness, max_turns=30)):
                again = run(task, instance, [turn.text for turn in episode.turns], 30, harness).trajectory
                assert again.to_json() == episode.trajectory.to_json() | {"author": "student", "model": ""}


def test_idle_and_random_play_fail(task):
    for instance in sample(task, 2):
        assert not task.world(instance.data).verdict().success
        assert not run(task, instance, ["I give up."] * 4).trajectory.success
    for harness in HARNESSES:
        played = [random_episode(task, i, harness, max_turns=16) for i in task.instances("select", 60, diversity=8)]
        assert not any(episode.trajectory.success for episode in played)


# ---- the verifier: wrong final states are refused, right ones accepted by whatever route


def damaged(rng, task, instance):
    """One wrong call list, by a damage drawn at random, made from the right one."""
    calls = plan(task, instance)
    edits = [i for i, call in enumerate(calls) if call.tool == "edit"]
    i, goal = rng.choice(edits), instance.goal
    place, line = calls[i].args
    untouched = [p for p in written(instance) if p not in instance.data["after"]]
    extra = rng.choice(untouched)
    kind = rng.choice(["drop", "number", "value", "other", "place", "extra", "back", "name", "skip", "early", "result"])
    if kind == "drop":
        calls.pop(i)
    elif kind == "number":
        calls[-1] = Call("submit", (calls[-1].args[0] + rng.choice((-100, -1, 1, 0.5, 10)),))
    elif kind == "value":
        i = next(j for j in edits if "def" not in calls[j].args[1])
        place, line = calls[i].args
        calls[i] = Call("edit", (place, re.sub(r"\d+", lambda m: str(int(m[0]) + 1), line, count=1)))
    elif kind == "other":
        j = rng.choice([j for j in edits if calls[j].args[1] != line])
        calls[i] = Call("edit", (place, calls[j].args[1]))
    elif kind == "place":
        calls[i] = Call("edit", (extra, line))
    elif kind == "extra":
        calls.insert(-1, Call("edit", (extra, f"{goal['new']} = 5")))
    elif kind == "back":
        calls.insert(-1, Call("edit", (place, refactor._by_place(instance.data["files"])[place])))
    elif kind == "name":
        calls[i] = Call("edit", (place, re.sub(rf"\b{goal['new']}\b", goal["new"] + "s", line)))
    elif kind == "skip":
        calls = [call for call in calls if call.tool == "submit" or place not in call.args]
    elif kind == "early":
        calls.insert(rng.randrange(i + 1), calls[-1])
    elif kind == "result":
        j = next(j for j in edits if "def" not in calls[j].args[1])
        calls[j] = Call("edit", (calls[j].args[0], "wrong = " + calls[j].args[1].split(" = ", 1)[1]))
    return kind, calls


def test_wrong_final_states_are_refused(task):
    rng, kinds = random.Random(0), []
    for instance in task.instances("train", 40, diversity=8):
        for _ in range(6):
            kind, calls = damaged(rng, task, instance)
            episode = run(task, instance, calls)
            assert episode.world.finished and not episode.trajectory.success, (kind, calls)
            assert episode.trajectory.feedback.count(".") == 1 + ("." in f"{episode.world.answer:g}")
            kinds.append(kind)
    assert len(kinds) >= 200 and len(set(kinds)) == 11


def respelled(rng, line, goal):
    """The same line in other words: spaces, a comment, the arguments in another order."""
    line = re.sub(r"([=+*,-])", r" \1 ", line) if rng.random() < 0.5 else line.replace(", ", ",")
    if goal["kind"] == "add" and rng.random() < 0.5:
        line = re.sub(rf"\( *{goal['old']}([^(),]*),([^()]*)\)", rf"(\2, {goal['old']}\1)", line, count=1)
    return line + rng.choice(("", " ", "  # done"))


def test_right_final_states_are_accepted_by_any_route(task):
    rng = random.Random(1)
    for instance in task.instances("train", 26, diversity=8):
        for _ in range(2):
            *calls, _, submit = plan(task, instance)
            rng.shuffle(calls)  # writing before reading is right too, where the line is right
            calls = [
                Call("edit", (c.args[0], respelled(rng, c.args[1], instance.goal))) if c.tool == "edit" else c
                for c in calls
            ]
            before = list(written(instance).items())
            noise = [f'code("{rng.choice(before)[0]}")', 'places("nobody")', 'edit("x:9", "a = 1")', "calc(1)", "hm"]
            noise += [Call("edit", rng.choice([row for row in before if row[0] not in instance.data["after"]]))]
            for call in rng.sample(noise, 3):
                calls.insert(rng.randrange(len(calls)), call)
            place, line = rng.choice(before)
            right = instance.data["after"].get(place, line)
            calls = [Call("edit", (place, "oops = 1")), *calls, Call("edit", (place, right)), submit]
            episode = run(task, instance, calls)
            assert episode.trajectory.success, (episode.trajectory.feedback, calls)


def test_the_unit_tests_find_a_definition_that_no_longer_works(task):
    """The shape of what is computed is free as to the two names, so this is where the unit tests decide."""
    for instance in task.instances("train", 4, diversity=4):
        goal, calls = instance.goal, writes(instance)
        i = next(i for i, call in enumerate(calls) if call.args[1].startswith("def "))
        place, line = calls[i].args
        head, body = line.split(": ", 1)
        swapped = {goal["old"]: goal["new"], goal["new"]: goal["old"]}
        calls[i] = Call(
            "edit", (place, f"{head}: " + re.sub(r"\w+", lambda m, swapped=swapped: swapped.get(m[0], m[0]), body))
        )
        assert finish(task, instance, calls).feedback == "The unit tests of the repository fail."


def test_the_unit_tests_fail_before_and_pass_after_and_run_once(task):
    for instance in task.instances("train", 2, diversity=4)[:2]:
        before = refactor._by_place(instance.data["files"])
        for lines, passes in ((before, False), (before | instance.data["after"], True)):
            sources = tuple((name, ast.unparse(tree)) for name, tree in refactor._parse(lines).items())
            assert refactor.tests_pass(sources, instance.data["tests"]) is passes
            misses = refactor.tests_pass.cache_info().misses
            assert refactor.tests_pass(sources, instance.data["tests"]) is passes
            assert refactor.tests_pass.cache_info().misses == misses


@pytest.mark.parametrize("check, passes", [
    ("print('x', file=open('mark', 'w'), flush=True)", False),
    ("__import__('socket').create_connection(('127.0.0.1', 9))", False),
    ("__import__('subprocess').run(['true'])", False),
    ("__import__('os').fork()", False),
    ("bytearray(1 << 30)", False),
    ("self.assertFalse({*__import__('os').environ} - {'LC_CTYPE'})", True),
])  # fmt: skip
def test_the_process_of_the_unit_tests_is_confined(check, passes):
    tests = f"import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        {check}\n"
    assert refactor.tests_pass((), tests) is passes


def test_tests_that_cannot_be_run_are_a_fault():
    with pytest.raises(RuntimeError, match="could not be run"):
        refactor.tests_pass((), "not python")


# ---- cheats


CHEATS = [
    "{result} = {right} + exit()",
    "{result} = [{right}, __import__('os').getpid()][0]",
    "{result} = (lambda: {right})()",
    "{result} = wrong = {right}",
    "{result} = {right} if 1 else 0",
    "{result} = eval('1')",
    "{result} = {right} + 0",
    "{result}: int = {right}",
    "{result} = {right}.real",
    "def {result}(a=exit()): return 1",
    "{result} = {value}",
    "{result} = {function}(**dict({new}={value}))",
    "{result} = {function}({value})",
    "{result} = {function}({new}={value}, {new}={value})",
    "{result} = {function}({new}={value}.0)",
    "{result} = {function}({old}={value})",
    "{result} = {function}({old}={value}, {new}={value})",
    "{result} = {function}({new}=-{value})",
    "{Result} = {right}",
]


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_is_refused_and_never_run(task, cheat, monkeypatch):
    monkeypatch.setattr(refactor, "tests_pass", lambda *_: pytest.fail("the line was run"))
    for instance in task.instances("train", 4, diversity=4):
        calls, goal = writes(instance), instance.goal
        i = next(i for i, call in enumerate(calls) if " = " in call.args[1] and "def" not in call.args[1])
        place, line = calls[i].args
        result, right = line.split(" = ", 1)
        words = {**goal, "result": result, "Result": result.title(), "right": right, "value": int(numbers_in(line)[0])}
        calls[i] = Call("edit", (place, cheat.format_map(words)))
        assert not finish(task, instance, calls).success


@pytest.mark.parametrize("cheat", [
    "def {function}({new}, *more): return {new} * base",
    "def {function}({new}=1): return {new} * base",
    "def {function}({new}, {old}=1): return {new} * base",
    "def {function}({old}=1, {new}=1): return {old} * base",
    "def {function}(**names): return 12 * base",
    "def {function}({new}): exit(); return {new} * base",
    "def {function}({new}): return {new} * eval('base')",
    "def {function}({new}: exit()): return {new} * base",
    "def {function}({new}) -> exit(): return {new} * base",
    "async def {function}({new}): return {new} * base",
    "{function} = lambda {new}: {new} * base",
    "def {function}2({new}): return {new} * base",
])  # fmt: skip
def test_a_cheat_in_the_definition_is_refused_and_never_run(task, cheat, monkeypatch):
    monkeypatch.setattr(refactor, "tests_pass", lambda *_: pytest.fail("the line was run"))
    for instance in task.instances("train", 4, diversity=4):
        calls = writes(instance)
        i = next(i for i, call in enumerate(calls) if call.args[1].startswith("def "))
        calls[i] = Call("edit", (calls[i].args[0], cheat.format_map(instance.goal)))
        assert not finish(task, instance, calls).success


def test_a_coding_mark_in_a_comment_never_reaches_the_process(task, monkeypatch):
    """A file says in a comment how it is to be decoded, and some codings turn a comment into code."""
    ran = []
    monkeypatch.setattr(refactor, "tests_pass", lambda sources, tests: ran.append(sources) or True)
    [instance] = task.instances("train", 1)
    place = next(
        p for p in refactor._by_place(instance.data["files"]) if p.endswith(":2") and p not in instance.data["after"]
    )
    line = refactor._by_place(instance.data["files"])[place]
    mark = Call("edit", (place, f"{line}  # coding: utf-7 +AAo-import os"))
    assert finish(task, instance, [*writes(instance), mark]).success
    assert ran and not any("#" in source for _, source in ran[0])


def test_odd_arguments_bring_nothing(task):
    for instance in task.instances("train", 2, diversity=4):
        answer = instance.data["answer"]
        for last in (
            f"submit(-{answer})",
            f'submit("{answer}x")',
            'submit("nan")',
            "submit(1e999)",
            f"submit({answer + 1e-2})",
        ):
            assert not run(task, instance, [*writes(instance), last]).trajectory.success
        upper = [Call("edit", (c.args[0].upper(), c.args[1])) for c in writes(instance)]
        padded = [Call("edit", (f" {c.args[0]}", c.args[1])) for c in writes(instance)]
        assert not finish(task, instance, upper).success and not finish(task, instance, padded).success
        assert not run(task, instance, [Call("submit", (answer,)), *writes(instance)]).trajectory.success


# ---- the expert in somebody else's episode


def continued(task, instance, calls, harness=None, **style):
    episode = run(task, instance, calls, harness=harness)
    return play_expert(ScriptedExpert(**style), episode)


def detours(rng, instance):
    """Harmless beginnings: what is read before it is written over can be put right."""
    before, goal = written(instance), instance.goal
    place, other = rng.sample(sorted(before), 2)
    read = [Call("code", (place,)), Call("code", (other,))]
    yield [Call("calc", ("1+1",)), "hm", 'code("x:1")', 'places("nobody")']
    yield [*read, Call("edit", (place, "oops = 1")), Call("code", (place,))]
    yield [*read, Call("edit", (place, f"def {goal['function']}(): return 1")), Call("edit", (other, "a = 2"))]
    yield [*read, Call("edit", (place, before[place])), *read]
    yield [Call("places", (goal["function"],)), *(Call("code", (p,)) for p in instance.data["after"])]
    yield [Call("code", (p,)) for p in before] + [Call("edit", (p, everywhere(before[p], goal))) for p in before]
    some = list(instance.data["after"].items())[:2]
    yield [c for p, line in some for c in (Call("code", (p,)), Call("edit", (p, line.replace(" = ", "=") + "  # ok")))]


@pytest.mark.parametrize("style", [{"persistence": 1.0}, {"persistence": 0.0, "directness": 1.0}], ids=str)
def test_the_expert_goes_on_after_harmless_detours(task, style):
    rng = random.Random(2)
    for instance in task.instances("train", 6, diversity=8):
        for harness in HARNESSES[:2]:
            for calls in detours(rng, instance):
                assert continued(task, instance, calls, harness, **style).success, calls


def test_the_expert_leaves_a_right_line_in_another_spelling(task):
    [instance] = task.instances("train", 1)
    place, line = list(instance.data["after"].items())[0]
    calls = [Call("code", (place,)), Call("edit", (place, line.replace("=", " = ").replace("  ", " ")))]
    trajectory = continued(task, instance, calls)
    assert trajectory.success and [c.args[0] for c in trajectory.calls if c.tool == "edit"].count(place) == 1


def test_a_persistent_expert_reads_on_where_the_student_reads_first(task):
    [instance] = task.instances("train", 1)
    first, second, *rest = instance.data["after"]
    calls = [Call("places", (instance.goal["function"],)), Call("code", (first,)), Call("code", (second,))]
    tools = [call.tool for call in continued(task, instance, calls, persistence=1.0).calls]
    assert tools[3 : 3 + len(rest)] == ["code"] * len(rest)
    assert tools[3 + len(rest) :] == ["edit"] * (2 + len(rest)) + ["calc", "submit"]
    tools = [call.tool for call in continued(task, instance, calls, persistence=0.0, directness=0.0).calls]
    assert tools[3:5] == ["edit", "edit"]


def test_the_expert_gives_up_where_a_line_was_lost(task):
    for instance in task.instances("train", 4, diversity=4):
        for place in written(instance):
            lost = [Call("edit", (place, "oops = 1"))]
            for calls in (lost, [*lost, Call("code", (place,))]):
                trajectory = continued(task, instance, calls)
                assert trajectory.status == "out_of_turns" and len(trajectory.turns) == len(calls)


@pytest.mark.parametrize("hidden", ["edit", "submit", "code"])
def test_the_expert_knows_no_way_on_without_a_tool_that_it_needs(task, hidden):
    [instance] = task.instances("train", 1)
    harness = parse_harness(f'[tools]\nhide = ["{hidden}"]')
    assert not continued(task, instance, [], harness, directness=0.0).success
    without_calc = parse_harness('[tools]\nhide = ["calc"]')
    assert continued(task, instance, [], without_calc, directness=0.0).success


def test_the_expert_says_why_in_one_sentence(task):
    [instance] = task.instances("train", 1)
    episode = Episode(task, instance, Harness(), max_turns=40)
    expert = ScriptedExpert(directness=0.0)
    while not episode.done:
        call, why = expert.next(episode)
        assert why.endswith(".") and len(why) < 80
        episode.step(render_call(call))
    assert evaluate(episode.trajectory.calls[-2].args[0]) == instance.data["answer"]


# ---- words


def test_no_word_is_one_of_the_generic_rows():
    rows = tomllib.loads((Path(refactor.__file__).parents[1] / "preparation.toml").read_text(encoding="utf-8"))
    taken = set(re.findall(r"[a-z]+", str(rows).lower()))
    pools = (refactor.FUNCTIONS, refactor.PARAMETERS, refactor.FLAGS, refactor.MODULES)
    words = [*(word for pool in pools for word in pool), *refactor.RESULTS, *refactor.SPARES, "base", "memo"]
    assert len(words) == len(set(words)) and all(len(pool) >= 20 for pool in pools)
    assert {*words, "places", "code", "edit"} & taken == set()


def test_no_file_hides_a_module_of_python():
    assert not set(refactor.MODULES) & {*sys.stdlib_module_names, "checks"}
