"""The distance between two ways of working is 0 for the same, 1 for what shares nothing, and ignores how much there is."""

import math

import pytest

from coevo_lib.style_distance import divergence, pairs_of_rollouts, pairs_of_rows


def row(*calls, trained=None, task="mock"):
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "p"}]
    for call in calls:
        messages += [{"role": "assistant", "content": call}, {"role": "user", "content": "answer"}]
    mask = [m["role"] == "assistant" and (trained is None or m["content"] in trained) for m in messages]
    return {"messages": messages, "mask": mask, "source": f"{task}/train/0001"}


def rollout(*tools, task="mock"):
    return {"task": task, "turns": [{"call": [tool, 1] if tool else None} for tool in tools]}


def test_rows_and_rollouts_of_the_same_work_are_alike():
    rows = pairs_of_rows([row("boxes()", 'open("a")', 'open("b")', "submit(3)")] * 2)
    played = pairs_of_rollouts([rollout("boxes", "open", "open", "submit")])
    assert rows["mock"] == {pair: 2 * n for pair, n in played["mock"].items()}
    assert divergence(rows, played) == pytest.approx(0.0, abs=1e-9)


def test_work_that_shares_no_pair_is_as_far_as_can_be():
    assert divergence(
        pairs_of_rows([row("all()", "submit(3)")]), pairs_of_rollouts([rollout("boxes", "open")])
    ) == pytest.approx(1.0)


def test_half_of_the_work_being_direct_is_in_between_and_more_is_farther():
    stepwise, direct = row("boxes()", 'open("a")', "submit(3)"), row("all()", "submit(3)")
    played = pairs_of_rollouts([rollout("boxes", "open", "submit")])
    found = [divergence(pairs_of_rows([direct] * n + [stepwise] * (4 - n)), played) for n in range(5)]
    assert found == sorted(found) and found[0] < 0.01 < found[1] and found[4] == pytest.approx(1.0)


def test_only_turns_that_carry_loss_count_and_they_know_what_came_before():
    made = pairs_of_rows([row("boxes()", 'open("a")', "submit(3)", trained=["submit(3)"])])
    assert dict(made["mock"]) == {("open", "submit"): 1}


def test_json_calls_and_texts_without_a_call_are_read_too():
    made = pairs_of_rows([row('{"tool": "open", "args": ["a"]}', "no call at all")])
    assert dict(made["mock"]) == {("", "open"): 1, ("open", ""): 1}


def test_tasks_are_compared_each_with_itself():
    rows = pairs_of_rows([row("a()", task="one"), row("b()", task="two")])
    same = pairs_of_rollouts([rollout("a", task="one"), rollout("b", task="two")])
    swapped = pairs_of_rollouts([rollout("b", task="one"), rollout("a", task="two")])
    assert divergence(rows, same) == pytest.approx(0.0, abs=1e-9) and divergence(rows, swapped) == pytest.approx(1.0)
    assert math.isnan(divergence(rows, {})) and math.isnan(divergence({}, same))
