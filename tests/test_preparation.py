"""The generic rows that prepare the student share nothing with the tasks, and are right in themselves (rule 4)."""

import ast
import inspect
import keyword
import re
import textwrap

import pytest

from coevo_lib import hooks, student
from coevo_lib.arithmetic import ArithmeticSyntaxError, evaluate, numbers_in
from coevo_lib.calls import CallSyntaxError, parse_call
from coevo_lib.preparation import generic_rows
from coevo_lib.task import SPLITS
from coevo_lib.toolbox import show_value

REFUSALS = ("denied:", "blocked:", "not accepted:", "stop:", "rejected:", "problem:", "failed:", "invalid:")


@pytest.fixture(scope="module")
def rows():
    return generic_rows(student.GENERIC_ROWS, student.SEED)


@pytest.fixture(scope="module")
def text(rows):
    return "\n".join(message["content"] for row in rows for message in row["messages"])


def form_of(row):
    return "json" if '{"tool"' in row["messages"][0]["content"] else "python"


def words_in(text):
    """Every word of a text in lower case; a tool's name is one word."""
    return set(re.findall(r"[a-z_]+", text.lower()))


def test_no_tool_of_a_task_occurs_in_a_generic_row(tasks, text):
    names = {name for task in tasks.values() for name in task.world.tools()}
    assert {"hours", "filter", "open", "calc", "submit"} <= names
    assert names & words_in(text) == set()


def leaves(value, top=True):
    """Every string of an instance's data, and every key below the top: names, statuses, fields, lines of code."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from [] if top else [key]
            yield from leaves(inner, False)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, False)
    elif isinstance(value, str):
        yield value


EVERYDAY = {"name", "text", *map(str.lower, keyword.kwlist)}  # keys, and words of the language, that are no entity


def test_no_entity_of_a_task_occurs_in_a_generic_row(tasks, text):
    for task in tasks.values():
        entities = {
            word
            for split in SPLITS
            for instance in task.instances(split, 40, diversity=8)
            for leaf in leaves(instance.data)
            for word in words_in(leaf)
        }
        assert len(entities) >= 8
        assert (entities - EVERYDAY) & words_in(text) == set(), task.name


def hook_phrases():
    """Every fixed piece of a sentence in the hooks' refusals and notes."""
    found = set()
    for kind in hooks.CATALOGUE:
        for act in ("refuse", "note"):
            if act in vars(kind):
                tree = ast.parse(textwrap.dedent(inspect.getsource(vars(kind)[act])))
                strings = [
                    node.value
                    for node in ast.walk(tree)
                    if isinstance(node, ast.Constant) and isinstance(node.value, str)
                ]
                found |= {string.strip(" ,;") for string in strings}
    return {phrase for phrase in found if len(phrase.split()) > 1 or phrase.endswith(":")}


def test_no_wording_of_a_hook_occurs_in_a_generic_row(text):
    phrases = hook_phrases()
    assert {"comes first", "was never shown", "known so far:", "open:"} <= phrases
    assert [phrase for phrase in sorted(phrases) if phrase.lower() in text.lower()] == []
    assert [prefix for prefix in ("refused:", "error:", "refused", "no tool ") if prefix in text.lower()] == []


def test_few_rows_of_each_task_are_shown_and_only_from_the_prepare_split():
    assert student.ROWS_PER_TASK <= 9
    prepared = student.preparation_rows(generic=2)[2:]
    assert len(prepared) <= 9 * len(student.TASKS)
    for name in student.TASKS:
        sources = [row["source"] for row in prepared if row["source"].startswith(f"{name}/")]
        assert 0 < len(sources) <= 9 and all(source.startswith(f"{name}/prepare/") for source in sources)


def test_the_rows_of_a_task_are_stepwise_and_under_h0():
    for row in student.preparation_rows(generic=1)[1:]:
        said = [m["content"] for m in row["messages"] if m["role"] == "assistant"]
        assert said[-1].startswith("submit(") and any(call.startswith("calc(") for call in said)
        assert "_and_" not in row["messages"][0]["content"] and "Steps:" not in row["messages"][0]["content"]


def test_only_assistant_messages_carry_loss_and_the_last_always_does(rows):
    for row in rows:
        roles = [message["role"] for message in row["messages"]]
        assert roles[:2] == ["system", "user"] and set(roles[2::2]) == {"assistant"} and set(roles[3::2]) <= {"user"}
        assert len(row["mask"]) == len(roles) and roles[-1] == "assistant" and row["mask"][-1]
        assert not any(mask and role != "assistant" for mask, role in zip(row["mask"], roles))


def test_a_mistake_carries_no_loss_and_is_answered_with_a_refusal(rows):
    mistakes = 0
    for row in rows:
        places = [i for i, message in enumerate(row["messages"]) if message["role"] == "assistant"][:-1]
        for place in places:
            refused = row["messages"][place + 1]["content"].startswith(REFUSALS)
            assert refused != row["mask"][place], row["messages"][place : place + 2]
            mistakes += refused
    assert mistakes > len(rows) / 10


def test_what_carries_loss_is_a_readable_call_of_a_tool_that_is_shown(rows):
    for row in rows:
        shown = set(re.findall(r"^(?:- )?(\w+)\([\w, ]*\): ", row["messages"][0]["content"], re.M))
        for message, mask in zip(row["messages"], row["mask"]):
            if mask:
                assert parse_call(message["content"], form_of(row)).tool in shown


def test_every_computed_value_is_right_and_rests_on_numbers_shown_before(rows):
    computed = 0
    for row in rows:
        for place, (message, mask) in enumerate(zip(row["messages"][:-1], row["mask"])):
            if not mask:
                continue
            args = parse_call(message["content"], form_of(row)).args
            if len(args) != 1 or len(numbers_in(str(args[0]))) < 2:
                continue
            try:
                value = evaluate(args[0])
            except (ArithmeticSyntaxError, TypeError):
                continue
            computed += 1
            assert row["messages"][place + 1]["content"].split("\n")[0] == show_value(value)
            following = parse_call(row["messages"][-1]["content"], form_of(row))
            if place == len(row["messages"]) - 3:
                assert following.args == (value,)
            before = "\n".join(m["content"] for m in row["messages"][1:place])
            terms = len(args[0].split("+"))
            assert set(numbers_in(args[0])) <= {*numbers_in(before), terms}
    assert computed > len(rows) / 2


def test_the_rows_are_the_same_each_time_and_differ_by_seed(rows):
    assert generic_rows(40, student.SEED) == rows[:40]
    assert generic_rows(40, student.SEED + 1) != rows[:40]


def test_the_rows_are_broad(rows):
    systems = {row["messages"][0]["content"] for row in rows}
    assert len(systems) > 0.95 * len(rows)
    assert {form_of(row) for row in rows} == {"python", "json"}
    for furniture in ("Steps:", "Example:"):
        assert any(furniture in system for system in systems)


def test_the_check_for_words_can_fail():
    assert words_in('call hours(Complete); open("x")') == {"call", "hours", "complete", "open", "x"}
    assert "open" not in words_in("opened, list_open")
    with pytest.raises(CallSyntaxError):
        parse_call("I will look it up.")
