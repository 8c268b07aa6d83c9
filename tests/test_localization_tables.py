"""How localisers are scored: against what was planted, and beside one another."""

from table_rows import one

from coevo_lib.localization_tables import (
    agreement,
    crossed,
    localization_classes,
    localization_scores,
    planted_failures,
)


def test_localization_is_scored_against_what_was_planted():
    judged = [
        {"method": "replay", "task": "mock", "class": "planning", "planted": 3, "found": found}
        for found in (3, 2, 5, None)
    ]
    result = one(localization_scores(judged), **{"class": "planning"})
    assert (result.n, result.exact, result.within_one) == (4, 0.25, 0.5)
    assert list(localization_scores().columns) == ["method", "task", "class", "n", "exact", "within_one"]


def test_a_crossed_table_shows_value_and_number_by_class_and_task():
    rows = [{"method": "replay", "task": task, "class": kind, "planted": 3, "found": found}
            for task, kind, found in [("a", "x", 3), ("a", "x", 4), ("b", "x", 3), ("b", "y", None)]]  # fmt: skip
    table = crossed(localization_scores(rows), "exact", "n").set_index("class")
    assert (table.loc["x", "a"], table.loc["x", "b"], table.loc["y", "b"]) == ("0.5 (2)", "1 (1)", "0 (1)")
    assert table.loc["y", "a"] == "" and table.loc["all", "b"] == "0.5 (2)"


def test_planted_failures_with_nothing_played_leave_their_cell_empty():
    counts = [
        {"task": "a", "class": kind, "possible": n, "played": n, "recovered": 0, "faults": 0, "kept": n}
        for kind, n in [("x", 2), ("y", 0)]
    ]
    table = planted_failures(counts)
    assert list(table.columns) == ["task", "class", "possible", "played", "recovered", "faults", "kept"]
    assert list(crossed(table, "kept", "played")["class"]) == ["x"]


def test_a_class_is_named_by_each_method_and_agreement_is_with_the_oracle():
    judged = [{"method": m, "task": "t", "class": "dropped_item", "planted": 2, "found": 2, "named": n}
              for m, n in (("oracle", "knowledge"), ("oracle", "knowledge"), ("heuristic", "other"))]  # fmt: skip
    frame = localization_classes(judged)
    assert frame.values.tolist() == [
        ["heuristic", "dropped_item", "other", 1],
        ["oracle", "dropped_item", "knowledge", 2],
    ]
    said = [{"method": m, "task": "t", "instance": i, "turn": turn} for i, (a, b) in enumerate([(3, 3), (3, 4), (3, None), (None, 1)])
            for m, turn in (("oracle", a), ("heuristic", b))]  # fmt: skip
    assert one(agreement(said), method="heuristic")[["n", "exact", "within_one"]].tolist() == [3, 1 / 3, 2 / 3]
