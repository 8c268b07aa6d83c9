"""Hooks restate, list and refuse; they read the trajectory alone and never say what to call with what (rule 1)."""

import ast
import dataclasses
import inspect
import random
import re

import pytest
from hook_cases import BLUE, LISTED, RED, hook, past, turn

from coevo_lib import guards, hooks
from coevo_lib import past as past_module
from coevo_lib.agent import Episode
from coevo_lib.calls import Call, CallSyntaxError, parse_call, render_call
from coevo_lib.expert import ScriptedExpert
from coevo_lib.harness import Harness, parse_harness
from coevo_lib.hooks import CATALOGUE
from coevo_lib.past import Past
from coevo_lib.rollouts import random_episode
from coevo_lib.trajectory import Trajectory

FILLED = {
    "attendance": {"first": "staff", "each": "hours", "before": "staff"},
    "shopadmin": {"first": "pages", "each": "page", "before": "filter"},
    "mock": {"first": "boxes", "each": "open", "before": "boxes"},
    "stock": {"first": "products", "each": "stock", "before": "products"},
}
WRITERS = {"stock": ["requisition"]}  # tools that take an item and a value


@pytest.mark.parametrize("text, mended", [
    ('open("red', 'open("red")'), ('open("red"', 'open("red")'), ("boxes(", "boxes()"), ('`open("red")`', 'open("red")'),
    ('I will look.\nopen("red")\nThen the rest.', 'open("red")'), ('open("red")\nopen("blue")', 'open("red")'),
    ('calc("(1+2)*3', 'calc("(1+2)*3")'), ("submit(12", "submit(12)"), ("I do not know", "I do not know"), ("boxes", "boxes"), ("", ""),
    ('steal("red', 'steal("red'),
])  # fmt: skip
def test_argument_repair_mends_form_only(text, mended):
    assert hook(hooks.ArgumentRepair).repair(text, past()) == mended


@pytest.mark.parametrize(
    "call", [Call("boxes"), Call("open", ("red",)), Call("submit", (12.5,)), Call("calc", ("(1+2)*3",))]
)
def test_argument_repair_leaves_a_readable_call_as_it_is(call):
    text = render_call(call)
    assert hook(hooks.ArgumentRepair).repair(text, past()) == text


@pytest.mark.parametrize("text", ['calc("(1+2")', "open('the \"red')", 'boxes()\nopen("none")'])
def test_a_reply_that_can_be_read_is_not_mended(mock, played, text):
    harness = parse_harness('hooks.use = [{hook = "argument_repair"}]')
    [turn] = played(mock, mock.instances("train", 1)[0], [text], harness).turns
    assert turn.call == parse_call(text) and turn.events == [] and turn.status == "error"


@pytest.mark.parametrize(("tool", "arg", "meant"), [
    ("open", " red", "red"), ("open", "box red", "red"), ("open", "Box: deep red ", "deep red"), ("open", "box", "box"),
    ("open", "boxred", "boxred"), ("open", "the box red", "the box red"), ("open", "red box", "red box"), ("open", 12, 12),
    ("steal", " box red", "box red"), ("open", "", ""),
])  # fmt: skip
def test_argument_trim_takes_off_blanks_and_the_arguments_own_name(tool, arg, meant):
    assert hook(hooks.ArgumentTrim).mend(Call(tool, (arg,)), past()) == Call(tool, (meant,))


def test_a_trimmed_call_runs_as_it_was_meant_and_leaves_an_event(mock, played):
    instance = mock.instances("train", 1)[0]
    box, harness = list(instance.data["boxes"])[0], parse_harness('hooks.use = [{hook = "argument_trim"}]')
    texts = ["boxes()", f'open("box {box}")', f'open("{box}")']
    turns = played(mock, instance, texts, harness).turns
    assert turns[1].call == turns[2].call and turns[1].observation == turns[2].observation and turns[1].status == "ok"
    assert [(e.element, e.action, e.text) for e in turns[1].events] == [("hooks:argument_trim", "repaired", texts[2])]
    assert turns[1].text == texts[1] and turns[2].events == []
    assert played(mock, instance, texts).turns[1].status == "error", "without the hook"


def test_loop_breaker_refuses_what_was_answered_and_warms_the_next_turn():
    guard = hook(hooks.LoopBreaker)
    assert guard.refuse(Call("open", ("red",)), past(LISTED, RED)) == "this was already answered above"
    assert guard.refuse(Call("open", ("blue",)), past(LISTED, RED)) is None
    assert guard.refuse(Call("open", ("red",)), past(turn('open("red")', status="error"))) is None, (
        "an error may be tried again"
    )
    assert guard.heat(past(LISTED, turn("boxes()", status="refused"))) == 0.8
    assert guard.heat(past(LISTED)) is None and guard.heat(past()) is None
    assert hook(hooks.LoopBreaker, temperature=0.0).heat(past(turn("boxes()", status="refused"))) is None


def test_the_ledger_restates_every_answer_so_far():
    assert hook(hooks.Ledger).note(past(LISTED)) is None
    assert hook(hooks.Ledger).note(past(LISTED, RED, BLUE)) == "known so far: red 12; blue 30"


def test_the_unread_list_names_what_is_open():
    listing = hook(hooks.UnreadList)
    assert listing.note(past()) is None
    assert listing.note(past(LISTED, RED)) == "open: blue"
    assert listing.note(past(LISTED, RED, BLUE)) == "nothing is open"


def test_the_reminder_repeats_the_task_now_and_then():
    reminder = hook(hooks.Reminder, every=2)
    notes = [reminder.note(past(*[LISTED] * n)) for n in range(5)]
    assert [bool(note) for note in notes] == [False, False, True, False, True]
    assert notes[2] == "the task: How many coins are in the boxes?"


@pytest.mark.parametrize("kind", CATALOGUE, ids=lambda kind: kind.__name__)
def test_a_hook_without_an_act_of_a_kind_does_nothing_there(kind):
    """Every hook acts in at least one way, and an empty past upsets none."""
    made = hook(kind)
    assert made.repair("boxes()", past()) == "boxes()" and made.mend(Call("boxes"), past()) == Call("boxes")
    assert made.note(past()) is None and made.heat(past()) is None
    made.refuse(Call("submit", (1,)), past())
    acts = [name for name in ("repair", "mend", "refuse", "note", "heat") if name in vars(kind)]
    assert acts or kind is hooks.Retry, "only a new draw is no act on the trajectory"


# ---- rule 1


def test_hooks_see_the_task_text_the_turns_and_the_argument_names_only():
    assert [field.name for field in dataclasses.fields(Past)] == ["prompt", "turns", "signatures"]
    for kind in CATALOGUE:
        for act, arguments in {
            "repair": ["self", "text", "past"],
            "mend": ["self", "call", "past"],
            "refuse": ["self", "call", "past"],
            "note": ["self", "past"],
            "heat": ["self", "past"],
        }.items():
            assert list(inspect.signature(getattr(kind, act)).parameters) == arguments
    sources = [ast.parse(inspect.getsource(module)) for module in (hooks, guards, past_module)]
    imported = {node.module for tree in sources for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any("task" in module or "agent" in module or "expert" in module for module in imported)


def all_hooks(name):
    """Every hook of the catalogue with parameters that suit a task."""
    each = FILLED[name]["each"]
    fields = {**FILLED[name], "asked": each, "answer": "", "then": ["calc"], "source": each}
    tools = ["submit", "calc", fields["each"]]
    many = {
        guards.GroundingGuard: tools,
        guards.OrderGuard: tools,
        guards.ListedGuard: [each],
        guards.PairingGuard: WRITERS.get(name, tools[:2]),
    }
    return [hook(kind, **{**fields, "tools": many.get(kind, tools[:2])}) for kind in CATALOGUE]


def walks(task, harness, n):
    """Episodes that are partly the expert's and partly random, so that they get far and go wrong."""
    for index, instance in enumerate(task.instances("evolve", n)):
        rng = random.Random(index)
        episode = Episode(task, instance, harness, max_turns=14)
        stray = iter(random_episode(task, instance, harness, max_turns=40, seed=index).turns)
        expert = ScriptedExpert(directness=0.0, persistence=rng.choice([0.0, 1.0]))
        while not episode.done:
            step = expert.next(episode) if rng.random() < 0.6 else None
            text = render_call(step[0]) if step else getattr(next(stray, None), "text", "submit(1)")
            yield episode, expert
            episode.step(text)


def calls_written_in(text):
    """Every complete call with arguments that can be read anywhere in a text."""
    for match in re.finditer(r"[a-z_]\w*\([^()]*\)|[a-z_]\w*\(.*\)", text):
        try:
            call = parse_call(match[0])
        except CallSyntaxError:
            continue
        if call.args:
            yield call
    for match in re.finditer(r"\{[^{}]*\}", text):
        try:
            yield parse_call(match[0], "json")
        except CallSyntaxError:
            continue


@pytest.mark.parametrize("name", FILLED)
def test_no_refusal_or_note_spells_out_a_call(tasks, name, harnesses):
    task, said = tasks[name], {}
    for harness in harnesses(task):
        for episode, expert in walks(task, harness, 12):
            seen, ahead = episode.past, expert.next(episode)
            tools = list(episode.toolbox.signatures())
            answer = f"{episode.instance.data['answer']:g}"
            for rule in all_hooks(name):
                tried = [
                    Call(tool, args) for tool in tools for args in ((), (7,), ("1+2",), ("nobody",), ("nobody", 0.5))
                ]
                tried += [call for call in episode.trajectory.calls if call]
                tried += [ahead[0]] if ahead else []
                texts = [rule.note(seen), *(rule.refuse(call, seen) for call in tried)]
                for text in filter(None, texts):
                    said[rule.hook] = said.get(rule.hook, 0) + 1
                    assert not list(calls_written_in(text)), text
                    assert not (ahead and ahead[0].args and render_call(ahead[0]) in text), text
                    if answer not in seen.text() and not (ahead and ahead[0].tool == "submit"):
                        assert answer not in re.findall(r"[\d.]+", text), f"{text} holds the answer before it was shown"
    silent = {kind.model_fields["hook"].annotation.__args__[0] for kind in CATALOGUE} - set(said)
    assert silent == {"argument_repair", "argument_trim", "retry", "denial_guard"}, (
        f"{silent} never spoke, so nothing was checked"
    )


@pytest.mark.parametrize("text, spelled", [
    ("hours(name) is still missing for Ivy", False), ("first hours('Ivy')", True), ('say {"tool": "hours", "args": ["Ivy"]}', True),
    ("calc(expression) comes first", False), ("(open: red, blue)", False), ('call calc("(1+2)*3") now', True),
])  # fmt: skip
def test_the_check_for_spelled_out_calls_can_fail(text, spelled):
    assert bool(list(calls_written_in(text))) == spelled


@pytest.mark.parametrize("name", FILLED)
def test_every_act_of_a_hook_follows_from_the_written_trajectory_alone(tasks, name):
    """Read back from its JSON, without world or instance, a trajectory makes the hooks say the same again."""
    task, rules = tasks[name], all_hooks(name)
    harness = Harness.model_validate({"hooks": {"use": [rule.model_dump() for rule in rules]}})
    acted = 0
    for instance in task.instances("evolve", 10):
        episode = random_episode(task, instance, harness, max_turns=14)
        plain = Trajectory.from_json(episode.trajectory.to_json())
        for index, made in enumerate(plain.turns):
            refusals = [e for e in made.events if e.action == "refused"]
            if refusals:
                acted += 1
                before = Past(plain.prompt, plain.turns[:index], episode.toolbox.signatures())
                rule = next(r for r in rules if f"hooks:{r.hook}" == refusals[0].element)
                assert rule.refuse(made.call, before) == refusals[0].text
                assert made.observation.startswith(f"refused: {refusals[0].text}")
    assert acted > 5


@pytest.mark.parametrize("kind", CATALOGUE, ids=lambda kind: kind.__name__)
def test_a_hook_survives_the_harness_file(kind):
    made = hook(kind)
    harness = Harness.model_validate({"hooks": {"use": [made.model_dump()]}})
    assert parse_harness(harness.to_toml()).hooks.use == [made]
