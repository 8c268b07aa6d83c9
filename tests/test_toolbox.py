"""Tools as a student meets them: what is shown, what is checked, what a composite does, and which harness fits a task."""

import pytest

from coevo_lib.calls import Call
from coevo_lib.errors import UserError
from coevo_lib.harness import Harness, parse_harness
from coevo_lib.task import ToolError
from coevo_lib.toolbox import Toolbox, check_harness, show_facts, show_value
from coevo_lib.trajectory import Fact


@pytest.fixture
def instance(mock):
    return mock.instances("train", 1)[0]


@pytest.fixture
def toolbox(mock, instance):
    return lambda text="": Toolbox(mock.world(instance.data), parse_harness(text))


def test_each_visible_tool_is_shown_in_one_line(toolbox):
    assert toolbox().describe().splitlines() == [
        "boxes(): names of the boxes", "open(box): coins in one box", "calc(expression): work out a sum such as 2*3+4",
        "submit(answer): hand in the final number",
    ]  # fmt: skip


def test_a_harness_may_reword_hide_and_combine(toolbox, with_composite, mock):
    text = (
        with_composite(mock)
        .to_toml()
        .replace("hide = []", 'hide = ["calc"]')
        .replace("[tools.docs]", '[tools.docs]\nopen = "look inside"')
    )
    lines = toolbox(text).describe().splitlines()
    assert lines == [
        "boxes_and_open(): all at once",
        "boxes(): names of the boxes",
        "open(box): look inside",
        "submit(answer): hand in the final number",
    ]


def test_a_call_gives_one_fact_with_typed_arguments(shopadmin, toolbox, instance):
    box, coins = next(iter(instance.data["boxes"].items()))
    assert toolbox().run(Call("open", (box,))) == [Fact(Call("open", (box,)), coins)]
    shop = Toolbox(shopadmin.world(shopadmin.instances("train", 1)[0].data), Harness())
    assert shop.run(Call("page", ("1",)))[0].call == Call("page", (1,))
    assert shop.run(Call("page", (1.0,)))[0].call == Call("page", (1,))


def test_a_composite_gives_the_facts_of_its_fixed_sequence(toolbox, with_composite, mock, instance):
    boxes = instance.data["boxes"]
    facts = toolbox(with_composite(mock, hidden=True).to_toml()).run(Call("boxes_and_open"))
    assert facts == [
        Fact(Call("boxes"), list(boxes)),
        *(Fact(Call("open", (box,)), coins) for box, coins in boxes.items()),
    ]
    assert show_facts(facts) == "\n".join(f"{box}: {coins}" for box, coins in boxes.items())


@pytest.mark.parametrize("call, message", [
    (Call("steal"), "no tool steal; the tools are boxes, open, calc, submit"),
    (Call("open"), r"open takes 1 argument \(box\), got 0"),
    (Call("boxes", ("red",)), r"boxes takes 0 arguments \(\), got 1"),
    (Call("submit", ("twelve",)), "answer: 'twelve' is not a number"),
    (Call("world"), "no tool world"),
    (Call("verdict"), "no tool verdict"),
    (Call("__init__", ("x",)), "no tool __init__"),
])  # fmt: skip
def test_a_wrong_call_is_refused_with_a_reason(toolbox, call, message):
    with pytest.raises(ToolError, match=message):
        toolbox().run(call)


@pytest.mark.parametrize("call", [Call("page", (1e999,)), Call("submit", (10**400,))])
def test_a_number_beyond_all_bounds_is_refused_with_a_reason(shopadmin, call):
    shop = Toolbox(shopadmin.world(shopadmin.instances("train", 1)[0].data), Harness())
    with pytest.raises(ToolError, match="number|answer"):
        shop.run(call)


def test_a_harness_may_show_some_numbers_of_an_answer_only(shopadmin, attendance, played):
    [instance] = shopadmin.instances("train", 1)
    texts = [f'filter("{instance.goal["status"]}")', "page(1)"]
    whole, trimmed = (
        played(shopadmin, instance, texts, parse_harness(text)).turns[1].observation
        for text in ("", 'context.fields = {page = ["paid"]}')
    )
    assert trimmed == ", ".join(f"paid {part.split()[-1]}" for part in whole.split(", ")) != whole
    [instance] = attendance.instances("train", 1)
    name = next(iter(instance.data["records"]))
    for words, shown in (("worked", True), ("nonsense", False)):
        harness = parse_harness(f'context.fields = {{hours = ["{words}"]}}')
        [turn] = played(attendance, instance, [f'hours("{name}")'], harness).turns
        assert (turn.observation == f"worked {instance.data['records'][name]['worked']}") == shown
        assert turn.facts[0].value == turn.observation, "nobody knows more than what was shown"


def test_a_hidden_tool_cannot_be_called_but_its_composite_works(toolbox, with_composite, mock):
    box = toolbox(with_composite(mock, hidden=True).to_toml())
    with pytest.raises(ToolError, match="no tool open; the tools are boxes_and_open, calc, submit"):
        box.run(Call("open", ("red",)))
    assert len(box.run(Call("boxes_and_open"))) == 3


def test_a_composite_of_a_tool_that_lists_nothing_is_an_error(toolbox):
    text = '[[tools.composite]]\nname = "both"\nfirst = "calc"\neach = "open"\ndoc = "x"'
    with pytest.raises(ToolError, match="calc gave no list"):
        toolbox(text).run(Call("both", ("1+1",)))


@pytest.mark.parametrize(
    "value, text",
    [(["a", "b"], "a, b"), ([], "none"), ([1, 2], "1, 2"), (3, "3"), (3.5, "3.5"), (2.0, "2"), ("x", "x")],
)
def test_an_answer_reads_well(value, text):
    assert show_value(value) == text
    assert show_facts([Fact(Call("t"), value)]) == text


@pytest.mark.parametrize("text, message", [
    ('tools.hide = ["opne"]', "mine: tools.hide: no tool 'opne'; use one of boxes, calc, open, submit"),
    ('tools.docs = {opne = "x"}', "mine: tools.docs: no tool 'opne'"),
    ('tools.hide = ["boxes", "open", "calc", "submit"]', "mine: tools.hide: hides every tool; leave at least one"),
    ('tools.composite = [{name = "open", first = "boxes", each = "open", doc = "x"}]', "mine: tools.composite.open.name: a tool of this name exists"),
    ('tools.composite = [{name = "both", first = "box", each = "open", doc = "x"}]', "mine: tools.composite.both.first: no tool 'box'"),
    ('tools.composite = [{name = "both", first = "boxes", each = "opne", doc = "x"}]', "mine: tools.composite.both.each: no tool 'opne'"),
    ('tools.composite = [{name = "both", first = "boxes", each = "boxes", doc = "x"}]', "mine: tools.composite.both.each: boxes takes 0 arguments; it must"),
    ('context.fields = {opne = ["coins"]}', "mine: context.fields: no tool 'opne'"),
    ('hooks.use = [{hook = "ledger", each = "opne"}]', "mine: hooks.ledger.each: no tool 'opne'"),
    ('hooks.use = [{hook = "unread_list", first = "box", each = "open"}]', "mine: hooks.unread_list.first: no tool 'box'"),
    ('hooks.use = [{hook = "order_guard", tools = ["submit"], before = "clac"}]', "mine: hooks.order_guard.before: no tool 'clac'"),
    ('hooks.use = [{hook = "grounding_guard", tools = ["sumbit"]}]', "mine: hooks.grounding_guard.tools: no tool 'sumbit'"),
])  # fmt: skip
def test_a_harness_that_does_not_fit_the_task_names_the_field(mock, text, message):
    with pytest.raises(UserError) as caught:
        check_harness(parse_harness(text), mock, "mine")
    assert str(caught.value).startswith(message)


def test_a_harness_that_fits_is_let_through(tasks, harnesses):
    for task in tasks.values():
        for harness in harnesses(task):
            check_harness(harness, task)
    text = 'hooks.use = [{hook = "order_guard", tools = ["boxes_and_open"], before = "calc"}]\n'
    text += '[[tools.composite]]\nname = "boxes_and_open"\nfirst = "boxes"\neach = "open"\ndoc = "x"'
    check_harness(parse_harness(text), tasks["mock"])
