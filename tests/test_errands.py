"""The generic rows that write: what is written follows from what was read, and the last number from what was written."""

import random
import re

import pytest

from coevo_lib.arithmetic import numbers_in
from coevo_lib.errands import Errand


def errands(composition, n=25):
    """(prompt, tool names, script) of scenes of one composition."""
    found, seed = [], 0
    while len(found) < n:
        scene = Errand(random.Random(f"errand {seed}"))
        seed += 1
        if scene.composition == composition:
            found.append((scene.plan(), scene.names, scene.script))
    return found


def read(names, script):
    """Item -> what was shown of it, by single reads or by one composite call."""
    shown = {call.args[0]: seen for call, seen in script if call.tool == names["read"]}
    for _, seen in script if not shown else []:
        shown |= dict(line.split(": ", 1) for line in seen.split("\n") if ": " in line)
    return shown


def written(names, script):
    return [call.args for call, _ in script if call.tool == names["write"]]


def result(script):
    return script[-1][0].args[0]


def test_every_composition_occurs_and_ends_with_a_number():
    assert {"act", "supply", "judge", "outliers", "copy", "change"} < set(Errand.PLANS)
    for composition in {*Errand.PLANS} - {"extreme"}:
        for _, _, script in errands(composition, 5):
            assert isinstance(result(script), (int, float)), composition


def test_a_supply_is_written_for_what_is_short_and_for_nothing_else():
    for prompt, names, script in errands("supply"):
        have, need = re.search(r"(?:with|Where) (\w+) (?:is )?(?:under|below) (\w+)", prompt).groups()
        short = {
            item for item, seen in read(names, script).items()
            if (record := dict(part.split() for part in seen.split(", "))) and int(record[have]) < int(record[need])
        }  # fmt: skip
        assert {item for item, _ in written(names, script)} == short
        assert result(script) == sum(number for _, number in written(names, script))


def test_only_readings_outside_the_range_are_written():
    for _, names, script in errands("outliers"):
        outside = []
        for item, seen in read(names, script).items():
            head, *rest = seen.split(", ")
            low, high = numbers_in(head)
            outside += [(item, v) for v in (numbers_in(part)[-1] for part in rest) if not low <= v <= high]
        assert sorted(written(names, script)) == sorted(outside)
        assert result(script) == sum(value for _, value in outside)


def test_a_copy_is_what_was_shown():
    for _, names, script in errands("copy"):
        shown = read(names, script)
        assert all(shown[item] == text for item, text in written(names, script))
        assert result(script) == sum(numbers_in(text)[-1] for _, text in written(names, script))


def test_a_changed_line_differs_in_one_place():
    for prompt, names, script in errands("change"):
        shown, lines = read(names, script), dict(written(names, script))
        assert shown.keys() == lines.keys()
        new = re.search(r"(?:dd (\w+=\d+) to|ename \w+ to (\w+) in)", prompt)
        wanted = new[1] or f"{new[2]}="
        for place, line in lines.items():
            assert wanted in line and wanted not in shown[place]
            values = re.findall(r"(?<=[=(])\d+", shown[place])
            assert values and values == re.findall(r"(?<=[=(])\d+", line)[: len(values)]


def test_a_judgement_follows_the_limit():
    for prompt, _, script in errands("judge"):
        good = re.search(r"Settle \w+: (\w+) where|say (\w+) or", prompt)
        good = good[1] or good[2]
        limits = {}
        for call, seen in script:
            for line in seen.split("\n"):
                if found := re.search(r"wants \d+ \w+, (?:limit|most) (\d+)", line):
                    limits[line.split(": ")[0] if ": " in line else call.args[0]] = int(found[1])
        value = None
        for call, seen in script:
            if len(call.args) == 1 and "*" in str(call.args[0]):
                value = float(seen)
            if len(call.args) == 2:
                assert (call.args[1] == good) == (value <= limits[call.args[0]])


@pytest.mark.parametrize("composition", ["act"])
def test_what_is_acted_on_is_counted(composition):
    for prompt, names, script in errands(composition):
        limit, field = int(re.search(r"under (\d+)", prompt)[1]), re.search(r"whose (\w+) is", prompt)[1]
        shown = read(names, script)
        low = {i for i, seen in shown.items() if float(re.search(rf"\b{field} ([\d.]+)", seen)[1]) < limit}
        assert {call.args[0] for call, _ in script if call.tool == names["act"]} == low
        assert result(script) == len(low)
