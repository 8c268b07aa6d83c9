"""What the search proposed, what came of it, and what its gain is worth elsewhere."""

import pytest
from table_rows import edit, one, row

from coevo_lib.search_tables import ablation, by_split, search_controls, table4_edits


def test_an_edit_is_kept_only_on_the_way_to_hstar():
    lineage = [
        edit(0, "h0", "", None, True, 4),
        edit(1, "x", "hooks:a", "h0", True, 9, ["hooks:a"]),
        edit(2, "y", "hooks:b", "x", True, 9, ["hooks:a", "hooks:b"]),
        edit(3, "z", "hooks:c", "x", False),
        {**edit(0, "h0", "", None, True, 4), "seed": 1},
        edit(1, "w", "hooks:a", "h0", True, 5, ["hooks:a"], seed=1),
    ]
    frame = table4_edits(lineage)
    assert list(frame.element) == ["hooks:a", "hooks:b", "hooks:c", "hooks:a"]
    assert list(frame.kept) == [True, False, False, False]
    assert list(frame.gain_select.fillna(-9)) == pytest.approx([0.25, 0.0, -9, 0.05])
    assert list(table4_edits(lineage, {"mock": "y"}).kept) == [True, True, False, False]


def test_the_ablation_and_the_controls_of_a_search_say_success_on_select():
    frame = ablation([{"task": "t", "element": "h0", "successes": 5, "n": 20, "tokens": 400, "harness": "x"}])
    assert (
        frame.iloc[0][["success", "tokens"]].tolist() == [0.25, 20.0]
        and frame.iloc[0].ci_low < 0.25 < frame.iloc[0].ci_high
    )
    lineage = [
        edit(0, "h0", "", None, True, 4),
        edit(1, "x", "hooks:a", "h0", True, 10),
        edit(2, "y", "hooks:b", "x", False),
    ]
    control = [{**r, "part": "random_edits", "chosen": r["harness"] == "h0"} for r in lineage[:1]]
    found = search_controls([*lineage, *control])
    assert one(found, search="evidence")[["proposals", "accepted", "select_h0", "select_best"]].tolist() == [
        2,
        1,
        0.2,
        0.5,
    ]
    assert one(found, search="random_edits")[["proposals", "select_best"]].tolist() == [0, 0.2]


def test_a_gain_is_followed_from_the_split_that_was_seen_to_the_one_that_was_not():
    lineage = [
        edit(0, "h0", "", None, True, 4),
        {**edit(1, "x", "hooks:a", "h0", True, 9), "minibatch_n": 12, "minibatch_before": 3, "minibatch_after": 6},
        {**edit(2, "y", "hooks:b", "x", False), "minibatch_n": 12, "minibatch_before": 8, "minibatch_after": 8},
    ]
    training = [row("", i, i < 2, harness_name=name) for name in ("h0", "hstar") for i in range(4)]
    training += [
        row("", 0, True, harness_name="h0", author="expert"),
        row("", 9, False, harness_name="h0", status="fault"),
    ]
    tested = [row("student_hstar", i, i < 3, harness_name="hstar") for i in range(4)]
    unseen = {f"mock/test/{i:04d}": i % 2 == 1 for i in range(4)}
    frame = by_split(lineage, training, tested, unseen)
    mine = frame[frame.task == "mock"]
    assert [(r.harness, r.split, r.n, r.success) for r in mine.itertuples()] == [
        ("h0", "evolve", 12, 0.25), ("h0", "select", 20, 0.2), ("h0", "train", 4, 0.5),
        ("hstar", "evolve", 24, pytest.approx(14 / 24)), ("hstar", "select", 20, 0.45), ("hstar", "train", 4, 0.5),
        ("hstar", "test, same words", 2, 1.0), ("hstar", "test, other words", 2, 0.5),
    ]  # fmt: skip
    assert list(frame[frame.task == "all"].success) == list(mine.success) and list(frame.task)[0] == "all"
    unsure = frame[frame.split != "evolve"]
    assert all(r.ci_low <= r.success <= r.ci_high for r in unsure.itertuples())
    assert frame[frame.split == "evolve"].ci_low.isna().all(), "its instances are played again and again"
    assert by_split([], [], [], {}).empty


def test_over_all_tasks_each_weighs_the_same_and_only_those_count_that_both_harnesses_played():
    """One task played h* eight times as often, the other never; what h* was simplified from counts for it."""

    def search(task, played, kind="hook"):
        rows = [{**edit(0, "h0", "", None, True, 4), "task": task}]
        rows += [
            {**edit(1, "x", "hooks:a", "h0", True, 9), "minibatch_n": 10, "minibatch_before": 2, "minibatch_after": 8}
        ]
        rows += [
            {**edit(2, "z", "hooks:b", "x", False), "minibatch_n": 10, "minibatch_before": 6, "minibatch_after": 0}
        ] * played
        return [{**row, "task": task, "chosen": row["harness"] == "x"} for row in rows]

    lone = [row for row in search("lone", 0) if row["harness"] == "h0"]
    simplified = {**edit(3, "y", "hooks:a", "x", True, 9), "kind": "simplification", "chosen": True, "task": "few"}
    few = [{**row, "chosen": False} for row in search("few", 1)] + [simplified]
    frame = by_split([*search("many", 8), *few, *lone], [], [], {})
    evolve = frame[(frame.split == "evolve") & (frame.task == "all")].set_index("harness")
    assert evolve.success.h0 == pytest.approx(0.2)
    assert evolve.success.hstar == pytest.approx(((8 + 48) / 90 + (8 + 6) / 20) / 2)
