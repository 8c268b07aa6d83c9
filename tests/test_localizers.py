"""The localisers beside the oracle: what each names, and what each can know."""

import pytest

from coevo_lib.engines.base import EngineFault
from coevo_lib.engines.scripted import ScriptedEngine
from coevo_lib.harness import Harness
from coevo_lib.localizers import Case, counterfactual, heuristic, judge


@pytest.fixture
def instance(mock):
    return mock.instances("train", 1, size=3)[0]


@pytest.fixture
def case(mock, instance, played):
    """The case of these replies."""

    def make(*texts, max_turns=16):
        trajectory = played(mock, instance, list(texts), Harness(), max_turns=max_turns).trajectory
        assert not trajectory.success
        return Case(mock, instance, Harness(), trajectory)

    return make


@pytest.fixture
def reads(instance):
    return ["boxes()", *(f'open("{box}")' for box in instance.data["boxes"])]


@pytest.fixture
def student(instance):
    """Goes on from any prefix and succeeds, unless it has already computed something wrong."""

    def answer(request):
        texts = [message["content"] for message in request.messages[2:]]
        calls, seen = texts[::2], texts[1::2]
        wrong = [seen[n] for n, call in enumerate(calls) if call.startswith("calc")]
        if wrong:
            return f"submit({wrong[-1]})"
        for box in instance.data["boxes"]:
            if f'open("{box}")' not in calls:
                return f'open("{box}")' if "boxes()" in calls else "boxes()"
        return f"submit({instance.data['answer']})"

    return ScriptedEngine(answer)


def test_the_heuristic_names_the_first_strange_turn(case, reads):
    assert heuristic(case(*reads[:2], 'open("nothing")', *reads[2:], "submit(1)")).turn == 2
    assert heuristic(case(*reads[:2], reads[1], *reads[2:], "submit(1)")).turn == 2
    assert heuristic(case(*reads, 'calc("9999+1")', "submit(10000)")).turn == 4
    assert heuristic(case(reads[0], "well", "well", "well", "well")).turn == 1


def test_without_a_sign_the_heuristic_names_the_last_turn_and_says_so(case, reads, instance):
    first = next(iter(instance.data["boxes"].values()))
    found = heuristic(case(*reads[:2], f"submit({first})"))
    assert (
        (found.turn, found.method) == (2, "heuristic")
        and found.confidence < 0.5
        and "nothing strange" in found.evidence
    )


def test_the_counterfactual_names_the_turn_after_which_the_student_is_lost(case, reads, instance, student):
    first, second, third = instance.data["boxes"].values()
    dropped = case(*reads, f'calc("{first}+{second}")', f"submit({first + second})")
    early = case(*reads[:2], f'calc("{first}+{first}")', f"submit({2 * first})")
    detour = case(*reads[:2], reads[1], *reads[2:], f'calc("{first}+{third}")', f"submit({first + third})")
    found = counterfactual(student, [dropped, early, detour], samples=2, max_turns=16)
    assert [f.turn for f in found] == [4, 2, 5]
    assert {f.method for f in found} == {"counterfactual"} and all(f.confidence == 1.0 for f in found)
    assert "none after" in found[0].evidence


def test_a_student_that_never_succeeds_leaves_the_turn_open(case, reads):
    [found] = counterfactual(ScriptedEngine(lambda request: "submit(0)"), [case(*reads, "submit(1)")], 2, 16)
    assert found.turn is None and found.confidence == 0.0 and "never succeeds" in found.evidence


def test_faults_are_no_lost_chances(case, reads, instance):
    """Every second continuation meets a fault that stays; the others decide."""

    def answer(request):
        if request.sample % 2:
            raise EngineFault("gone")
        return f"submit({instance.data['answer']})"

    [found] = counterfactual(ScriptedEngine(answer), [case(*reads, "submit(1)")], 2, 16)
    assert found.turn == len(reads) and found.confidence == 1.0


def test_each_sample_of_a_prefix_is_drawn_anew(case, reads):
    drawn = []

    def answer(request):
        drawn.append((request.sample, request.temperature))
        return "submit(0)"

    counterfactual(ScriptedEngine(answer), [case(*reads, "submit(1)")], 3, 16)
    assert {sample for sample, _ in drawn} == {0, 1, 2} and all(t > 0 for _, t in drawn)


@pytest.mark.parametrize(
    "text", ["turn: 3, class: planning", "I think\nTurn 3, class: Planning.", "**turn**: 3; class: planning"]
)
def test_the_judge_reads_turn_and_class(case, reads, text):
    [found] = judge(ScriptedEngine(lambda request: text), [case(*reads, "submit(1)")])
    assert (found.turn, found.failure_class, found.method) == (2, "planning", "judge")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("no idea", "Not readable"),
        ("turn: 99, class: planning", "not one of 1 to 5"),
        ("turn: 1, class: bad_luck", "bad_luck"),
    ],
)
def test_an_unreadable_verdict_goes_back_once_with_its_fault(case, reads, text, fault):
    asked = []

    def answer(request):
        asked.append(request.messages)
        return text if len(asked) == 1 else "turn: 2, class: knowledge"

    [found] = judge(ScriptedEngine(answer), [case(*reads, "submit(1)")])
    assert (found.turn, found.failure_class) == (1, "knowledge") and fault in asked[1][-1]["content"]
    [found] = judge(ScriptedEngine(lambda request: text), [case(*reads, "submit(1)")])
    assert found.turn is None and fault in found.evidence and found.confidence == 0.0


def test_the_judge_is_shown_every_turn_and_the_verdict(case, reads):
    asked = []

    def answer(request):
        asked.append(request.messages[1]["content"])
        return "turn: 1, class: other"

    failed = case(*reads, "submit(1)")
    judge(ScriptedEngine(answer), [failed])
    for piece in (failed.trajectory.prompt, failed.trajectory.feedback, "Turn 5: submit(1)", *reads):
        assert piece in asked[0]
