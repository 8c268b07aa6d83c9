"""What the meta-agent reads out of trajectories: relations between tools, and signatures of failures."""

import pytest

from coevo_lib.calls import parse_call
from coevo_lib.edits import Edit
from coevo_lib.guard_operators import denied_numbers, deserted, errors, other_numbers, unknown_items
from coevo_lib.harness import Harness
from coevo_lib.meta_agent import MetaAgent
from coevo_lib.operators import fields, form, planner
from coevo_lib.traces import Traces, denied, deserts, field_use, followers, left_unread, unlike, unlisted, untidy
from coevo_lib.trajectory import ERROR, OK, Fact, Trajectory, Turn

NAMES = {"red": 12, "blue": 30, "gray": 21}


def trajectory(*steps, success=True):
    """Of (call, answer) pairs; an answer of None is an error."""
    turns = []
    for text, answer in steps:
        call = parse_call(text)
        facts = [] if answer is None else [Fact(call, answer)]
        turns.append(Turn(text, call, str(answer), OK if facts else ERROR, facts))
    return Trajectory("i", "t", "evolve", Harness().id, "m", "How many?", turns, "finished", success)


def work(skip=(), items=NAMES, deny=("gray",), total=None, success=True):
    """Lists, reads each, asks about it, writes what got a yes, adds up what was written, hands it in."""
    steps = [("names()", list(NAMES))]
    for name, n in items.items():
        steps += [(f'read("{name}")', f"coins {n}"), (f'ask("{n}<25")', "no" if name in deny else "yes")]
        if name not in deny and name not in skip:
            steps.append((f'write("{name}", {n})', f"noted {n}"))
    total = total or "+".join(str(n) for name, n in items.items() if name not in deny)
    return trajectory(*steps, (f'calc("{total}")', 42), ("submit(42)", "done"), success=success)


GOOD = [work() for _ in range(5)]


@pytest.mark.parametrize(("signature", "failure"), [
    (unlisted("names", "read"), work(items={"red": 12, "bleu": 30}, success=False)),
    (unlike(["calc"], "write"), work(total="12+12", success=False)),
    (denied(["calc"], "ask", "no"), work(total="12+30+21", success=False)),
    (deserts("ask", "yes", ["write"]), work(skip=["blue"], success=False)),
])  # fmt: skip
def test_a_signature_holds_of_its_failure_and_of_no_success(signature, failure):
    assert signature(failure) and not any(map(signature, GOOD))


def test_answers_are_those_of_tools_that_say_few_things():
    assert Traces(GOOD, []).answers == {"ask": ["yes", "no"]}
    assert Traces(GOOD[:2], []).answers == {}, "too few calls to know"


def test_followers_count_what_came_next():
    assert followers(GOOD, "ask", "yes") == {"write": 10}
    assert followers(GOOD, "ask", "no") == {"calc": 5}
    assert followers(GOOD, "ask", "") == {"write": 10, "calc": 5}


@pytest.mark.parametrize(("operator", "failure", "hook"), [
    (unknown_items, work(items={"red": 12, "bleu": 30}, success=False),
     {"hook": "listed_guard", "tools": ["read"], "first": "names"}),
    (other_numbers, work(total="12+12", success=False), {"hook": "source_guard", "tools": ["calc"], "source": "write"}),
    (denied_numbers, work(total="12+30+21", success=False),
     {"hook": "denial_guard", "tools": ["calc"], "asked": "ask", "answer": "no"}),
    (deserted, work(skip=["blue"], success=False),
     {"hook": "answer_guard", "asked": "ask", "answer": "yes", "then": ["write"]}),
])  # fmt: skip
def test_an_operator_turns_a_signature_into_its_guard_with_and_without_retries(operator, failure, hook):
    edits = operator(Harness(), Traces(GOOD, [failure]))
    made = [[h.model_dump() for h in edit.harness.hooks.use] for edit in edits]
    assert [hook, {"hook": "retry", "tries": 4, "temperature": 0.7, "errors": False}] in made and [hook] in made
    assert operator(Harness(), Traces(GOOD, GOOD[:1])) == [], "nothing failed"


def test_what_a_success_does_is_never_refused():
    """One success that adds up something else takes the guard away."""
    failure = work(total="12+12", success=False)
    other = work(total="30+12+1")
    assert other_numbers(Harness(), Traces(GOOD, [failure])) and not other_numbers(
        Harness(), Traces([*GOOD, other], [failure])
    )


def test_errors_are_drawn_again_once_the_harness_says_so():
    failure = trajectory(("names()", list(NAMES)), ('read("bleu")', None), success=False)
    [edit] = errors(Harness(), Traces(GOOD, [failure]))
    assert edit.harness.hooks.use[0].errors and errors(edit.harness, Traces(GOOD, [failure])) == []


def test_a_later_guard_keeps_the_retries_of_an_earlier_one():
    failure = work(total="12+12", success=False)
    [first] = errors(Harness(), Traces(GOOD, [trajectory(('read("bleu")', None), success=False)]))
    second = other_numbers(first.harness, Traces(GOOD, [failure]))[0].harness
    assert [(hook.hook, getattr(hook, "errors", None)) for hook in second.hooks.use] == [
        ("source_guard", None),
        ("retry", True),
    ]


def test_an_edit_that_was_dropped_halves_the_weight_of_its_sort():
    agent = MetaAgent()
    edits = [Edit("composite tool", f"tools.composite:{n}", "", 3.0, Harness()) for n in "ab"]
    edits += [Edit("hook", "hooks:retry", "", 2.0, Harness()), Edit("hook", "hooks:ledger", "", 1.0, Harness())]
    assert [e.element for e in agent._ordered(edits)][0] == "tools.composite:a"
    agent.learn(edits[0], 3, 2, 12, False)
    assert [e.element for e in agent._ordered(edits)] == [
        "hooks:retry",
        "tools.composite:a",
        "tools.composite:b",
        "hooks:ledger",
    ]
    agent.learn(edits[2], 3, 5, 12, True)
    assert [e.element for e in agent._ordered(edits)][0] == "hooks:retry"


def record(kind, named="pay", n=4):
    """Reads records of three fields and adds up one of them, for one kind of task, or the products of two."""
    people = {f"p{i}": (10 + i, 40 + i, 70 + i) for i in range(n)}
    shown = {name: "plan {}, done {}, rate {}".format(*numbers) for name, numbers in people.items()}
    steps = [("names()", list(people)), *((f'read("{name}")', text) for name, text in shown.items())]
    terms = [str(done) if kind == "sum" else f"{done}*{rate}" for _, done, rate in people.values()]
    made = trajectory(*steps, (f'calc("{"+".join(terms)}")', 1), ("submit(1)", "done"))
    made.prompt = f"Give the {named}."
    return made


def test_a_field_is_used_where_its_numbers_go_into_later_calls():
    assert field_use([record("sum"), record("sum")], "read") == {"plan": 0.0, "done": 1.0, "rate": 0.0}
    assert field_use([record("sum"), record("product")], "read") == {"plan": 0.0, "done": 1.0, "rate": 0.5}
    assert field_use([record("sum", n=2)], "read") == {}, "too few to tell"


@pytest.mark.parametrize(("solved", "named", "kept", "share"), [
    ("sum sum sum", "hours", ["done"], 1.0), ("product sum product", "hours", ["done", "rate"], 0.5),
    ("sum sum sum", "rate", ["done", "rate"], 0.5), ("product product product", "hours", ["done", "rate"], 1.0),
])  # fmt: skip
def test_fields_that_no_success_uses_and_no_prompt_names_are_hidden(solved, named, kept, share):
    known = [record(kind, named) for kind in solved.split()]
    lost = trajectory(("names()", list(NAMES)), ("submit(3)", "done"), success=False)
    strict, plain = fields(Harness(), Traces([*known, lost], [lost]))
    assert strict.harness.context.fields == plain.harness.context.fields == {"read": kept}
    [guard] = [hook for hook in strict.harness.hooks.use if hook.hook == "coverage_guard"]
    assert guard.share == share and not plain.harness.hooks.use


@pytest.mark.parametrize(("text", "answer", "untidily"), [
    ('read("name red")', "error: name: nobody called 'name red'", True), ('read(" red")', "error: name: nobody called ' red'", True),
    ('read("rod")', "error: name: nobody called 'rod'", False), ('fly("name red")', "error: no tool fly", False),
])  # fmt: skip
def test_an_untidy_argument_is_one_that_trimming_would_mend(text, answer, untidily):
    turn = Turn(text, parse_call(text), answer, ERROR)
    lost = Trajectory("i", "t", "evolve", Harness().id, "m", "How many?", [turn], "finished", False)
    assert untidy(lost) == untidily and not any(map(untidy, GOOD))
    hooks = [edit.harness.hooks.use[0].hook for edit in form(Harness(), Traces([lost], [lost]))]
    assert hooks == (["argument_trim"] if untidily else [])


def test_items_are_left_unread_only_where_some_were_listed():
    signature = left_unread("names", "read")
    assert signature(work(items={"red": 12}, success=False)) and not any(map(signature, GOOD))
    assert not signature(trajectory(("submit(3)", "done"), success=False)), "nothing was listed"


def test_a_lost_way_asks_for_a_planner_once():
    lost = trajectory(*[("names()", list(NAMES))] * 3, success=False)
    [edit] = planner(Harness(), Traces([*GOOD, lost], [lost]))
    assert edit.harness.context.planner == 1 and edit.kind == "planner-executor split"
    assert planner(edit.harness, Traces([*GOOD, lost], [lost])) == []
