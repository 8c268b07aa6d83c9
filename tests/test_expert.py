"""The scripted expert: two declared parameters, and nothing else, decide how it works (rule 3)."""

import pytest

from coevo_lib.agent import Episode, replay
from coevo_lib.calls import Call
from coevo_lib.errors import UserError
from coevo_lib.expert import ScriptedExpert, play_expert, require_expert, view_of
from coevo_lib.harness import Harness, parse_harness
from coevo_lib.rollouts import expert_episodes
from coevo_lib.task import Style, Task


def tools_used(expert, task, harness, n=40):
    return [
        [call.tool for call in e.trajectory.calls]
        for e in expert_episodes(expert, task, task.instances("train", n), harness, 30)
    ]


def test_a_direct_expert_batches_and_computes_in_its_head(attendance, with_composite):
    harness = with_composite(attendance)
    assert {tuple(t) for t in tools_used(ScriptedExpert(directness=1.0), attendance, harness)} == {
        ("staff_and_hours", "submit")
    }
    stepwise = {tuple(t) for t in tools_used(ScriptedExpert(directness=0.0), attendance, harness)}
    assert stepwise == {("staff", *["hours"] * attendance.size, "calc", "submit")}


def test_without_a_composite_the_direct_expert_still_skips_the_calculator(attendance):
    assert all("calc" not in tools for tools in tools_used(ScriptedExpert(directness=1.0), attendance, Harness()))
    assert all("calc" in tools for tools in tools_used(ScriptedExpert(directness=0.0), attendance, Harness()))


def test_with_the_base_tools_hidden_every_style_batches(attendance, with_composite):
    harness = with_composite(attendance, hidden=True)
    for directness, expected in ((0.0, ["staff_and_hours", "calc", "submit"]), (1.0, ["staff_and_hours", "submit"])):
        assert all(
            tools == expected for tools in tools_used(ScriptedExpert(directness=directness), attendance, harness)
        )


def test_directness_is_a_share_of_the_episodes(mock):
    episodes = [Episode(mock, instance, Harness()) for instance in mock.instances("train", 600)]
    for directness in (0.25, 0.5, 0.75):
        direct = [ScriptedExpert(directness=directness).style(episode).direct for episode in episodes]
        assert abs(sum(direct) / 600 - directness) < 0.06


def test_the_style_of_an_instance_is_fixed_by_the_seed_alone(attendance, with_composite):
    def styles(seed, harness):
        episodes = [Episode(attendance, instance, harness) for instance in attendance.instances("train", 40)]
        return [ScriptedExpert(seed=seed).style(episode).direct for episode in episodes]

    assert styles(0, Harness()) == styles(0, with_composite(attendance)), "the harness changes no draw"
    assert styles(0, Harness()) != styles(1, Harness())


def test_persistence_counts_only_inside_somebody_elses_plan(mock):
    [instance] = mock.instances("train", 1)
    fresh, begun = Episode(mock, instance, Harness()), replay(mock, instance, Harness(), ["boxes()"])
    own = Episode(mock, instance, Harness())
    own.trajectory.author = "expert"
    own.step("boxes()")
    expert = ScriptedExpert(directness=1.0, persistence=1.0)
    assert expert.style(begun) == Style(direct=False, persistent=True)
    assert expert.style(fresh) == expert.style(own) == Style(direct=True, persistent=False)
    assert ScriptedExpert(directness=1.0, persistence=0.0).style(begun) == Style(direct=True, persistent=False)


def test_a_persistent_expert_continues_step_by_step_where_another_would_batch(attendance, with_composite):
    harness = with_composite(attendance)
    [instance] = attendance.instances("train", 1)
    begun = replay(attendance, instance, harness, [f'staff("{instance.goal["team"]}")'])
    first = instance.data["teams"][instance.goal["team"]][0]
    assert ScriptedExpert(directness=1.0, persistence=1.0).next(begun)[0] == Call("hours", (first,))
    assert ScriptedExpert(directness=1.0, persistence=0.0).next(begun)[0] == Call(
        "staff_and_hours", (instance.goal["team"],)
    )


def test_persistence_is_a_share_of_the_episodes(mock):
    begun = [replay(mock, instance, Harness(), ["boxes()"]) for instance in mock.instances("train", 200)]
    persistent = [ScriptedExpert(persistence=0.3).style(episode).persistent for episode in begun]
    assert abs(sum(persistent) / 200 - 0.3) < 0.1


def test_an_expert_sees_the_prompt_and_the_answers_but_not_the_world(mock, with_composite):
    [instance] = mock.instances("train", 1)
    view = view_of(replay(mock, instance, with_composite(mock, hidden=True), ["boxes_and_open()"]))
    assert set(vars(view)) == {"goal", "facts", "tools", "composites"}
    assert view.goal == instance.goal and "answer" not in view.goal and "boxes" not in view.goal
    assert view.tools == {"boxes_and_open", "calc", "submit"} and view.composites == {
        ("boxes", "open"): "boxes_and_open"
    }
    assert len(view.facts) == 1 + len(instance.data["boxes"])


def test_an_expert_says_why_in_one_sentence(tasks):
    for task in tasks.values():
        episode = Episode(task, task.instances("train", 1)[0], Harness(), max_turns=30)
        while not episode.done:
            call, why = ScriptedExpert().next(episode)
            assert why.strip() and "\n" not in why
            episode.step(f"{call.tool}({', '.join(map(repr, call.args))})")
        assert episode.trajectory.success


def test_an_expert_that_is_refused_stops_at_once(mock):
    harness = parse_harness('hooks.use = [{hook = "order_guard", tools = ["submit"], before = "calc"}]')
    episode = Episode(mock, mock.instances("train", 1)[0], harness)
    trajectory = play_expert(ScriptedExpert(directness=1.0), episode)
    assert trajectory.turns[-1].status == "refused" and not trajectory.success and trajectory.author == "expert"


def test_an_expert_that_takes_over_leaves_the_author_as_it_was(mock):
    episode = replay(mock, mock.instances("train", 1)[0], Harness(), ["boxes()"])
    assert play_expert(ScriptedExpert(), episode).success and episode.trajectory.author == "student"


@pytest.mark.parametrize("field", ["directness", "persistence"])
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_share_beyond_its_bounds_is_refused_by_name(field, value):
    with pytest.raises(UserError, match=f"profile: {field}: .* is not between 0 and 1"):
        ScriptedExpert(**{field: value})


def test_a_task_without_an_expert_is_told_to_write_one(mock, monkeypatch):
    require_expert(mock, chat=False)
    monkeypatch.setattr(type(mock), "expert", Task.expert)
    said = r"mock\.py: Mock has no scripted expert; write expert\(self, view, style\) in it, or name a chat model"
    with pytest.raises(UserError, match=said):
        require_expert(mock, chat=False)
    require_expert(mock, chat=True)
