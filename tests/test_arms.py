"""Arms are data: whose work is kept, how much of it, and by one and the same expert."""

from dataclasses import replace

import pytest

from coevo_lib.agent import replay
from coevo_lib.arms import Material, Quota, arm_rows, check_arms, expert_for, trained_text
from coevo_lib.errors import UserError
from coevo_lib.expert import ScriptedExpert
from coevo_lib.harness import Harness, parse_harness
from coevo_lib.localization import localize
from coevo_lib.profile import load_profile
from coevo_lib.rollouts import expert_episodes

EXPERT = ScriptedExpert(directness=0.5, persistence=1.0)


def arm(rows, harness="hstar", **more):
    return {"name": f"{rows}_arm", "rows": rows, "harness": harness, **more}


def material(task, hstar, n=12):
    """Rollouts of a student that succeeds on every third instance and else submits after its first readings."""
    instances = task.instances("train", n)
    harnesses, rollouts, failures = {"h0": Harness(), "hstar": hstar}, {}, {}
    for which, harness in harnesses.items():
        rollouts[which] = []
        for index, episode in enumerate(expert_episodes(ScriptedExpert(directness=0.0), task, instances, harness, 20)):
            texts = [turn.text for turn in episode.turns]
            texts = texts if index % 3 == 0 else [*texts[:2], "submit(7)"]
            rollouts[which].append(replay(task, episode.instance, harness, texts, max_turns=20).trajectory)
    for instance, trajectory in zip(instances, rollouts["hstar"]):
        if not trajectory.success:
            failures[instance.key] = localize(task, instance, hstar, trajectory)
    return Material(task, {i.key: i for i in instances}, harnesses, rollouts, failures, 20, EXPERT)


@pytest.fixture(scope="module")
def materials(tasks, with_composite):
    return [material(tasks[name], with_composite(tasks[name])) for name in ("mock", "attendance")]


def count(rows):
    return {
        kind: [sum(r["kind"] == kind and r["source"].startswith(name) for r in rows) for name in ("mock", "attendance")]
        for kind in {r["kind"] for r in rows}
    }


@pytest.mark.parametrize("rows", ["expert", "correction", "random_turn"])
def test_an_arm_gets_its_quota_in_equal_shares_and_some_own_successes(materials, rows):
    found = arm_rows(arm(rows), materials, Quota(rows=10, own=4), seed=0)
    assert count(found) == {rows: [5, 5], "own": [2, 2]}


def test_the_own_arm_gets_the_same_number_from_successes_alone(materials):
    assert count(arm_rows(arm("own"), materials, Quota(rows=4, own=2), seed=0)) == {"own": [3, 3]}


def test_where_there_are_too_few_all_are_taken(materials):
    found = arm_rows(arm("correction"), materials, Quota(rows=1000, own=1000), seed=0)
    assert count(found) == {"correction": [8, 8], "own": [4, 4]}


def test_an_imitation_row_is_a_whole_episode_of_the_expert_under_the_arms_harness(materials):
    for which in ("h0", "hstar"):
        found = arm_rows(arm("expert", which), materials, Quota(rows=6, own=0), seed=0)
        for row in found:
            source = next(m for m in materials if row["source"] in m.instances)
            [episode] = expert_episodes(
                EXPERT, source.task, [source.instances[row["source"]]], source.harnesses[which], 20
            )
            assert row["messages"] == episode.messages()[:-1] and episode.trajectory.success
            assert sum(row["mask"]) == len(episode.turns)


def test_a_correction_row_is_the_students_prefix_and_one_expert_turn(materials):
    for row in arm_rows(arm("correction"), materials, Quota(rows=10, own=0), seed=0):
        source = next(m for m in materials if row["source"] in m.instances)
        trajectory = next(t for t in source.rollouts["hstar"] if t.instance == row["source"])
        turn = source.failures[row["source"]].turn
        said = [m["content"] for m in row["messages"] if m["role"] == "assistant"]
        assert not trajectory.success and said[:-1] == [t.text for t in trajectory.turns[:turn]]
        assert sum(row["mask"]) == 1 and row["mask"][-1] and said[-1] != trajectory.turns[turn].text


def test_a_random_turn_row_need_not_be_the_failing_turn(materials):
    places = {
        rows: [len(r["messages"]) for r in arm_rows(arm(rows), materials, Quota(16, 0), 0)]
        for rows in ("correction", "random_turn")
    }
    assert len(set(places["correction"])) == 1, "this student always fails in its third turn"
    assert len(set(places["random_turn"])) > 1


def test_an_oec_row_is_the_students_beginning_and_the_experts_end(materials):
    found = arm_rows(arm("oec"), materials, Quota(16, 0), seed=0)
    assert {row["kind"] for row in found} == {"oec"} and len(found) == 16
    for row in found:
        source = next(m for m in materials if row["source"] in m.instances)
        trajectory = next(t for t in source.rollouts["hstar"] if t.instance == row["source"])
        said = [(m["content"], on) for m, on in zip(row["messages"], row["mask"]) if m["role"] == "assistant"]
        kept = [text for text, on in said if not on]
        assert kept == [t.text for t in trajectory.turns[: len(kept)]]
        assert said[-1][1] and [on for _, on in said] == sorted(on for _, on in said), (
            "loss from the expert's first turn on"
        )
        episode = replay(source.task, source.instances[row["source"]], source.harnesses["hstar"], [t for t, _ in said])
        assert episode.trajectory.success
    assert len({sum(not on for m, on in zip(r["messages"], r["mask"]) if m["role"] == "assistant") for r in found}) > 1


def test_a_matched_arm_trains_on_as_much_text_as_the_other(materials):
    quota, corrected = Quota(rows=12, own=2), arm("correction")
    most = trained_text(arm_rows(corrected, materials, quota, 0))
    free = arm_rows(arm("expert"), materials, quota, 0)
    matched = arm_rows(arm("expert", matched=corrected), materials, quota, 0)
    assert matched == free[: len(matched)] and len(matched) < len(free)
    assert trained_text(matched) <= most < trained_text(free[: len(matched) + 1])


def test_own_rows_are_the_students_successes(materials):
    succeeded = {t.instance for m in materials for t in m.rollouts["hstar"] if t.success}
    found = arm_rows(arm("expert"), materials, Quota(rows=2, own=1000), seed=0)
    own = [row for row in found if row["kind"] == "own"]
    assert {row["source"] for row in own} == succeeded and len(own) == len(succeeded)
    for row in own:
        source = next(m for m in materials if row["source"] in m.instances)
        trajectory = next(t for t in source.rollouts["hstar"] if t.instance == row["source"])
        assert [m["content"] for m in row["messages"] if m["role"] == "assistant"] == [
            turn.text for turn in trajectory.turns
        ]
        assert sum(row["mask"]) == len(trajectory.turns)


def test_rows_are_fixed_by_the_seed(materials):
    quota = Quota(rows=6, own=2)
    assert arm_rows(arm("expert"), materials, quota, 0) == arm_rows(arm("expert"), materials, quota, 0)
    first, second = (arm_rows(arm("expert"), materials, quota, seed) for seed in (0, 1))
    assert [row["source"] for row in first] != [row["source"] for row in second]
    assert count(first) == count(second)


def test_both_sides_of_a_contrast_draw_the_same_own_successes(materials):
    own = [
        sorted(r["source"] for r in arm_rows(arm(rows), materials, Quota(4, 4), 0) if r["kind"] == "own")
        for rows in ("expert", "correction", "random_turn")
    ]
    assert own[0] == own[1] == own[2]


def test_an_arm_may_set_the_expert_and_else_has_the_profiles():
    assert expert_for(arm("expert"), EXPERT) == expert_for(arm("correction"), EXPERT) == EXPERT
    assert expert_for(arm("expert", directness=0.0), EXPERT) == ScriptedExpert(0.0, 1.0)
    assert expert_for(arm("correction", persistence=0.0), EXPERT) == ScriptedExpert(0.5, 0.0)


def test_the_arms_expert_decides_the_style_of_its_rows(materials):
    for directness, batched in ((0.0, False), (1.0, True)):
        found = arm_rows(arm("expert", directness=directness), materials, Quota(10, 0), 0)
        for row in found:
            said = " ".join(m["content"] for m in row["messages"] if m["role"] == "assistant")
            assert ("_and_" in said) == batched and ("calc" in said) != batched


def test_a_correction_that_does_not_hold_is_no_row(tasks):
    """Here a hook refuses what the direct expert would write, so nothing is left to learn from."""
    task = tasks["mock"]
    made = material(task, parse_harness('hooks.use = [{hook = "order_guard", tools = ["submit"], before = "calc"}]'))
    kept = arm_rows(arm("correction"), [made], Quota(100, 0), 0)
    for index, instance in enumerate(made.instances.values()):
        reads = ["boxes()", *(f'open("{box}")' for box in instance.data["boxes"]), *["hm"] * 4]
        if index % 3:
            trajectory = replay(task, instance, made.harnesses["hstar"], reads, max_turns=20).trajectory
            made.rollouts["hstar"][index] = trajectory
            made.failures[instance.key] = localize(task, instance, made.harnesses["hstar"], trajectory)
    direct = arm("correction", directness=1.0, persistence=0.0)
    assert len(kept) == 8 and len(arm_rows(arm("correction"), [made], Quota(100, 0), 0)) == 8
    with pytest.raises(UserError, match="no training rows"):
        arm_rows(direct, [made], Quota(100, 0), 0)


def test_an_arm_without_any_row_says_what_to_change(materials):
    empty = [Material(m.task, m.instances, m.harnesses, {"h0": [], "hstar": []}, {}, 20, EXPERT) for m in materials]
    with pytest.raises(UserError, match="profile: arm own_arm: no training rows; raise n_train, or drop the arm"):
        arm_rows(arm("own"), empty, Quota(10, 2), 0)


@pytest.mark.parametrize("field, value, known", [
    ("rows", "imitation", "none, scripted, best_of_n, expert, correction, random_turn, oec, own"), ("harness", "h1", "h0, hstar"),
])  # fmt: skip
def test_an_unknown_word_in_an_arm_is_named(field, value, known):
    with pytest.raises(
        UserError, match=f"profile: arms: expert_arm: {field} = '{value}' is unknown; use one of {known}"
    ):
        check_arms([{**arm("expert"), field: value}])


@pytest.mark.parametrize("rows", ["correction", "random_turn", "oec"])
def test_corrections_under_h0_are_refused_as_long_as_only_h_star_is_localised(rows):
    with pytest.raises(UserError, match="harness"):
        check_arms([arm(rows, "h0")])


@pytest.mark.parametrize("name", ["cpu", "smoke"])
def test_the_shipped_arms_are_known_and_one_expert_serves_each_contrast(name):
    arms = {row["name"]: row for row in load_profile(name).values["arms"]}
    check_arms(list(arms.values()))
    expert = ScriptedExpert()
    assert expert_for(arms["imit_hstar"], expert) == expert_for(arms["corr_hstar"], expert) == expert
    assert arms["imit_hstar"]["harness"] == arms["corr_hstar"]["harness"] == "hstar"


def test_an_arm_may_keep_the_candidate_that_the_student_finds_likeliest(materials):
    """The score decides between the student's plan and the expert's own, whatever the expert's persistence."""
    asked = []

    def score_for(batched):
        def score(rows):
            asked.append(len(rows))
            return [float(("_and_" in row["messages"][-1]["content"]) != batched) for row in rows]

        return score

    for batched in (True, False):
        for persistence in (0.0, 1.0):
            likely = arm("correction", persistence=persistence, directness=1.0, choice="student_likelihood")
            found = arm_rows(likely, materials, Quota(10, 0), 0, score_for(batched))
            kept = [row["messages"][-1]["content"] for row in found]
            assert len(kept) == 10 and all(("_and_" in text) == batched for text in kept)
    assert all(n > 8 for n in asked), "all candidates of a task at once"


def test_only_a_choice_by_likelihood_asks_for_scores(materials):
    def score(rows):
        raise AssertionError("no scores were needed")

    assert arm_rows(arm("correction"), materials, Quota(10, 2), 0, score)
    assert arm_rows(arm("correction", choice="first"), materials, Quota(10, 2), 0, score)


def test_an_unknown_choice_is_named():
    with pytest.raises(UserError, match="expert_arm: choice = 'best' is unknown; use one of first, student_likelihood"):
        check_arms([arm("expert", choice="best")])


@pytest.mark.parametrize("rows", ["correction", "random_turn", "oec"])
def test_work_on_failures_is_drawn_from_the_boundary_first(materials, rows):
    failed = {m.task.name: list(m.failures) for m in materials}
    bound = [replace(m, boundary=frozenset(failed[m.task.name][-3:])) for m in materials]
    found = arm_rows(arm(rows), bound, Quota(rows=4, own=0), seed=0)
    assert len(found) == 4 and {row["source"] for row in found} < {key for m in bound for key in m.boundary}
    more = {row["source"] for row in arm_rows(arm(rows), bound, Quota(rows=12, own=0), seed=0)}
    assert more > {key for m in bound for key in m.boundary} and len(more) == 12, "then from the others"
    expert = [row["source"] for row in arm_rows(arm("expert"), bound, Quota(rows=4, own=0), seed=0)]
    assert expert == [row["source"] for row in arm_rows(arm("expert"), materials, Quota(rows=4, own=0), seed=0)]
