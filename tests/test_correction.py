"""One rewritten turn: it alone carries loss, the student's own turns stand before it, and it was tried out."""

import pytest

from coevo_lib.agent import replay
from coevo_lib.correction import candidates, continue_student, correct, random_turn, to_json
from coevo_lib.engines.scripted import ScriptedEngine
from coevo_lib.expert import ScriptedExpert, play_expert
from coevo_lib.harness import Harness, parse_harness
from coevo_lib.localization import Failure, localize
from coevo_lib.rollouts import random_episode

CONTINUING = ScriptedExpert(directness=1.0, persistence=1.0)
DIRECT = ScriptedExpert(directness=1.0, persistence=0.0)
STEPWISE = ScriptedExpert(directness=0.0, persistence=0.0)


@pytest.fixture
def instance(mock):
    return mock.instances("train", 1, size=3)[0]


@pytest.fixture
def reads(instance):
    return ["boxes()", *(f'open("{box}")' for box in instance.data["boxes"])]


@pytest.fixture
def corrected(mock, instance, played):
    """Corrects the failure of these replies: (correction, row)."""

    def make(expert, texts, harness=None, **options):
        harness = harness or Harness()
        trajectory = played(mock, instance, texts, harness, max_turns=16).trajectory
        return correct(
            expert, mock, instance, harness, trajectory, localize(mock, instance, harness, trajectory), **options
        )

    return make


def test_only_the_corrected_message_carries_loss_after_the_students_own_turns(corrected, reads, mock, instance):
    texts = [*reads[:2], "submit(20)"]
    made, row = corrected(CONTINUING, texts)
    assert row["mask"] == [False] * 6 + [True]
    assert row["messages"][:-1] == replay(mock, instance, Harness(), texts[:2]).messages()
    assert [m["content"] for m in row["messages"] if m["role"] == "assistant"] == [*texts[:2], made.text]
    assert (made.turn, made.original, made.text) == (2, "submit(20)", reads[2])
    assert row["source"] == made.instance == instance.key and made.failure_class == "planning" and made.sentence


def test_a_correction_is_verified_by_running_it(corrected, reads, mock, instance):
    made, _ = corrected(CONTINUING, [*reads[:2], "submit(20)"])
    assert made.verified and made.executes and made.calls_left == 3
    again = replay(mock, instance, Harness(), [*reads[:2], made.text])
    assert again.turns[-1].status == "ok"
    assert play_expert(ScriptedExpert(directness=0.0), again).success and len(again.turns) == 3 + made.calls_left


def test_a_correction_that_a_hook_refuses_is_not_verified(corrected, reads):
    guard = parse_harness('hooks.use = [{hook = "order_guard", tools = ["submit"], before = "calc"}]')
    made, _ = corrected(DIRECT, [*reads, 'calc("a")', *["submit(1)"] * 4], guard)
    assert made.text.startswith("submit(") and not made.executes and made.calls_left is not None and not made.verified
    made, _ = corrected(CONTINUING, [*reads, 'calc("a")', *["submit(1)"] * 4], guard)
    assert made.text.startswith("calc(") and made.verified


def test_persistence_decides_between_the_students_plan_and_the_experts(corrected, reads, mock, with_composite):
    harness, texts = with_composite(mock), [*reads[:2], "submit(20)"]
    assert corrected(CONTINUING, texts, harness)[0].text == reads[2]
    assert corrected(DIRECT, texts, harness)[0].text == "boxes_and_open()"


def test_persistence_decides_between_the_calculator_and_the_head(corrected, reads, instance):
    texts = [*reads, 'calc("1+1")', "submit(2)"]
    expression = "+".join(map(str, instance.data["boxes"].values()))
    assert corrected(CONTINUING, texts)[0].text == corrected(STEPWISE, texts)[0].text == f'calc("{expression}")'
    assert corrected(DIRECT, texts)[0].text == f"submit({instance.data['answer']})"


def test_a_correction_is_written_in_the_students_own_format(corrected):
    harness = parse_harness('format.call = "json"')
    made, row = corrected(CONTINUING, ['{"tool": "boxes"}', '{"tool": "submit", "args": [1]}'], harness)
    assert made.text.startswith('{"tool": "open", "args": ["') and row["messages"][-1]["content"] == made.text


def test_where_no_turn_failed_there_is_nothing_to_correct(mock, instance, reads, played):
    trajectory = played(mock, instance, reads[:2], max_turns=2).trajectory
    failure = localize(mock, instance, Harness(), trajectory)
    assert failure.turn is None
    assert correct(CONTINUING, mock, instance, Harness(), trajectory, failure) is None
    made, row = correct(CONTINUING, mock, instance, Harness(), trajectory, failure, turn=1)
    assert made.turn == 1 and sum(row["mask"]) == 1, "another turn may be asked for"


@pytest.mark.parametrize("name", ["attendance", "shopadmin", "mock"])
@pytest.mark.parametrize("expert", [CONTINUING, DIRECT, STEPWISE], ids=["continuing", "direct", "stepwise"])
def test_every_argument_of_a_corrected_call_stands_in_the_messages_before_it(
    tasks, harnesses, name, expert, assert_grounded
):
    task, seen = tasks[name], set()
    for harness in harnesses(task):
        for index, instance in enumerate(task.instances("train", 6)):
            expertly = play_expert(ScriptedExpert(directness=0.0), replay(task, instance, harness, [], max_turns=20))
            random = random_episode(task, instance, harness, 12, seed=index)
            for texts in ([turn.text for turn in expertly.turns], [turn.text for turn in random.turns]):
                trajectory = replay(task, instance, harness, texts, max_turns=20).trajectory
                for turn in range(0, len(texts), 2):
                    failure = Failure(instance.key, turn, "other", "")
                    made, row = correct(expert, task, instance, harness, trajectory, failure)
                    seen.add(assert_grounded(name, row["messages"][:-1], made.text).tool)
                    assert made.verified
    assert len(seen) >= 3


def test_a_random_turn_is_fixed_by_the_seed_and_within_the_episode(mock, played):
    drawn = {seed: [] for seed in range(3)}
    for instance in mock.instances("train", 60):
        trajectory = played(mock, instance, ["boxes()"] * 3 + ["submit(1)"]).trajectory
        for seed, turns in drawn.items():
            turn = random_turn(trajectory, seed)
            assert turn == random_turn(trajectory, seed) and 0 <= turn < 4
            turns.append(turn)
    assert drawn[0] != drawn[1] != drawn[2]
    assert all(drawn[0].count(turn) >= 5 for turn in range(4)), "drawn evenly from all turns"


def test_the_student_goes_on_from_its_corrected_turn(corrected, mock, instance, reads, played):
    texts = [*reads[:2], "submit(20)"]
    made, _ = corrected(CONTINUING, texts)
    trajectory = played(mock, instance, texts).trajectory
    asked = []

    def student(request):
        asked.append([m["content"] for m in request.messages if m["role"] == "assistant"])
        return f"submit({instance.data['answer'] if good else 0})"

    for good in (True, False):
        engine = ScriptedEngine(student)
        found = continue_student(
            engine, mock, Harness(), [made], {instance.key: trajectory}, {instance.key: instance}, 8
        )
        assert found == [good]
    assert asked == [[*reads[:2], made.text]] * 2, "its own turns, then the corrected one"


def test_a_line_of_the_file_holds_the_correction_and_its_row(corrected, reads):
    made, row = corrected(CONTINUING, [*reads[:2], "submit(20)"])
    line = to_json(made, row, [])
    assert line["text"] == made.text and line["verified"] is True and line["student_succeeds"] is None
    assert line["messages"] == row["messages"] and line["mask"] == row["mask"]


def test_candidates_begin_with_the_experts_own_and_differ(mock, instance, reads, played, with_composite):
    harness, texts = with_composite(mock), [*reads[:2], "submit(20)"]
    trajectory = played(mock, instance, texts, harness, max_turns=16).trajectory
    failure = localize(mock, instance, harness, trajectory)
    for expert, first in ((CONTINUING, reads[2]), (DIRECT, "boxes_and_open()")):
        found = candidates(expert, mock, instance, harness, trajectory, failure)
        assert (
            [made.text for made, _ in found][0]
            == first
            == correct(expert, mock, instance, harness, trajectory, failure)[0].text
        )
        assert {made.text for made, _ in found} == {reads[2], "boxes_and_open()"} and len(found) == 2
        assert all(made.verified and row["messages"][-1]["content"] == made.text for made, row in found)
        line = to_json(*found[0], [made for made, _ in found[1:]])
        assert [c["text"] for c in line["candidates"]] == [made.text for made, _ in found]
        assert all(c["verified"] and c["sentence"] for c in line["candidates"])
    assert len(candidates(CONTINUING, mock, instance, harness, trajectory, failure, most=1)) == 1
