"""Tables of the localisers: how often they name a planted failing turn, what class they give it, where they agree."""

from collections import Counter, defaultdict
from collections.abc import Iterable

import pandas as pd

from coevo_lib.measures import ALL, mean
from coevo_lib.table_format import frame_of


def localization_scores(judged: Iterable[dict] = ()) -> pd.DataFrame:
    """How often a method names the planted failing turn, exactly and within one turn; by task and true class.

    judged: rows {method, task, class, planted, found}, turns counted from 0, `found` None where none was named.
    Without planted failures the table is empty.
    """
    groups = defaultdict(list)
    for row in judged:
        away = abs(row["found"] - row["planted"]) if row["found"] is not None else None
        for kind in (row["class"], ALL):
            groups[row["method"], row["task"], kind].append(away)
    found = [
        {"method": method, "task": task, "class": kind, **_hits(away)} for (method, task, kind), away in groups.items()
    ]
    return frame_of("localization_scores", found)


def localization_classes(judged: Iterable[dict] = ()) -> pd.DataFrame:
    """Which failure class each method names for each kind of planted damage: `n` of them, over all tasks."""
    counts = Counter((row["method"], row["class"], row["named"]) for row in judged)
    found = [dict(zip(("method", "planted", "named"), key)) | {"n": n} for key, n in counts.items()]
    return frame_of("localization_classes", sorted(found, key=lambda row: (row["method"], row["planted"], -row["n"])))


def agreement(said: Iterable[dict]) -> pd.DataFrame:
    """How often each method names the oracle's turn in a real failure, by task.

    said: rows {method, task, instance, turn}; failures in which the oracle blames no turn are left out.
    """
    rows = list(said)
    oracle = {row["instance"]: row["turn"] for row in rows if row["method"] == "oracle" and row["turn"] is not None}
    groups = defaultdict(list)
    for row in rows:
        if row["method"] != "oracle" and row["instance"] in oracle:
            away = abs(row["turn"] - oracle[row["instance"]]) if row["turn"] is not None else None
            groups[row["method"], row["task"]].append(away)
    return frame_of("localization_agreement", [
        {"method": method, "task": task, **_hits(away)} for (method, task), away in groups.items()
    ])  # fmt: skip


def _hits(away: list[int | None]) -> dict:
    """n, exact and within_one of distances in turns; None where no turn was named."""
    near = mean(a is not None and a <= 1 for a in away)
    return {"n": len(away), "exact": mean(a == 0 for a in away), "within_one": near}


def planted_failures(counts: Iterable[dict]) -> pd.DataFrame:
    """How many failures were planted, by task and class of the damage: rows of planting_counts.jsonl as they are."""
    return frame_of("planted_failures", list(counts))


def crossed(frame: pd.DataFrame, value: str, n: str) -> pd.DataFrame:
    """Class by task, for reading: `value (n)` in each cell, empty where nothing was planted."""
    shown = frame[frame[n] > 0].assign(cell=lambda f: [f"{v:.2g} ({m})" for v, m in zip(f[value], f[n])])
    table = shown.pivot_table(index="class", columns="task", values="cell", aggfunc="first", sort=False)
    return table.fillna("").rename_axis(columns=None).reset_index()
