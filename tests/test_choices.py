"""The generic rows in which a condition decides: what is counted, written or judged follows from what was read."""

import re

import pytest
from played_scenes import read_items, result_of, scenes_of, written_items

from coevo_lib.arithmetic import evaluate, holds, numbers_in
from coevo_lib.choices import Choice


def fields(seen):
    """'load 3, cost 7' -> {'load': '3', 'cost': '7'}"""
    return dict(part.rsplit(" ", 1) for part in seen.split(", "))


def acted(names, script):
    return [call.args[0] for call, _ in script if call.tool == names["act"]]


def test_every_composition_occurs():
    assert {"matching", "act", "supply", "judge", "outliers"} < set(Choice.PLANS)
    for composition in {*Choice.PLANS} - {"extreme"}:
        for _, _, script in scenes_of(composition, 5):
            assert isinstance(result_of(script), (int, float)), composition


def test_the_matching_ones_are_added_and_no_others():
    kinds = 0
    for prompt, names, script in scenes_of("matching", 40):
        counted = re.search(r"(?:Total|sum the) (\w+) of", prompt)[1]
        shown = {item: fields(seen) for item, seen in read_items(names, script).items()}
        if limit := re.search(r"with (\w+) (over|under) (\d+)", prompt):
            number = int(limit[3])
            chosen = [r for r in shown.values() if (int(r[limit[1]]) - number) * (-1) ** (limit[2] == "under") > 0]
        else:
            kinds += 1
            chosen = [r for r in shown.values() if {*r.values()} & {*re.findall(r"\w+", prompt)}]
        assert result_of(script) == sum(int(record[counted]) for record in chosen), prompt
    assert 5 < kinds < 35


def test_what_the_comparing_tool_says_is_true():
    found = 0
    for composition in ("matching", "act", "supply", "judge", "outliers"):
        for _, names, script in scenes_of(composition):
            for call, seen in script:
                if call.tool == names["holds"]:
                    assert seen == ("yes" if holds(call.args[0]) else "no") or seen == str(holds(call.args[0])).lower()
                    found += 1
    assert found > 200


def test_a_supply_is_written_for_what_is_short_and_for_nothing_else():
    equal = 0
    for prompt, names, script in scenes_of("supply"):
        have, need = re.search(r"(?:with|Where) (\w+) (?:is )?(?:under|below) (\w+)", prompt).groups()
        records = {item: fields(seen) for item, seen in read_items(names, script).items()}
        short = {item for item, record in records.items() if int(record[have]) < int(record[need])}
        equal += sum(record[have] == record[need] for record in records.values())
        assert {item for item, _ in written_items(names, script)} == short
        assert result_of(script) == sum(number for _, number in written_items(names, script))
    assert equal > 5  # the boundary occurs


def test_what_lies_outside_its_range_is_written_or_acted_on():
    ways = set()
    for prompt, names, script in scenes_of("outliers", 40):
        every, outside = [], []
        for item, seen in read_items(names, script).items():
            head, rest = re.fullmatch(r"((?:from \d+ to \d+)|(?:least \d+, most \d+)), (.*)", seen).groups()
            low, high = numbers_in(head)
            values = [numbers_in(part)[-1] for part in rest.split(", ")]
            every += [(item, value) for value in values]
            outside += [(item, value) for value in values if not low <= value <= high]
        by_item = " with numbers " in prompt
        if by_item:
            assert acted(names, script) == list(dict.fromkeys(item for item, _ in outside))
        else:
            assert sorted(written_items(names, script)) == sorted(outside)
        all_count = "inside and outside" in prompt
        assert result_of(script) == sum(value for _, value in (every if all_count else outside))
        ways.add((by_item, all_count))
    assert len(ways) == 4


def test_a_judgement_follows_the_limit():
    for prompt, names, script in scenes_of("judge", 40):
        good = re.search(r"Settle \w+: (\w+) where|say (\w+) or", prompt)
        good = good[1] or good[2]
        limits = {}
        for call, seen in script:
            for line in seen.split("\n"):
                if found := re.search(r"(?:asks|needs|claims) \d+ \w+, (?:limit|allowance) (\d+)", line):
                    limits[line.split(": ")[0] if ": " in line else call.args[0]] = int(found[1])
        product, sums = None, {True: 0, False: 0}
        for call, _ in script:
            if call.tool == names["holds"]:
                product = evaluate(call.args[0].split("<=")[0])
            elif len(call.args) == 2:
                assert (call.args[1] == good) == (product <= limits[call.args[0]])
                sums[call.args[1] == good] += product
        end = re.search(r"(?:Give|sum of) the (\w+) (?:sum|ones)|sum of the (\w+) ones", prompt)
        assert result_of(script) == sums[(end[1] or end[2]) == good]


@pytest.mark.parametrize("composition", ["act"])
def test_what_is_acted_on_is_counted(composition):
    for prompt, names, script in scenes_of(composition):
        limit, field = int(re.search(r"under (\d+)", prompt)[1]), re.search(r"whose (\w+) is", prompt)[1]
        shown = read_items(names, script)
        low = {i for i, seen in shown.items() if float(fields(seen)[field]) < limit}
        assert {*acted(names, script)} == low
        assert result_of(script) == len(low)
