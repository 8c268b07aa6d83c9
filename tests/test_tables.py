"""Tables hold the promised columns, count what was played, and refuse what is no evidence."""

import pandas as pd
import pytest
from table_rows import arms, edit, one, row

from coevo_lib.errors import UserError
from coevo_lib.measures import apart, behaviour
from coevo_lib.search_tables import table4_edits
from coevo_lib.stats import wilson
from coevo_lib.table_format import markdown
from coevo_lib.tables import (
    PRIMARY,
    PRIMARY_NAME,
    by_seed,
    by_wording,
    clock_table,
    costs_table,
    dose_response,
    dose_trend,
    table1_contrasts,
    table1_success,
    table2_elements,
    table3_failures,
    tasks_table,
)
from coevo_lib.task import load_task


def test_success_counts_each_task_and_all_with_wilson():
    rows = [row("a", i, i < 3, task=task) for task in ("mock", "other") for i in range(4)]
    frame = table1_success(rows, arms("a"))
    total = one(frame, task="all")
    assert list(frame.task) == ["mock", "other", "all"]
    assert (total.n_instances, total.trials, total.successes, total.success) == (8, 8, 6, 0.75)
    assert (total.ci_low, total.ci_high) == pytest.approx(wilson(6, 8))


def test_success_over_seeds_is_clustered_by_instance():
    rows = [row("a", i, i < 10, seed=seed) for seed in (0, 101, 202) for i in range(20)]
    result = one(table1_success(rows, arms("a")), task="all")
    assert (result.seeds, result.n_instances, result.trials) == (3, 20, 60)
    assert result.ci_high - result.ci_low > 1.5 * (wilson(30, 60)[1] - wilson(30, 60)[0])


def test_a_fault_is_counted_and_never_scored():
    rows = [row("a", 0, True), row("a", 1, False, status="fault", error="gone")]
    result = one(table1_success(rows, arms("a")), task="all")
    assert (result.trials, result.success, result.faults) == (1, 1.0, 1)


def test_a_scripted_expert_is_by_construction_and_enters_no_contrast():
    rows = [row("student_hstar", 0, True), row("expert_hstar", 0, True, author="expert", model="expert")]
    frame = table1_success(rows, arms("student_hstar", "expert_hstar"))
    assert one(frame, arm="expert_hstar", task="all").note == "by construction"
    assert one(frame, arm="student_hstar", task="all").note == ""
    with pytest.raises(UserError, match="expert_hstar, which a scripted expert plays"):
        table1_contrasts(rows, [("x", "expert_hstar", "student_hstar")])
    declared = [{"name": "student_hstar", "rows": "scripted"}]
    with pytest.raises(UserError, match="student_hstar"):
        table1_contrasts(rows[:1], [("x", "student_hstar", "student_h0")], declared)


def test_contrasts_pair_instances_and_stand_beside_the_papers():
    good, bad = "corr_hstar", "imit_hstar"
    rows = [row(good, i, i < 9, task="attendance") for i in range(10)]
    rows += [row(bad, i, i < 4, task="attendance") for i in range(10)]
    frame = table1_contrasts(rows, [("c", good, bad), ("d", "own_hstar", bad)])
    every = one(frame, contrast="c", task="all")
    assert every.difference == pytest.approx(0.5)
    assert (every.n_pairs, every.p) == (10, 2 / 2**5)
    assert every.paper_difference == pytest.approx(0.166)
    assert one(frame, contrast="c", task="attendance").paper_difference == pytest.approx(0.295)
    absent = one(frame, contrast="d", task="all")
    assert absent.n_pairs == 0 and pd.isna(absent.difference) and pd.isna(absent.paper_difference)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [("imit_h0", "student_h0", 0.063), ("student_hstar", "student_h0", 0.488), ("imit_hstar", "student_hstar", -0.149)],
)
def test_the_papers_overall_differences_come_from_its_table(a, b, expected):
    rows = [row(arm, 0, True) for arm in (a, b)]
    assert one(table1_contrasts(rows, [("c", a, b)]), task="all").paper_difference == pytest.approx(expected)


def test_several_trials_of_an_instance_are_one_pair():
    rows = [row("a", 0, seed == 0, seed=seed) for seed in range(4)] + [row("b", 0, False)]
    result = one(table1_contrasts(rows, [("c", "a", "b")]), task="all")
    assert (result.n_pairs, result.difference) == (1, 0.25)


def test_elements_that_never_act_show_zero_and_silent_ones_show_nothing():
    acted = row("student_hstar", 0, True, calls=[("hours", "Ivy"), ("calc", "1+2")])
    for turn in acted["turns"]:
        turn["events"] = [{"element": "hooks:ledger", "action": "noted", "text": ""}]
    rows = [acted, row("student_hstar", 1, False), row("student_h0", 0, False)]
    frame = table2_elements(rows, {"mock": ["hooks:ledger", "hooks:finish_guard", "system.recipe"]})
    assert set(frame.arm) == {"student_hstar"}
    assert one(frame, element="hooks:ledger").rate == 0.5
    assert one(frame, element="hooks:finish_guard").invoked == 0
    assert pd.isna(one(frame, element="system.recipe").rate)


def test_failure_classes_have_a_share_and_a_rate():
    failures = [{"arm": "a", "task": "mock", "failure_class": kind} for kind in ("planning", "planning", "knowledge")]
    frame = table3_failures(failures, {"a": 12, "b": 5})
    planning = one(frame, arm="a", **{"class": "planning"})
    assert (planning.failures, planning.share_of_failures, planning.rate_of_rollouts) == (2, 2 / 3, 2 / 12)
    nothing = one(frame, arm="b", **{"class": "planning"})
    assert nothing.failures == 0 and pd.isna(nothing.share_of_failures) and nothing.rate_of_rollouts == 0


def test_the_task_table_says_how_hard_a_task_is():
    task = load_task("mock")
    rows = [row("student_h0", i, i == 0, calls=[("calc", "1")]) for i in range(4)]
    rows += [row("student_hstar", i, i < 3, calls=[("calc", "1"), ("submit", 2)]) for i in range(4)]
    lineage = [{**edit(n, f"h{n}", "a" if n else "", None, True, n), "chosen": n == 5} for n in (0, 7, 5)]
    lineage[0]["select_successes"] = 4
    result = one(tasks_table([task], rows, lineage), task="mock")
    assert (result.tools, result.student_h0, result.student_hstar) == (len(task.world.tools()), 0.2, 0.25)
    assert (result.mean_turns, result.tokens) == (2, 10) and pd.isna(result.expert_success)


def test_costs_are_summed_by_stage_task_and_arm():
    entries = [{"stage": "02", "task": "mock", "seconds": 1.5, "rollouts": 3}]
    entries += [{"stage": "02", "task": "mock", "seconds": 2}]
    result = one(costs_table([*entries, {"stage": "01", "seconds": 9}]), stage="02")
    assert (result.seconds, result.rollouts, result.arm) == (3.5, 3, "")


def test_the_clock_counts_the_minutes_in_which_a_stage_was_at_work():
    """Units side by side count once, the pause between two of them, which may be another run, not at all."""
    units = [
        {"stage": "02", "seconds": 90, "ended": "2026-01-01T10:02:00+00:00"},
        {"stage": "02", "seconds": 120, "ended": "2026-01-01T10:02:00+00:00"},
        {"stage": "02", "seconds": 60, "ended": "2026-01-01T10:04:00+00:00"},
        {"stage": "01", "seconds": 60, "ended": "2026-01-01T09:04:00+00:00"},
        {"stage": "03", "seconds": 60, "ended": None},
    ]
    frame = clock_table(units)
    assert frame[["stage", "units"]].values.tolist() == [["01", 1], ["02", 3], ["03", 1]]
    assert list(frame.minutes[:2]) == [1.0, 3.0] and pd.isna(frame.minutes[2])


def test_behaviour_tells_calculators_loops_and_finishers_apart():
    rows = [
        row("a", 0, True, calls=[("hours", "Ivy"), ("calc", "1+1"), ("submit", 2)]),
        row("a", 1, False, calls=[("hours", "Ivy"), ("hours", "Ivy")], status="out_of_turns"),
        row("a", 2, False, calls=[("hours", "Ivy")], status="stuck"),
        row("a", 3, False, status="fault"),
    ]
    result = one(behaviour(rows), task="all")
    assert (result.episodes, result.mean_turns, result.mean_tokens) == (3, 2, 10)
    assert (result.calc_share, result.loop_share, result.finished_share) == pytest.approx((1 / 3, 2 / 3, 1 / 3))


def test_a_small_p_is_not_written_as_zero():
    assert markdown(pd.DataFrame({"p": [0.00005, 0.0]})).splitlines()[2:] == ["| <0.001 |", "| 0.000 |"]


def test_the_instance_that_tells_two_arms_apart_is_one_that_only_one_of_them_solved():
    a, b = PRIMARY
    rows = [row(a, 0, True), row(a, 1, True), row(a, 2, False), row("student_hstar", 0, False)]
    rows += [row(b, 0, True), row(b, 1, False, status="fault"), row(b, 2, True)]
    first, second = apart(rows, a, b)
    assert (first["arm"], second["arm"]) == (a, b)
    assert first["instance"] == second["instance"] == "mock/test/0002"
    assert apart([found for found in rows if found["arm"] != b], a, b) == []
    assert apart(rows[:5], a, b) == []


def test_any_seed_can_tell_two_arms_apart():
    rows = [row("a", 0, True), row("a", 0, True, seed=1), row("b", 0, True), row("b", 0, False, seed=1)]
    assert [found["seed"] for found in apart(rows, "a", "b")] == [0, 1]


def test_the_primary_contrast_comes_first():
    frame = table1_contrasts([row(arm, 0, True) for arm in ("student_h0", "student_hstar", *PRIMARY)])
    assert frame.contrast[0] == PRIMARY_NAME == " - ".join(PRIMARY)


def test_tables_without_rows_keep_their_columns():
    frames = [table1_success([], []), table1_contrasts([], []), table2_elements([], {}), table4_edits([])]
    frames += [table3_failures([], {}), costs_table([]), tasks_table([], []), behaviour([])]
    assert all(len(frame) == 0 and len(frame.columns) >= 5 for frame in frames)


def test_the_dose_response_says_how_strange_the_work_was_and_what_came_of_it():
    rows = [row("student_hstar", i, i < 2) for i in range(4)] + [row("imit_hstar", i, False) for i in range(4)]
    rows += [row("corr", i, i < 3, calls=[("calc", "1"), ("submit", 2)]) for i in range(4)]
    arms = [
        {"name": "student_hstar", "rows": "none", "harness": "hstar"},
        {"name": "imit_hstar", "rows": "expert", "harness": "hstar", "directness": 1.0},
        {"name": "corr", "rows": "correction", "harness": "hstar"},
        {"name": "imit_h0", "rows": "expert", "harness": "h0"},
    ]
    trained = [
        {"arm": name, "seed": s, "rows": 100, "loss_before": 0.5 + s, "style_divergence": 0.2}
        for name in ("imit_hstar", "corr", "imit_h0")
        for s in (0, 1)
    ]
    frame = dose_response(rows, arms, trained, {"directness": 0.5, "persistence": 1.0})
    assert list(frame.arm) == ["imit_hstar", "corr"], "only arms that were trained for h*"
    imit, corr = one(frame, arm="imit_hstar"), one(frame, arm="corr")
    assert (imit.directness, imit.seeds, imit.loss_before, imit.change) == (1.0, 2, 1.0, -0.5) and pd.isna(
        imit.persistence
    )
    assert (corr.directness, corr.persistence, corr.change) == (0.5, 1.0, 0.25)
    assert corr.turns_per_success == pytest.approx(8 / 3) and imit.turns_per_success != imit.turns_per_success


def test_seeds_and_wordings_are_shown_apart():
    rows = [row("a", i, i < n, seed=seed) for seed, n in ((0, 1), (101, 4)) for i in range(4)]
    rows += [row("b", i, i < 2) for i in range(4)]
    frame = by_seed(rows)
    assert frame[["arm", "seed", "n", "success"]].values.tolist() == [["a", 0, 4, 0.25], ["a", 101, 4, 1.0]]
    unseen = {f"mock/test/{i:04d}": i % 2 == 1 for i in range(4)}
    words = by_wording(rows[8:], unseen)
    assert words[["wording", "n", "success"]].values.tolist() == [["same", 2, 0.5], ["other", 2, 0.5]]


def test_the_trend_of_a_dial_is_the_line_through_the_arms_that_vary_it():
    """Four arms at 0, 0.25, 0.5 and 1 that solve 4, 3, 2 and 0 of 4; others, which differ in more, do not count."""
    doses = {"none": 0.0, "few": 0.25, "half": None, "all": 1.0}
    solved = {"none": 4, "few": 3, "half": 2, "all": 0, "matched": 4, "chosen": 4}
    rows = [row(arm, i, i < n) for arm, n in solved.items() for i in range(4)]
    plain = {"rows": "expert", "harness": "hstar", "match": ""}
    arms = [{"name": name, **plain, **({} if d is None else {"directness": d})} for name, d in doses.items()]
    arms += [{"name": "matched", **plain, "match": "half", "directness": 0.0}]
    arms += [{"name": "chosen", **plain, "rows": "correction", "choice": "student_likelihood", "persistence": 0.0}]
    [line] = dose_trend(rows, arms, {"directness": 0.5, "persistence": 1.0}).to_dict("records")
    assert (line["dial"], line["n_pairs"]) == ("directness", 4) and line["change"] == pytest.approx(-1.0)
    assert line["arms"] == "none (0), few (0.25), half (0.5), all (1)" and line["ci_high"] < 0
    assert dose_trend(rows, arms[:1], {"directness": 0.5, "persistence": 1.0}).empty, "one dose is no trend"


def test_holm_adjusts_the_secondary_contrasts_over_all_tasks_alone():
    rows = [
        row(arm, i, (i + n) % (n + 2) == 0)
        for n, arm in enumerate(("corr_hstar", "imit_hstar", "student_hstar"))
        for i in range(12)
    ]
    frame = table1_contrasts(rows)
    overall = frame[(frame.task == "all") & (frame.n_pairs > 0)]
    assert overall[overall.contrast == PRIMARY_NAME].p_holm.isna().all()
    assert (overall[overall.contrast != PRIMARY_NAME].p_holm >= overall[overall.contrast != PRIMARY_NAME].p).all()
    assert frame[frame.task != "all"].p_holm.isna().all()
