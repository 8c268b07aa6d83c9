"""The failing turn is the first that no expert would make, and its class says why."""

import pytest

from coevo_lib.agent import replay
from coevo_lib.calls import render_call
from coevo_lib.expert import LOST, ScriptedExpert, calls_left, play_expert
from coevo_lib.harness import Harness, parse_harness
from coevo_lib.localization import CLASSES, localize
from coevo_lib.rollouts import expert_episodes, random_episode


@pytest.fixture
def instance(mock):
    return mock.instances("train", 1, size=3)[0]


@pytest.fixture
def reads(instance):
    """The list and the three readings, as texts."""
    return ["boxes()", *(f'open("{box}")' for box in instance.data["boxes"])]


@pytest.fixture
def blame(mock, instance, played):
    """Localises the failure of these replies; returns (turn, class, evidence)."""

    def make(*texts, harness="", max_turns=16):
        episode = played(mock, instance, list(texts), parse_harness(harness), max_turns=max_turns)
        assert not episode.trajectory.success
        failure = localize(mock, instance, episode.harness, episode.trajectory)
        assert failure.instance == instance.key and failure.failure_class in CLASSES and failure.method == "oracle"
        return failure.turn, failure.failure_class, failure.evidence

    return make


def test_submitting_with_readings_missing_is_blamed_where_the_reading_was_skipped(blame, reads):
    assert blame(*reads[:2], "submit(20)") == (2, "planning", "submit while 4 calls are still needed")


def test_computing_with_readings_missing_is_planning_too(blame, reads, instance):
    first, second, _ = instance.data["boxes"].values()
    turn, kind, evidence = blame(*reads[:3], f'calc("{first}+{second}")', f"submit({first + second})")
    assert (turn, kind, evidence) == (3, "planning", "calc while 3 calls are still needed")


def test_a_wrong_sum_of_right_numbers_is_knowledge(blame, reads, instance):
    first, second, _ = instance.data["boxes"].values()
    assert blame(*reads, f'calc("{first}+{second}")', f"submit({first + second})")[:2] == (4, "knowledge")


def test_a_miscopied_number_is_long_context(blame, reads, instance):
    numbers = list(instance.data["boxes"].values())
    expression = "+".join(map(str, [numbers[0], numbers[1], 73]))
    turn, kind, evidence = blame(*reads, f'calc("{expression}")', f"submit({numbers[0] + numbers[1] + 73})")
    assert (turn, kind) == (4, "long_context") and evidence == "73 stands nowhere above"


def test_a_guess_instead_of_a_sum_is_planning(blame, reads):
    assert blame(*reads, "submit(1)") == (4, "planning", "submits without working it out")


def test_a_right_sum_copied_wrongly_is_long_context(blame, reads, instance):
    expression = "+".join(map(str, instance.data["boxes"].values()))
    turn, kind, evidence = blame(*reads, f'calc("{expression}")', f"submit({instance.data['answer'] + 1})")
    assert (turn, kind) == (5, "long_context") and str(instance.data["answer"] + 1) in evidence


def test_an_endless_loop_is_blamed_where_it_began(blame, reads):
    assert blame(*reads[:2], *[reads[1]] * 4) == (2, "planning", f"repeats {reads[1]}")


def test_a_text_without_a_call_is_instruction_following(blame, reads):
    turn, kind, evidence = blame(*reads[:3], *["There are 12 coins."] * 4)
    assert (turn, kind) == (3, "instruction_following") and "There are 12 coins." in evidence


def test_an_unknown_tool_or_argument_is_tool_use(blame, reads):
    assert blame(reads[0], *["peek()"] * 4)[:2] == (1, "tool_use")
    assert blame(reads[0], *['open("nothing")'] * 4)[:2] == (1, "tool_use")


def test_a_refused_call_is_planning_with_the_reason_as_evidence(blame, reads):
    guard = 'hooks.use = [{hook = "finish_guard", tools = ["submit"], first = "boxes", each = "open"}]'
    turn, kind, evidence = blame(*reads[:3], *["submit(2)"] * 4, harness=guard)
    assert (turn, kind) == (3, "planning") and "still missing" in evidence


@pytest.mark.parametrize("stray, kind", [
    ("hm", "instruction_following"), ('open("nothing")', "tool_use"), ("boxes()", "planning"), ('calc("1+1")', "planning"),
])  # fmt: skip
def test_the_first_wrong_turn_is_blamed_also_where_the_student_goes_on(blame, reads, instance, stray, kind):
    """The paper's localiser names the first one too; what came of it later is in the correction's verification."""
    wrong = f"submit({instance.data['answer'] + 1})"
    right = f'calc("{"+".join(map(str, instance.data["boxes"].values()))}")'
    assert blame(*reads[:2], stray, *reads[2:], right, wrong)[:2] == (2, kind)


def test_the_order_of_readings_and_an_answer_from_the_head_are_no_failures(blame, reads, instance):
    """Readings in another order bring the end nearer; a direct expert would submit without the calculator too."""
    wrong = f"submit({instance.data['answer'] + 1})"
    sums = f'calc("{"+".join(map(str, instance.data["boxes"].values()))}")'
    assert blame(reads[0], *reversed(reads[1:]), sums, wrong)[:2] == (5, "long_context")
    assert blame(reads[0], *reversed(reads[1:]), wrong)[0] == 4


def test_a_leap_over_calls_that_are_needed_is_blamed(tasks, played):
    """A write on which nothing was read yet brings the end nearer by the calls that it makes needless."""
    task = tasks["budget"]
    instance = task.instances("train", 1, size=2)[0]
    episode = replay(task, instance, Harness(), [])
    play_expert(ScriptedExpert(directness=0.0), episode)
    texts = [turn.text for turn in episode.turns]
    decided = next(n for n, turn in enumerate(episode.turns) if turn.call.tool == "decide")
    early = [texts[0], texts[decided], "submit(1)"]
    assert calls_left(task, instance, Harness(), early[:2]) < calls_left(task, instance, Harness(), early[:1]) - 1
    trajectory = played(task, instance, early).trajectory
    assert localize(task, instance, Harness(), trajectory).turn == 1


def test_slow_but_right_so_far_has_no_failing_turn(blame, reads):
    turn, kind, evidence = blame(*reads[:3], max_turns=3)
    assert (turn, kind) == (None, "other") and evidence == "ran out of turns with 3 calls to go"


def test_a_first_turn_that_ends_it_all_is_the_failing_turn(blame):
    assert blame("submit(1)") == (0, "planning", "submit while 6 calls are still needed")


def test_the_calls_still_needed_are_counted_from_where_the_episode_stands(mock, instance, reads, with_composite):
    assert [calls_left(mock, instance, Harness(), reads[:n]) for n in range(5)] == [6, 5, 4, 3, 2]
    assert calls_left(mock, instance, Harness(), [*reads, f"submit({instance.data['answer']})"]) == 0
    assert calls_left(mock, instance, Harness(), ["submit(1)"]) == LOST
    assert calls_left(mock, instance, with_composite(mock, hidden=True), []) == 3


def test_planned_instead_of_worked_hours_are_found_at_the_sum(attendance, played):
    [instance] = attendance.instances("train", 1)
    [episode] = expert_episodes(ScriptedExpert(directness=0.0), attendance, [instance], Harness(), 20)
    *texts, _, _ = [turn.text for turn in episode.turns]
    planned = [instance.data["records"][name]["planned"] for name in instance.data["teams"][instance.goal["team"]]]
    texts += [f'calc("{"+".join(map(str, planned))}")', f"submit({sum(planned)})"]
    trajectory = played(attendance, instance, texts).trajectory
    assert not trajectory.success
    failure = localize(attendance, instance, Harness(), trajectory)
    assert (failure.turn, failure.failure_class) == (len(texts) - 2, "knowledge")


def test_a_missing_filter_is_found_at_the_first_call_that_needed_it(shopadmin, played):
    [instance] = shopadmin.instances("train", 1)
    texts = ["pages()", "page(1)", "page(2)", "submit(12)"]
    failure = localize(shopadmin, instance, Harness(), played(shopadmin, instance, texts).trajectory)
    assert failure.turn == 0 and failure.failure_class == "planning"


@pytest.mark.parametrize("name", ["attendance", "shopadmin"])
def test_the_turn_before_the_failing_one_was_still_on_the_way(tasks, name):
    """Whatever went wrong: success is possible up to the failing turn, and no later turn came nearer."""
    task = tasks[name]
    for instance in task.instances("train", 6):
        trajectory = random_episode(task, instance, Harness(), 8).trajectory
        failure = localize(task, instance, Harness(), trajectory)
        texts = [turn.text for turn in trajectory.turns]
        here = calls_left(task, instance, Harness(), texts[: failure.turn])
        assert here < LOST
        assert all(
            calls_left(task, instance, Harness(), texts[:n]) >= here for n in range(failure.turn + 1, len(texts) + 1)
        )


def test_the_evidence_of_a_success_would_be_empty(mock, instance):
    """Guards the tests above: the expert's own episode leaves no turn to blame."""
    [episode] = expert_episodes(ScriptedExpert(directness=0.0), mock, [instance], Harness(), 12)
    failure = localize(mock, instance, Harness(), episode.trajectory)
    assert failure.turn is None
    assert [render_call(call) for call in episode.trajectory.calls] == [turn.text for turn in episode.turns]
