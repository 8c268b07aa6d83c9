"""Many episodes at once: order, retried faults, and the random caller that must not succeed."""

import threading

import pytest

from coevo_lib.engines.base import EngineFault
from coevo_lib.engines.scripted import ScriptedEngine
from coevo_lib.expert import ScriptedExpert
from coevo_lib.harness import Harness
from coevo_lib.rollouts import FAULT_RETRIES, expert_episodes, random_episode, roll_out, student_jobs


@pytest.fixture
def instances(mock):
    return mock.instances("train", 6)


def test_episodes_come_back_in_the_order_of_the_jobs(mock, instances):
    engine = ScriptedEngine(lambda request: f"submit({len(request.messages)})")
    played = roll_out(engine, student_jobs(mock, instances, Harness(), 4, samples=range(2)), concurrency=3)
    assert [(e.instance.key, e.trajectory.sample) for e in played] == [(i.key, s) for i in instances for s in (0, 1)]


def test_a_request_names_its_sample_and_temperature(mock, instances):
    asked = []

    def student(request):
        asked.append((request.sample, request.temperature))
        return "submit(1)"

    roll_out(
        ScriptedEngine(student),
        student_jobs(mock, instances[:1], Harness(), 4, samples=range(3)),
        temperature=0.9,
        concurrency=1,
    )
    assert asked == [(0, 0.9), (1, 0.9), (2, 0.9)]


def test_progress_sees_every_episode(mock, instances):
    seen = []

    def watch(futures):
        for future in futures:
            seen.append(future)
            yield future

    roll_out(ScriptedEngine(lambda r: "submit(1)"), student_jobs(mock, instances, Harness(), 4), progress=watch)
    assert len(seen) == len(instances)


def test_a_fault_is_retried_from_the_start_and_leaves_no_trace(mock, instances):
    lock, failures = threading.Lock(), {"left": FAULT_RETRIES}

    def student(request):
        with lock:
            if len(request.messages) > 2 and failures["left"]:
                failures["left"] -= 1
                raise EngineFault("lost the connection")
        return "boxes()" if len(request.messages) == 2 else "submit(1)"

    [episode] = roll_out(ScriptedEngine(student), student_jobs(mock, instances[:1], Harness(), 4), concurrency=1)
    assert episode.trajectory.status == "finished" and episode.trajectory.error == ""
    assert [turn.text for turn in episode.turns] == ["boxes()", "submit(1)"], "the half-played tries are gone"
    assert failures["left"] == 0


def test_a_lasting_fault_is_reported_and_is_no_score(mock, instances):
    tries = []

    def student(request):
        if request.sample == 1:
            tries.append(1)
            raise EngineFault("no memory")
        return f"submit({answers[0]})"

    answers = [instances[0].data["answer"]]
    played = roll_out(
        ScriptedEngine(student), student_jobs(mock, instances[:1], Harness(), 4, samples=range(2)), concurrency=1
    )
    trajectories = [episode.trajectory for episode in played]
    assert [t.status for t in trajectories] == ["finished", "fault"] and len(tries) == FAULT_RETRIES + 1
    assert trajectories[1].error == "no memory"


def test_experts_play_every_instance_and_say_who_they_are(mock, instances):
    episodes = expert_episodes(ScriptedExpert(), mock, instances, Harness(), 12)
    assert [e.instance for e in episodes] == instances
    assert all(e.trajectory.success and e.trajectory.author == "expert" for e in episodes)


def test_the_random_caller_is_repeatable_and_makes_legal_calls(tasks):
    for task in tasks.values():
        instances = task.instances("select", 6)
        first, second = ([random_episode(task, i, Harness(), 16).trajectory for i in instances] for _ in range(2))
        assert first == second and {t.author for t in first} == {"random"}
        other = [random_episode(task, i, Harness(), 16, seed=1).trajectory for i in instances]
        assert [t.calls for t in other] != [t.calls for t in first]
        assert not any(turn.status == "malformed" for t in first for turn in t.turns)


def test_the_random_caller_reaches_every_tool(attendance):
    played = [random_episode(attendance, i, Harness(), 16) for i in attendance.instances("select", 60)]
    assert {turn.call.tool for episode in played for turn in episode.turns} == {"staff", "hours", "calc", "submit"}
    assert {turn.call.tool for episode in played for turn in episode.turns if turn.status == "ok"} >= {
        "staff",
        "calc",
        "submit",
    }
