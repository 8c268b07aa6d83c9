"""Hooks restate, list and refuse; they read the trajectory alone and never say what to call with what (rule 1)."""

import ast
import dataclasses
import inspect
import random
import re

import pytest

from coevo_lib import hooks
from coevo_lib.agent import Episode
from coevo_lib.calls import Call, CallSyntaxError, parse_call, render_call
from coevo_lib.expert import ScriptedExpert
from coevo_lib.harness import Harness, parse_harness
from coevo_lib.hooks import CATALOGUE, Past
from coevo_lib.rollouts import random_episode
from coevo_lib.trajectory import Fact, Trajectory, Turn

SIGNATURES = {"boxes": (), "open": ("box",), "calc": ("expression",), "submit": ("answer",)}
FIELDS = {
    "tools": ["submit", "calc"], "first": "boxes", "each": "open", "before": "calc", "every": 2, "temperature": 0.8, "share": 0.5, "tries": 2,
    "source": "open", "asked": "open", "answer": "12", "then": ["calc"], "errors": True,
}  # fmt: skip
FILLED = {
    "attendance": {"first": "staff", "each": "hours", "before": "staff"},
    "shopadmin": {"first": "pages", "each": "page", "before": "filter"},
    "mock": {"first": "boxes", "each": "open", "before": "boxes"},
    "stock": {"first": "products", "each": "stock", "before": "products"},
}
WRITERS = {"stock": ["requisition"]}  # tools that take an item and a value


def hook(kind, **fields):
    """A hook of the catalogue with plausible parameters."""
    names = kind.model_fields.keys() - {"hook"}
    return kind(hook=kind.model_fields["hook"].annotation.__args__[0], **{n: {**FIELDS, **fields}[n] for n in names})


def turn(text, value=None, status="ok", observation=None):
    call = parse_call(text)
    facts = [] if status != "ok" else [Fact(call, value)]
    shown = ", ".join(value) if isinstance(value, list) else str(value)
    return Turn(text, call, observation or (f"{status}: no" if status != "ok" else shown), status, facts)


def past(*turns, prompt="How many coins are in the boxes?"):
    return Past(prompt, list(turns), SIGNATURES)


LISTED = turn("boxes()", ["red", "blue"])
RED, BLUE = turn('open("red")', 12), turn('open("blue")', 30)


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


def test_pairing_guard_refuses_a_value_of_another_item():
    guard = hook(hooks.PairingGuard, tools=["label"])
    seen = past(
        LISTED,
        turn('open("red")', "12 old coins"),
        turn('open("blue")', "120 new coins, 3.5 kg"),
        turn('calc("12+30")', 42),
    )
    for fine in [
        ("red", "12 old coins"),
        ("red", 12),
        ("blue", "new"),
        ("blue", 3.5),
        ("red", 42),
        ("blue", "boxes"),
        ("red",),
        (),
    ]:
        assert guard.refuse(Call("label", fine), seen) is None, fine
    assert guard.refuse(Call("label", ("red", "new")), seen) == "new was never shown for red"
    for wrong in [("red", 120), ("blue", 12), ("blue", 3), ("blue", 5), ("red", 2), ("green", 12), ("red", "old (")]:
        assert guard.refuse(Call("label", wrong), seen), wrong
    assert guard.refuse(Call("open", ("red", "new")), seen) is None, "only the tools named"


def test_grounding_guard_refuses_what_was_never_shown():
    guard = hook(hooks.GroundingGuard, tools=["calc", "open", "submit"])
    seen = past(LISTED, RED, BLUE)
    assert guard.refuse(Call("calc", ("12+30",)), seen) is None
    assert guard.refuse(Call("calc", ("12+31+7",)), seen).startswith("31")
    assert guard.refuse(Call("open", ("green",)), seen) == "green was never shown"
    assert guard.refuse(Call("open", ("red",)), seen) is None
    assert guard.refuse(Call("submit", (42,)), seen) == "42 was never shown"
    assert guard.refuse(Call("submit", (30,)), seen) is None
    assert hook(hooks.GroundingGuard, tools=["calc"]).refuse(Call("submit", (42,)), seen) is None, (
        "only the tools named"
    )


def test_grounding_guard_refuses_a_number_used_more_often_than_shown():
    guard = hook(hooks.GroundingGuard, tools=["calc"])
    assert guard.refuse(Call("calc", ("12+12",)), past(LISTED, RED)) == "12 is used more often than it was shown"
    assert guard.refuse(Call("calc", ("12+12",)), past(LISTED, RED, turn('open("blue")', 12))) is None


def test_coverage_guard_names_the_items_whose_numbers_are_left_out():
    guard = hook(hooks.CoverageGuard, tools=["calc"], share=0.5)
    seen = past(LISTED, RED, BLUE)
    assert guard.refuse(Call("calc", ("12+30",)), seen) is None
    assert guard.refuse(Call("calc", ("12+7",)), seen) == "too little of blue is used"
    assert guard.refuse(Call("calc", ("7",)), seen) == "too little of red, blue is used"
    assert guard.refuse(Call("submit", (7,)), seen) is None, "only the tools named"


def test_finish_guard_waits_for_every_listed_item():
    guard = hook(hooks.FinishGuard, tools=["submit"])
    submit = Call("submit", (3,))
    assert "nothing is listed yet" in guard.refuse(submit, past())
    assert guard.refuse(submit, past(LISTED)) == "open(box) is still missing for red, blue"
    assert guard.refuse(submit, past(LISTED, BLUE)) == "open(box) is still missing for red"
    assert guard.refuse(submit, past(LISTED, BLUE, turn('open("red")', status="refused"))) is not None, (
        "a refused call read nothing"
    )
    assert guard.refuse(submit, past(LISTED, BLUE, RED)) is None
    assert guard.refuse(Call("calc", ("1+1",)), past()) is None


def test_order_guard_waits_for_one_answered_call():
    guard = hook(hooks.OrderGuard, tools=["submit"], before="calc")
    assert guard.refuse(Call("submit", (3,)), past()) == "calc(expression) comes first"
    assert guard.refuse(Call("submit", (3,)), past(turn('calc("a")', status="error"))) is not None
    assert guard.refuse(Call("submit", (3,)), past(turn('calc("1+2")', 3))) is None
    assert guard.refuse(Call("open", ("red",)), past()) is None


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
    assert made.repair("boxes()", past()) == "boxes()"
    assert made.note(past()) is None and made.heat(past()) is None
    made.refuse(Call("submit", (1,)), past())
    acts = [name for name in ("repair", "refuse", "note", "heat") if name in vars(kind)]
    assert acts or kind is hooks.Retry, "only a new draw is no act on the trajectory"


# ---- rule 1


def test_hooks_see_the_task_text_the_turns_and_the_argument_names_only():
    assert [field.name for field in dataclasses.fields(Past)] == ["prompt", "turns", "signatures"]
    for kind in CATALOGUE:
        for act, arguments in {
            "repair": ["self", "text", "past"],
            "refuse": ["self", "call", "past"],
            "note": ["self", "past"],
            "heat": ["self", "past"],
        }.items():
            assert list(inspect.signature(getattr(kind, act)).parameters) == arguments
    imported = {
        node.module for node in ast.walk(ast.parse(inspect.getsource(hooks))) if isinstance(node, ast.ImportFrom)
    }
    assert not any("task" in module or "agent" in module or "expert" in module for module in imported)


def all_hooks(name):
    """Every hook of the catalogue with parameters that suit a task."""
    each = FILLED[name]["each"]
    fields = {**FILLED[name], "asked": each, "answer": "", "then": ["calc"], "source": each}
    tools = ["submit", "calc", fields["each"]]
    many = {
        hooks.GroundingGuard: tools,
        hooks.OrderGuard: tools,
        hooks.ListedGuard: [each],
        hooks.PairingGuard: WRITERS.get(name, tools[:2]),
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
    assert silent == {"argument_repair", "retry", "denial_guard"}, f"{silent} never spoke, so nothing was checked"


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
        for index, turn in enumerate(plain.turns):
            refusals = [e for e in turn.events if e.action == "refused"]
            if refusals:
                acted += 1
                before = Past(plain.prompt, plain.turns[:index], episode.toolbox.signatures())
                rule = next(r for r in rules if f"hooks:{r.hook}" == refusals[0].element)
                assert rule.refuse(turn.call, before) == refusals[0].text
                assert turn.observation.startswith(f"refused: {refusals[0].text}")
    assert acted > 5


@pytest.mark.parametrize("kind", CATALOGUE, ids=lambda kind: kind.__name__)
def test_a_hook_survives_the_harness_file(kind):
    made = hook(kind)
    harness = Harness.model_validate({"hooks": {"use": [made.model_dump()]}})
    assert parse_harness(harness.to_toml()).hooks.use == [made]


GIVE = {"write": ("box", "text"), "ask": ("question",), **SIGNATURES}


def told(guard, call, *turns):
    return guard.refuse(parse_call(call), Past("How many?", list(turns), GIVE))


def test_the_listed_guard_keeps_to_what_was_listed():
    guard = hook(hooks.ListedGuard, tools=["open", "write"])
    assert told(guard, 'open("green")', LISTED) == "green is not among red, blue"
    assert told(guard, 'write("gren", "x")', LISTED) == "gren is not among red, blue"
    assert told(guard, 'open("red")', LISTED) is None and told(guard, 'calc("1+2")', LISTED) is None
    assert told(guard, 'open("green")') is None, "nothing is listed yet"


@pytest.mark.parametrize(("call", "fits"), [
    ('calc("12+30")', True), ('calc("30+12")', True), ('calc("12+12")', False), ('calc("12")', False),
    ('calc("12+30+30")', False), ('calc("1+2")', False), ("submit(42)", True),
])  # fmt: skip
def test_the_source_guard_asks_for_just_the_numbers_that_were_given(call, fits):
    written = [turn('write("red", "coins 12")', "ok"), turn('write("blue", "coins 30")', "ok")]
    reason = told(hook(hooks.SourceGuard, tools=["calc"], source="write"), call, LISTED, *written)
    assert (reason is None) == fits
    assert fits or reason == "these are not all the numbers of write(box, text), each once"


def test_the_source_guard_does_not_count_a_number_in_the_items_name():
    written = [turn('write("file:4", "coins 12")', "ok")]
    guard = hook(hooks.SourceGuard, tools=["calc"], source="write")
    assert told(guard, 'calc("12")', *written) is None and told(guard, 'calc("12+4")', *written)


def test_the_answer_guard_asks_for_what_follows_an_answer():
    guard = hook(hooks.AnswerGuard, asked="ask", answer="yes", then=["write", "calc"])
    yes, no = turn('ask("3<5")', "yes"), turn('ask("5<3")', "no")
    assert told(guard, 'open("red")', LISTED, yes) == "after ask said yes comes write(box, text) or calc(expression)"
    assert told(guard, 'write("red", "x")', LISTED, yes) is None
    assert told(guard, 'open("red")', LISTED, no) is None and told(guard, 'open("red")', yes, LISTED) is None
    refused = turn('open("red")', status="refused")
    assert told(guard, 'open("red")', yes, refused), "a refused call in between is no answer to it"
    assert told(guard, 'open("red")') is None
    always = hook(hooks.AnswerGuard, asked="ask", answer="", then=["write"])
    assert told(always, 'open("red")', no) == "after ask comes write(box, text)"


def test_the_denial_guard_keeps_a_denied_number_out_of_a_computation():
    guard = hook(hooks.DenialGuard, tools=["calc"], asked="ask", answer="no")
    asked = [turn('ask("8*19<=149")', "no"), turn('ask("6*16<=103")', "yes"), turn('ask("8*12<=99")', "yes")]
    assert told(guard, 'calc("8*19")', *asked) == "ask said no to 19"
    assert told(guard, 'calc("6*16+8*12")', *asked) is None, "8 was also in what it said yes to"
    assert told(guard, "submit(19)", *asked) is None and told(guard, 'calc("8*19")') is None


def test_a_pairing_guard_reads_a_value_of_several_words_word_by_word():
    guard = hook(hooks.PairingGuard, tools=["write"])
    seen = turn('open("red")', "due = gain(rank=12)", observation="due = gain(rank=12)")
    assert told(guard, 'write("red", "due = gain(many=12)")', seen) is None, "many stands in the prompt"
    assert told(guard, 'write("red", "due = gain(many=12) - toll")', seen) == "toll was never shown for red"
    assert told(guard, 'write("red", "due = gain(many=13)")', seen) == "13 was never shown for red"
