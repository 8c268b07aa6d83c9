"""What played episodes measure: verdicts, success with its interval, and the way of working.

A row is `Trajectory.to_json()` with `arm` and `seed`. Faults are no scores (rule 9): they are counted and otherwise
left out. `tables` lays these numbers out.
"""

from collections import defaultdict
from collections.abc import Iterable

import pandas as pd

from coevo_lib.stats import clustered_interval, pass_hat_k, wilson

ALL = "all"
BEHAVIOUR = ["arm", "task", "episodes", "mean_turns", "mean_tokens", "calc_share", "loop_share", "finished_share"]


def scored(rows: Iterable[dict]) -> list[dict]:
    """The rows that have a score: all but faults."""
    return [row for row in rows if row["status"] != "fault"]


def verdicts(rows: Iterable[dict]) -> dict[tuple[str, str], list[int]]:
    """(task, instance) -> its verdicts, 0 or 1, over seeds and samples."""
    found = defaultdict(list)
    for row in scored(rows):
        found[row["task"], row["instance"]].append(int(row["success"]))
    return found


def instance_scores(rows: Iterable[dict], arm: str) -> dict[tuple[str, str], dict[int, float]]:
    """(task, instance) -> training seed -> mean success of one arm over samples."""
    found: dict[tuple[str, str], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in scored(row for row in rows if row["arm"] == arm):
        found[row["task"], row["instance"]][row["seed"]].append(int(row["success"]))
    return {key: {seed: mean(values) for seed, values in seeds.items()} for key, seeds in found.items()}


def success(rows: list[dict]) -> dict:
    """seeds, n_instances, trials, successes, success, ci_low, ci_high (95%), pass_all and faults of some rows.

    pass_all: pass^k, where k is how often every instance was played; empty for one trial, which success says.
    """
    by_instance, valid = verdicts(rows), scored(rows)
    successes = sum(map(sum, by_instance.values()))
    single, fewest = len(valid) == len(by_instance), min(map(len, by_instance.values()), default=0)
    low, high = wilson(successes, len(valid)) if single else clustered_interval(by_instance)
    return {
        "seeds": len({row["seed"] for row in valid}), "n_instances": len(by_instance), "trials": len(valid),
        "successes": successes, "success": ratio(successes, len(valid)), "ci_low": low, "ci_high": high,
        "faults": len(rows) - len(valid), "pass_all": float("nan") if single else pass_hat_k(by_instance, fewest),
    }  # fmt: skip


def scripted(rows: Iterable[dict], arm: dict) -> bool:
    """Whether a scripted expert played this arm: the arm says so, or its rows do."""
    signs = (row.get("author") == row.get("model") == "expert" for row in rows)
    return arm.get("rows") == "scripted" or any(signs)


def by_task(rows: list[dict]) -> list[tuple[str, list[dict]]]:
    """(task, its rows) for each task, then (all, every row)."""
    tasks = dict.fromkeys(row["task"] for row in rows)
    parts = [(task, [row for row in rows if row["task"] == task]) for task in tasks]
    return [*parts, (ALL, rows)] if rows else []


def apart(rows: Iterable[dict], a: str, b: str) -> list[dict]:
    """A row of arm `a` and one of arm `b` on the first instance that only one of them solved; empty if there is none."""
    valid = scored(rows)
    theirs = defaultdict(list)
    for row in valid:
        if row["arm"] == b:
            theirs[row["instance"]].append(row)
    pairs = ([row, other] for row in valid if row["arm"] == a for other in theirs[row["instance"]])
    return next((pair for pair in pairs if pair[0]["success"] != pair[1]["success"]), [])


def behaviour(rows: Iterable[dict], calculator: str = "calc") -> pd.DataFrame:
    """How an arm works, by task and over all tasks: what a drift of planning style would change.

    mean_turns and mean_tokens (generated) per episode; the others are shares of episodes: that called the calculator,
    that looped (stopped as stuck, or made the same call twice), that called a finishing tool.
    """
    rows = list(rows)
    found = []
    for arm in dict.fromkeys(row["arm"] for row in rows):
        for task, part in by_task([row for row in rows if row["arm"] == arm]):
            part = scored(part)
            calls = [[turn["call"] for turn in row["turns"] if turn["call"]] for row in part]
            found.append({
                "arm": arm, "task": task, "episodes": len(part),
                "mean_turns": mean(len(row["turns"]) for row in part),
                "mean_tokens": mean(generated(row) for row in part),
                "calc_share": mean(any(call[0] == calculator for call in made) for made in calls),
                "loop_share": mean(row["status"] == "stuck" or _repeats(made) for row, made in zip(part, calls)),
                "finished_share": mean(row["status"] == "finished" for row in part),
            })  # fmt: skip
    return pd.DataFrame(found, columns=BEHAVIOUR)


def generated(row: dict) -> int:
    """Tokens that the model wrote in one episode."""
    return sum(turn["output_tokens"] for turn in row["turns"])


def mean(values: Iterable[float]) -> float:
    values = list(values)
    return ratio(sum(values), len(values))


def ratio(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")


def _repeats(calls: list[list]) -> bool:
    return len({repr(call) for call in calls}) < len(calls)
