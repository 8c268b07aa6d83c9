"""Tables of the search: its edits, its controls, each element alone, and what its gain is worth on other splits.

Rows come from lineage.jsonl with task and seed, and from ablation.jsonl.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import pandas as pd

from coevo_lib.measures import ratio, scored
from coevo_lib.search import SIMPLIFICATION
from coevo_lib.stats import wilson
from coevo_lib.table_format import frame_of

NO_EDITS = ("seed", SIMPLIFICATION)  # kinds of rows of a search's record that are no proposals


def table4_edits(lineage: Sequence[dict], hstar: dict[str, str] | None = None) -> pd.DataFrame:
    """Every proposed edit. `lineage`: the searches' rows with task and seed; `hstar`: task -> id of the chosen harness.

    Without `hstar` it is the one that the search says it chose. gain_select: its success on `select` less its parent's,
    empty for a proposal that was dropped before. kept: the edit was accepted on the way to h*, and its element is
    still in it.
    """
    found = []
    for task in dict.fromkeys(row["task"] for row in lineage):
        mine = [row for row in lineage if row["task"] == task]
        chosen = (hstar or {}).get(task) or (best_chosen(mine) or {}).get("harness", "")
        for seed in dict.fromkeys(row["seed"] for row in mine):
            search = [row for row in mine if row["seed"] == seed]
            found += [_edit_row(row, search, chosen) for row in search if row["kind"] not in NO_EDITS]
    return frame_of("table4_edits", found)


def ablation(tried: Iterable[dict]) -> pd.DataFrame:
    """h0, each element of h* alone on top of it, and h*, on `select`: rows of ablation.jsonl with success and interval."""
    found = []
    for row in tried:
        low, high = wilson(row["successes"], row["n"])
        rates = {"success": ratio(row["successes"], row["n"]), "ci_low": low, "ci_high": high}
        found.append({**row, **rates, "tokens": ratio(row["tokens"], row["n"])})
    return frame_of("ablation", found)


def search_controls(lineage: Iterable[dict]) -> pd.DataFrame:
    """Each search with what it found on `select`: by evidence, repeated with other seeds, and by the same operators at random.

    lineage: rows with task, seed and part (empty, `repeats` or `random_edits`).
    """
    groups = defaultdict(list)
    for row in lineage:
        groups[row["task"], row.get("part") or "evidence", row["seed"]].append(row)
    found = []
    for (task, search, seed), rows in groups.items():
        proposals = [row for row in rows if row["kind"] not in NO_EDITS]
        made = {"proposals": len(proposals), "accepted": sum(row["accepted"] for row in proposals)}
        scores = {"select_h0": select_share(rows[0]), "select_best": select_share(next(filter(is_chosen, rows), None))}
        found.append({"task": task, "search": search, "seed": seed, **made, **scores})
    return frame_of("search_controls", sorted(found, key=lambda row: (row["task"], row["search"], row["seed"])))


def by_split(
    lineage: Iterable[dict], training: Iterable[dict], tested: Iterable[dict], unseen: dict[str, bool]
) -> pd.DataFrame:
    """The student under h0 and h* from the split that the proposer sees to the one that nobody does, by task.

    training, tested: rollouts of `train` and of the untrained arms on `test`, with `harness_name`. unseen: instance of
    `test` -> whether its wording appears in no other split. On `evolve` only what the minibatches played counts, for h* also what
    they played under it before it was simplified.
    """
    counts: dict[tuple, list[int]] = defaultdict(lambda: [0, 0])

    def add(task: str, split: str, harness: str, n: int, successes: float) -> None:
        counts[task, split, harness][0] += n
        counts[task, split, harness][1] += int(successes)

    rows = list(lineage)
    for task in dict.fromkeys(row["task"] for row in rows):
        mine = [row for row in rows if row["task"] == task]
        first, best = next((row for row in mine if row["kind"] == "seed"), None), best_chosen(mine)
        for name, harness in (("h0", first), ("hstar", best)):
            if harness is None:
                continue
            same = _before_simplification(harness, mine)
            for row in mine:
                if row.get("minibatch_n") and row.get("parent") in same:
                    add(task, "evolve", name, row["minibatch_n"], row["minibatch_before"])
                if row.get("minibatch_n") and row["harness"] in same:
                    add(task, "evolve", name, row["minibatch_n"], row["minibatch_after"])
            add(task, "select", name, harness["select_n"], harness["select_successes"])
    for row in scored(row for row in training if row["author"] == "student"):
        add(row["task"], "train", row["harness_name"], 1, row["success"])
    for row in scored(tested):
        words = "test, other words" if unseen[row["instance"]] else "test, same words"
        add(row["task"], words, row["harness_name"], 1, row["success"])
    found = []
    for (task, split, harness), (n, successes) in sorted({**_over_tasks(counts), **counts}.items(), key=_reading_order):
        low, high = wilson(round(successes), n) if split != "evolve" else (float("nan"), float("nan"))
        rates = {"n": n, "success": ratio(successes, n), "ci_low": low, "ci_high": high}
        found.append({"task": task, "split": split, "harness": harness, **rates})
    return frame_of("by_split", found)


def _over_tasks(counts: dict[tuple, list[int]]) -> dict[tuple, tuple[int, float]]:
    """(all, split, harness) -> (n, successes) with every task of the same weight, over tasks that both harnesses played."""
    found = {}
    for split in {split for _, split, _ in counts}:
        played = [{task for task, s, h in counts if (s, h) == (split, name)} for name in ("h0", "hstar")]
        both = played[0] & played[1] or played[0] | played[1]
        for name in ("h0", "hstar"):
            mine = [counts[task, split, name] for task in sorted(both) if (task, split, name) in counts]
            if mine:
                n = sum(n for n, _ in mine)
                found["all", split, name] = n, n * sum(successes / n for n, successes in mine) / len(mine)
    return found


def _before_simplification(row: dict, lineage: list[dict]) -> set[str]:
    """The harness of a row and, where simplification made it, those that it was taken out of."""
    found = {row["harness"]}
    while row and row["kind"] == SIMPLIFICATION:
        row = next((r for r in lineage if r["harness"] == row.get("parent") and r["accepted"]), None)
        found |= {row["harness"]} if row else set()
    return found


SPLITS = ("evolve", "select", "train", "test, same words", "test, other words")


def _reading_order(item: tuple) -> tuple:
    (task, split, harness), _ = item
    return task != "all", task, harness, SPLITS.index(split)


def best_chosen(lineage: Iterable[dict]) -> dict | None:
    """The row of a task's h*: over its searches the chosen one with the most successes on `select`, ties to the earlier seed."""
    return max(sorted(filter(is_chosen, lineage), key=lambda row: row["seed"]), key=select_share, default=None)


def is_chosen(row: dict) -> bool:
    return row.get("chosen", False)


def select_share(row: dict | None) -> float:
    known = row and row.get("select_n") and row.get("select_successes") is not None
    return row["select_successes"] / row["select_n"] if known else float("nan")


def _edit_row(row: dict, search: list[dict], chosen: str) -> dict:
    """One proposal; `search` holds the rows of its own search, where its parent and, perhaps, h* are."""
    accepted = {other["harness"]: other for other in search if other["accepted"]}
    final = accepted.get(chosen, {})
    gain = select_share(row) - select_share(accepted.get(row.get("parent")))
    kept = row["accepted"] and row["harness"] in _ancestry(chosen, accepted)
    kept = bool(kept and row["element"] in final.get("elements", []))
    return {"task": row["task"], "kind": row["kind"], "element": row["element"], "gain_select": gain, "kept": kept}


def _ancestry(harness: str, accepted: dict[str, dict]) -> set[str]:
    found: set[str] = set()
    while harness in accepted and harness not in found:
        found.add(harness)
        harness = accepted[harness].get("parent")
    return found
