"""A harness taken apart: each element left out, each alone; what is left always fits the task."""

import pytest

from coevo_lib.harness import Harness, parse_harness
from coevo_lib.simplification import alone, parts, reductions, singles, without
from coevo_lib.toolbox import check_harness

FULL = """
[system]
text = "Do it.\\n{tools}"
recipe = ["use boxes", "use submit"]
[tools]
hide = ["boxes", "calc"]
docs = {open = "weight of one box"}
[[tools.composite]]
name = "boxes_and_open"
first = "boxes"
each = "open"
doc = "all at once"
[[demos.item]]
prompt = "p"
calls = ["submit(1)"]
observations = ["1"]
[[demos.item]]
prompt = "q"
calls = ["submit(2)"]
observations = ["2"]
[[hooks.use]]
hook = "order_guard"
tools = ["boxes_and_open"]
before = "calc"
[[hooks.use]]
hook = "order_guard"
tools = ["submit", "boxes_and_open"]
before = "open"
[[hooks.use]]
hook = "retry"
tries = 2
temperature = 0.7
[context]
keep = 3
fields = {open = ["weight"]}
[format]
call = "json"
"""


@pytest.fixture
def full():
    return parse_harness(FULL)


def test_every_element_is_a_part_but_the_hiding_that_a_composite_brings(full):
    names = [p.name for p in parts(full)]
    assert set(names) == set(full.elements()) - {"tools.hide:boxes"} and names.count("hooks:order_guard") == 2
    assert len({p.key for p in parts(full)}) == len(names)
    assert parts(Harness()) == []


def test_without_a_part_everything_else_stays(full, mock):
    for part in parts(full):
        less = without(full, part)
        check_harness(less, mock)
        gone = set(full.elements()) - set(less.elements())
        if part.name == "tools.composite:boxes_and_open":
            assert gone == {part.name, "tools.hide:boxes"}
            assert [hook.tools for hook in less.hooks.use if hook.hook == "order_guard"] == [["submit"]]
        elif part.name.startswith("demos:"):
            assert [d.prompt for d in less.demos.item] == [
                d.prompt for d in full.demos.item if d.prompt != part.value["prompt"]
            ]
        else:
            assert gone <= {part.name} and len(less.hooks.use) == 3 - part.name.startswith("hooks:")


def test_alone_a_part_is_the_only_difference_from_h0(full, mock):
    made = dict((part.name, harness) for part, harness in singles(full, mock))
    for name, harness in made.items():
        check_harness(harness, mock)
        extra = {"tools.hide:boxes"} if name.startswith("tools.composite") else set()
        wanted = {"demos:0"} if name.startswith("demos") else {name}
        assert set(harness.elements()) == wanted | extra
    assert {"system.recipe", "format.call", "hooks:retry", "context.keep"} <= set(made)


def test_what_cannot_stand_alone_is_left_out(full, mock):
    """The first order guard names the composite only."""
    guards = [harness for part, harness in singles(full, mock) if part.name == "hooks:order_guard"]
    assert guards == [] and len([p for p in parts(full) if p.name == "hooks:order_guard"]) == 2


def test_taking_out_part_after_part_ends_at_h0(full, mock):
    harness = full
    for _ in range(30):
        left = reductions(harness, mock)
        if not left:
            break
        harness = left[0][1]
    assert harness == Harness()


def test_alone_and_without_do_not_touch_the_harness_itself(full):
    before = full.to_toml()
    for part in parts(full):
        alone(part, full), without(full, part)
    assert full.to_toml() == before
