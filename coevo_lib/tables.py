"""The tables of the study, each built from the rows that the stages wrote, as a DataFrame with fixed columns.

An evaluation row is `Trajectory.to_json()` with `arm` and `seed`. Faults are no scores (rule 9): they are counted and
otherwise left out. Successes are fractions from 0 to 1. Reading files and drawing are done elsewhere.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from coevo_lib import paper
from coevo_lib.errors import UserError
from coevo_lib.files import write_text_atomic
from coevo_lib.harness import Harness
from coevo_lib.localization import CLASSES
from coevo_lib.measures import ALL, by_task, generated, instance_scores, mean, ratio, scored, scripted, success
from coevo_lib.search import SIMPLIFICATION
from coevo_lib.show import cell_text
from coevo_lib.stats import holm, paired_difference, wilson

ACTING = ("hooks:", "tools.composite:")  # these elements act in single turns; the others stand in every prompt
PRIMARY = ("corr_hstar", "imit_hstar")
CONTRASTS = [
    (f"{a} - {b}", a, b)
    for a, b in (
        PRIMARY, ("imit_hstar", "student_hstar"), ("corr_hstar", "student_hstar"),
        ("imit_h0", "student_h0"), ("student_hstar", "student_h0"),
        ("imit_hstar", "imit_stepwise_hstar"), ("corr_hstar", "corr_direct_hstar"),
        ("corr_hstar", "random_turn_hstar"), ("corr_hstar", "imit_matched_hstar"),
        ("corr_hstar", "own_hstar"), ("corr_hstar", "oec_hstar"), ("student_hstar", "best_of_n_h0"),
    )
]  # fmt: skip
NO_EDITS = ("seed", SIMPLIFICATION)  # kinds of rows of a search's record that are no proposals
PRIMARY_NAME = CONTRASTS[0][0]
COLUMNS = {
    "table1_success": "arm task seeds n_instances trials successes success ci_low ci_high faults note",
    "table1_contrasts": "contrast task difference ci_low ci_high p n_pairs minimum_detectable paper_difference p_holm",
    "table2_elements": "arm task element rollouts invoked rate",
    "table3_failures": "arm class failures share_of_failures rate_of_rollouts",
    "table4_edits": "task kind element gain_select kept",
    "tasks": "task tools templates expert_success student_h0 student_hstar mean_turns tokens",
    "localization_scores": "method task class n exact within_one",
    "localization_classes": "method planted named n",
    "dose_response": "arm rows directness persistence seeds style_divergence loss_before turns_per_success change ci_low ci_high",
    "localization_agreement": "method task n exact within_one",
    "ablation": "task element n success ci_low ci_high tokens",
    "search_controls": "task search seed proposals accepted select_h0 select_best",
    "planted_failures": "task class possible played recovered faults kept",
    "costs": "stage task arm rollouts seconds generated_tokens trained_tokens expert_calls",
}
# What a reader of a table has to know: written under it, and shown under it in a notebook.
NOTES = {
    "table1_contrasts": "Intervals: bootstrap over instances and training seeds and, for task = all with five tasks or more, "
    "over tasks. p: sign flips over instances. p_holm: Holm's, over the contrasts of all tasks but the primary one, which "
    "stands alone. minimum_detectable: the difference that a study of this size finds with 80% power, empty where nothing "
    "spreads. paper_difference: the paper's; over its seven tasks where task = all.",
    "localization_scores": "On planted failures: one known turn of a success of the student was damaged, it went on by "
    "itself and failed. exact: the localiser names that turn; within_one: that one or one next to it.",
    "localization_classes": "planted: the kind of damage; named: the paper's class that the method gives it.",
    "dose_response": "Arms trained for h*. directness, persistence: of the expert whose work is kept. style_divergence: of the "
    "pairs of successive calls trained on from the student's own under h* (0 alike, 1 nothing shared). loss_before: of these "
    "rows under the student as it was. turns_per_success: on test. change: success on test less student_hstar's, with its 95% "
    "interval.",
    "localization_agreement": "n: failures that both saw. exact: the same turn as the oracle; within_one: that one or one "
    "next to it. Agreement is no proof: both may be wrong.",
    "ablation": "On select. h*: the whole evolved harness; the lines between add one element of it to h0. tokens: generated "
    "per episode. Differences below the width of the intervals say little with so few instances.",
    "search_controls": "On select, which chose among the accepted proposals, so that the best of it is a little flattered. "
    "random_edits: the same operators and budget, the edit drawn at random.",
    "planted_failures": "possible: different plantings that the successes offer; played: the student went on from so many; "
    "recovered: it succeeded nevertheless; kept: failures that localisers are scored on, at most as many as asked for.",
    "tasks": "The student's success is on select, under h0 and under h*; the expert's is on test. templates: all that the task "
    "has; a profile's diversity says how many are used.",
    "costs": "seconds: each unit from its start to its end; what an interrupted run had done before is not in them. Units "
    "of stages 01, 02 and 06 run side by side and their seconds overlap, so a sum is more than the clock shows. The "
    "clock time of a stage is in no artefact.",
}
EMPTY_NOTES = {
    "localization_scores": "No failure was planted (n_planted = 0, or no success to plant in), so no localiser is scored.",
}


def table1_success(rows: Sequence[dict], arms: Sequence[dict]) -> pd.DataFrame:
    """Success by arm and task, and over all tasks; arms in the order given, those without rows left out.

    The interval is Wilson's for one trial an instance, else clustered by instance. faults: episodes without a score.
    note: `by construction` for a scripted expert, whose success is no evidence.
    """
    found = []
    for arm in arms:
        mine = [row for row in rows if row["arm"] == arm["name"]]
        note = "by construction" if scripted(mine, arm) else ""
        found += [{"arm": arm["name"], "task": task, **success(part), "note": note} for task, part in by_task(mine)]
    return _frame("table1_success", found)


def table1_contrasts(
    rows: Sequence[dict], contrasts: Iterable[tuple[str, str, str]] = CONTRASTS, arms: Iterable[dict] = ()
) -> pd.DataFrame:
    """Paired differences a - b of (name, a, b), by task and over all tasks.

    A contrast with an arm that was not evaluated has one row, with n_pairs = 0. paper_difference: the paper's, as a
    fraction, empty where it has none; for task = all it is over the paper's seven tasks. Raises UserError for a
    scripted expert.
    """
    known = {arm["name"]: arm for arm in arms}
    found = []
    for name, a, b in contrasts:
        for arm in (a, b):
            if scripted([row for row in rows if row["arm"] == arm], known.get(arm, {})):
                raise UserError(
                    f"contrasts: {name} holds {arm}, which a scripted expert plays: its success is by construction; "
                    "take it out"
                )
        found += _contrast_rows(name, a, b, instance_scores(rows, a), instance_scores(rows, b))
    overall = [row for row in found if row["task"] == ALL and row["contrast"] != PRIMARY_NAME]
    for row, p in zip(overall, holm([row["p"] for row in overall])):
        row["p_holm"] = p
    return _frame("table1_contrasts", found)


def table2_elements(rows: Iterable[dict], elements: dict[str, Sequence[str]]) -> pd.DataFrame:
    """How many rollouts each harness element acted in at least once.

    elements: task -> the names of h*'s elements, listed for every arm that played under an evolved harness, so that
    what never acted shows 0. `invoked` and `rate` are empty for elements that stand in every prompt (wording, recipe,
    demonstrations, context, format): they leave no events and cannot be counted.
    """
    groups = defaultdict(list)
    for row in scored(rows):
        groups[row["arm"], row["task"]].append(row)
    found = []
    for (arm, task), played in groups.items():
        acted = [{event["element"] for turn in row["turns"] for event in turn["events"]} for row in played]
        evolved = any(row["harness"] != Harness().id for row in played)
        names = list(elements.get(task, [])) if evolved else []
        for name in dict.fromkeys([*names, *sorted(set().union(*acted))]):
            count = sum(name in seen for seen in acted)
            countable = count > 0 or name.startswith(ACTING)
            shown = {"invoked": count, "rate": count / len(played)} if countable else {}
            found.append({"arm": arm, "task": task, "element": name, "rollouts": len(played), **shown})
    return _frame("table2_elements", found).astype({"invoked": "Int64", "rate": float})


def table3_failures(failures: Iterable[dict], rollouts: dict[str, int]) -> pd.DataFrame:
    """Failed rollouts by class. `failures`: rows {arm, failure_class}; `rollouts`: arm -> rollouts with a score.

    share_of_failures is what the paper's Table 3 gives; rate_of_rollouts can be compared between arms.
    """
    counts = defaultdict(int)
    for row in failures:
        counts[row["arm"], row["failure_class"]] += 1
    found = []
    for arm in dict.fromkeys([*rollouts, *(arm for arm, _ in counts)]):
        total = sum(n for (name, _), n in counts.items() if name == arm)
        for kind in CLASSES:
            n = counts[arm, kind]
            rates = {"share_of_failures": ratio(n, total), "rate_of_rollouts": ratio(n, rollouts.get(arm, 0))}
            found.append({"arm": arm, "class": kind, "failures": n, **rates})
    return _frame("table3_failures", found)


def table4_edits(lineage: Sequence[dict], hstar: dict[str, str] | None = None) -> pd.DataFrame:
    """Every proposed edit. `lineage`: the searches' rows with task and seed; `hstar`: task -> id of the chosen harness.

    Without `hstar` it is the one that the search says it chose. gain_select: its success on `select` less its parent's,
    empty for a proposal that was dropped before. kept: the edit was accepted on the way to h*, and its element is
    still in it.
    """
    found = []
    for task in dict.fromkeys(row["task"] for row in lineage):
        mine = [row for row in lineage if row["task"] == task]
        chosen = (hstar or {}).get(task) or _best(mine)
        for seed in dict.fromkeys(row["seed"] for row in mine):
            search = [row for row in mine if row["seed"] == seed]
            found += [_edit_row(row, search, chosen) for row in search if row["kind"] not in NO_EDITS]
    return _frame("table4_edits", found)


def tasks_table(tasks: Iterable, rows: Sequence[dict], lineage: Sequence[dict] = ()) -> pd.DataFrame:
    """The tasks (loaded `Task` objects) and the room that each leaves (rule 7).

    student_h0 and student_hstar are shares on `select`, from the search's record `lineage`: settings are judged by
    `select`, never by `test`. The other columns are from evaluation rows: mean_turns and tokens (generated, per
    episode) of the student under h*, else under h0; expert_success under h*, else under h0, by construction.
    """
    found = []
    for task in tasks:
        mine = [row for row in rows if row["task"] == task.name]
        student = scored(_first_of(mine, "student_hstar", "student_h0"))
        expert = _first_of(mine, "expert_hstar", "expert_h0")
        tried = [row for row in lineage if row["task"] == task.name]
        h0, chosen = (next(filter(wanted, tried), None) for wanted in (lambda r: r["kind"] == "seed", _is_chosen))
        found.append({
            "task": task.name, "tools": len(task.world.tools()), "templates": len(task.templates),
            "expert_success": success(expert)["success"],
            "student_h0": _select(h0), "student_hstar": _select(chosen),
            "mean_turns": mean(len(row["turns"]) for row in student),
            "tokens": mean(generated(row) for row in student),
        })  # fmt: skip
    return _frame("tasks", found)


def dose_response(rows: Sequence[dict], arms: Iterable[dict], trained: Iterable[dict], expert: dict) -> pd.DataFrame:
    """How strange the work is that each arm under h* was trained on, and how its success changed.

    rows: evaluation rows. trained: {arm, seed, loss_before, style_divergence} of each adapter. expert: the profile's
    directness and persistence, which an arm may replace.
    """
    adapters, base = list(trained), instance_scores(rows, "student_hstar")
    found = []
    for arm in arms:
        mine = [made for made in adapters if made["arm"] == arm["name"]]
        scores = instance_scores(rows, arm["name"])
        if not mine or arm["harness"] != "hstar" or not scores or not base:
            continue
        played = scored(row for row in rows if row["arm"] == arm["name"])
        change = paired_difference(scores, base)
        style = {name: arm.get(name, expert[name]) for name in ("directness", "persistence")}
        asked = {"expert": ("directness",), "own": ()}.get(arm["rows"], ("directness", "persistence"))
        found.append({
            "arm": arm["name"], "rows": arm["rows"], **{name: style[name] for name in asked}, "seeds": len(mine),
            "style_divergence": mean(made["style_divergence"] for made in mine),
            "loss_before": mean(made["loss_before"] for made in mine),
            "turns_per_success": ratio(sum(len(row["turns"]) for row in played), sum(row["success"] for row in played)),
            "change": change.difference, "ci_low": change.ci_low, "ci_high": change.ci_high,
        })  # fmt: skip
    return _frame("dose_response", found)


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
    return _frame("localization_scores", found)


def localization_classes(judged: Iterable[dict] = ()) -> pd.DataFrame:
    """Which failure class each method names for each kind of planted damage: `n` of them, over all tasks."""
    counts = Counter((row["method"], row["class"], row["named"]) for row in judged)
    found = [dict(zip(("method", "planted", "named"), key)) | {"n": n} for key, n in counts.items()]
    return _frame("localization_classes", sorted(found, key=lambda row: (row["method"], row["planted"], -row["n"])))


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
    return _frame("localization_agreement", [
        {"method": method, "task": task, **_hits(away)} for (method, task), away in groups.items()
    ])  # fmt: skip


def _hits(away: list[int | None]) -> dict:
    """n, exact and within_one of distances in turns; None where no turn was named."""
    near = mean(a is not None and a <= 1 for a in away)
    return {"n": len(away), "exact": mean(a == 0 for a in away), "within_one": near}


def ablation(tried: Iterable[dict]) -> pd.DataFrame:
    """h0, each element of h* alone on top of it, and h*, on `select`: rows of ablation.jsonl with success and interval."""
    found = []
    for row in tried:
        low, high = wilson(row["successes"], row["n"])
        rates = {"success": ratio(row["successes"], row["n"]), "ci_low": low, "ci_high": high}
        found.append({**row, **rates, "tokens": ratio(row["tokens"], row["n"])})
    return _frame("ablation", found)


def search_controls(lineage: Iterable[dict]) -> pd.DataFrame:
    """Each search with what it found on `select`: by evidence, and by the same operators at random.

    lineage: rows with task, seed and part (empty, or `random_edits`).
    """
    groups = defaultdict(list)
    for row in lineage:
        groups[row["task"], row.get("part") or "evidence", row["seed"]].append(row)
    found = []
    for (task, search, seed), rows in groups.items():
        proposals = [row for row in rows if row["kind"] not in NO_EDITS]
        made = {"proposals": len(proposals), "accepted": sum(row["accepted"] for row in proposals)}
        scores = {"select_h0": _select(rows[0]), "select_best": _select(next(filter(_is_chosen, rows), None))}
        found.append({"task": task, "search": search, "seed": seed, **made, **scores})
    return _frame("search_controls", sorted(found, key=lambda row: (row["task"], row["search"], row["seed"])))


def planted_failures(counts: Iterable[dict]) -> pd.DataFrame:
    """How many failures were planted, by task and class of the damage: rows of planting_counts.jsonl as they are."""
    return _frame("planted_failures", list(counts))


def crossed(frame: pd.DataFrame, value: str, n: str) -> pd.DataFrame:
    """Class by task, for reading: `value (n)` in each cell, empty where nothing was planted."""
    shown = frame[frame[n] > 0].assign(cell=lambda f: [f"{v:.2g} ({m})" for v, m in zip(f[value], f[n])])
    table = shown.pivot_table(index="class", columns="task", values="cell", aggfunc="first", sort=False)
    return table.fillna("").rename_axis(columns=None).reset_index()


def costs_table(entries: Iterable[dict]) -> pd.DataFrame:
    """What the stages spent: entries with `stage` and any of the columns, summed by stage, task and arm."""
    names = COLUMNS["costs"].split()
    sums: dict[tuple, dict] = {}
    for entry in entries:
        key = tuple(entry.get(name) or "" for name in names[:3])
        total = sums.setdefault(key, dict.fromkeys(names[3:], 0))
        for name in names[3:]:
            total[name] += entry.get(name) or 0
    found = [{**dict(zip(names, key)), **total} for key, total in sums.items()]
    return _frame("costs", sorted(found, key=lambda row: row["stage"]))


def note(frame: pd.DataFrame, name: str) -> str:
    """What has to be said with the table `name`; for one without rows, why it has none."""
    return EMPTY_NOTES.get(name, "No rows.") if frame.empty else NOTES.get(name, "")


def write_table(frame: pd.DataFrame, folder: str | Path, name: str) -> tuple[Path, Path]:
    """Write <name>.csv (6 decimals) and <name>.md (3 decimals, with its note) and return both paths."""
    text = frame.to_csv(index=False, float_format="%.6f", lineterminator="\n")
    said = note(frame, name)
    return (
        write_text_atomic(Path(folder) / f"{name}.csv", text),
        write_text_atomic(Path(folder) / f"{name}.md", markdown(frame) + (f"\n{said}\n" if said else "")),
    )


def markdown(frame: pd.DataFrame) -> str:
    """A Markdown table: numbers to the right, floats with 3 decimals, nothing where a value is missing."""
    lines = [list(frame.columns), ["---:" if kind.kind in "iuf" else "---" for kind in frame.dtypes]]
    lines += [[_markdown_cell(value) for value in row] for row in frame.itertuples(index=False, name=None)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


# ---- single rows


def _contrast_rows(name: str, a: str, b: str, means_a: dict, means_b: dict) -> Iterable[dict]:
    tasks = list(dict.fromkeys(task for task, _ in means_a)) if means_a and means_b else []
    for task in [*tasks, ALL]:
        parts = ({k: v for k, v in means.items() if task in (k[0], ALL)} for means in (means_a, means_b))
        published = paper.difference(a, b, task)
        value = published.value if published else float("nan")
        yield {"contrast": name, "task": task, **vars(paired_difference(*parts)), "paper_difference": value}


def _best(lineage: list[dict]) -> str:
    """h* of a task: over its searches the chosen one with the most successes on `select`, ties to the earlier seed."""
    chosen = sorted(filter(_is_chosen, lineage), key=lambda row: row["seed"])
    return max(chosen, key=_select)["harness"] if chosen else ""


def _is_chosen(row: dict) -> bool:
    return row.get("chosen", False)


def _select(row: dict | None) -> float:
    known = row and row.get("select_n") and row.get("select_successes") is not None
    return row["select_successes"] / row["select_n"] if known else float("nan")


def _edit_row(row: dict, search: list[dict], chosen: str) -> dict:
    """One proposal; `search` holds the rows of its own search, where its parent and, perhaps, h* are."""
    accepted = {other["harness"]: other for other in search if other["accepted"]}
    final = accepted.get(chosen, {})
    gain = _select(row) - _select(accepted.get(row.get("parent")))
    kept = row["accepted"] and row["harness"] in _ancestry(chosen, accepted)
    kept = bool(kept and row["element"] in final.get("elements", []))
    return {"task": row["task"], "kind": row["kind"], "element": row["element"], "gain_select": gain, "kept": kept}


def _ancestry(harness: str, accepted: dict[str, dict]) -> set[str]:
    found: set[str] = set()
    while harness in accepted and harness not in found:
        found.add(harness)
        harness = accepted[harness].get("parent")
    return found


def _first_of(rows: list[dict], *arms: str) -> list[dict]:
    parts = ([row for row in rows if row["arm"] == arm] for arm in arms)
    return next((part for part in parts if part), [])


def _frame(name: str, rows: list[dict]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=COLUMNS[name].split())


def _markdown_cell(value) -> str:
    return cell_text(value, 3).replace("|", "\\|").replace("\n", " ")
