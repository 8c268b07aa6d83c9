"""The tables of the study, each built from the rows that the stages wrote, as a DataFrame with fixed columns.

An evaluation row is `Trajectory.to_json()` with `arm` and `seed`. Faults are no scores (rule 9): they are counted and
otherwise left out. Successes are fractions from 0 to 1. Reading files and drawing are done elsewhere.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import pandas as pd

from coevo_lib import paper
from coevo_lib.errors import UserError
from coevo_lib.harness import Harness
from coevo_lib.localization import CLASSES
from coevo_lib.measures import ALL, by_task, generated, instance_scores, mean, ratio, scored, scripted, success
from coevo_lib.search_tables import best_chosen, select_share
from coevo_lib.stats import holm, paired_difference, t_interval
from coevo_lib.table_format import COLUMNS, frame_of

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
        ("imit_stepwise_hstar", "corr_hstar"), ("imit_stepwise_hstar", "student_hstar"),
    )
]  # fmt: skip
PRIMARY_NAME = CONTRASTS[0][0]


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
    return frame_of("table1_success", found)


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
        found += _contrast_rows(name, a, b, instance_scores(rows, a), instance_scores(rows, b), _seeds(rows, a, b))
    overall = [row for row in found if row["task"] == ALL and row["contrast"] != PRIMARY_NAME]
    for row, p in zip(overall, holm([row["p"] for row in overall])):
        row["p_holm"] = p
    return frame_of("table1_contrasts", found)


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
    return frame_of("table2_elements", found).astype({"invoked": "Int64", "rate": float})


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
            published = paper.FAILURE_SHARES.get(kind, {}).get(arm)
            rates |= {"paper_share": published.value} if published else {}
            found.append({"arm": arm, "class": kind, "failures": n, **rates})
    return frame_of("table3_failures", found)


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
        h0, chosen = next((row for row in tried if row["kind"] == "seed"), None), best_chosen(tried)
        found.append({
            "task": task.name, "tools": len(task.world.tools()), "templates": len(task.templates),
            "expert_success": success(expert)["success"],
            "student_h0": select_share(h0), "student_hstar": select_share(chosen),
            "mean_turns": mean(len(row["turns"]) for row in student),
            "tokens": mean(generated(row) for row in student),
        })  # fmt: skip
    return frame_of("tasks", found)


def dose_response(rows: Sequence[dict], arms: Iterable[dict], trained: Iterable[dict], expert: dict) -> pd.DataFrame:
    """How strange the work is that each arm under h* was trained on, and how its success changed.

    rows: evaluation rows. trained: {arm, seed, rows, loss_before, style_divergence} of each adapter. expert: the profile's
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
            "arm": arm["name"], "rows": arm["rows"], "examples": mean(made["rows"] for made in mine),
            **{name: style[name] for name in asked}, "seeds": len(mine),
            "style_divergence": mean(made["style_divergence"] for made in mine),
            "loss_before": mean(made["loss_before"] for made in mine),
            "turns_per_success": ratio(sum(len(row["turns"]) for row in played), sum(row["success"] for row in played)),
            "change": change.difference, "ci_low": change.ci_low, "ci_high": change.ci_high,
        })  # fmt: skip
    return frame_of("dose_response", found)


def dose_trend(rows: Sequence[dict], arms: Iterable[dict], expert: dict) -> pd.DataFrame:
    """How success changes from the least to the most of each dial of the expert, by the line through the arms that vary it.

    Imitation arms vary `directness`, correction arms `persistence`; an arm that differs in anything else is left out, and
    so is a dial with fewer than two values.
    """
    found, arms = [], list(arms)
    for kind, dial in (("expert", "directness"), ("correction", "persistence")):
        plain = [arm for arm in arms if arm["rows"] == kind and arm["harness"] == "hstar" and not arm["match"]]
        plain = [arm for arm in plain if not arm.get("choice")]
        scores = {arm["name"]: instance_scores(rows, arm["name"]) for arm in plain}
        doses = {arm["name"]: arm.get(dial, expert[dial]) for arm in plain if scores[arm["name"]]}
        if len(set(doses.values())) < 2:
            continue
        middle, reach = mean(doses.values()), max(doses.values()) - min(doses.values())
        spread = sum((dose - middle) ** 2 for dose in doses.values())
        weights = {name: reach * (dose - middle) / spread for name, dose in doses.items()}
        played = set.intersection(*(set(scores[name]) for name in doses))
        slopes = {
            key: {0: sum(weight * mean(scores[name][key].values()) for name, weight in weights.items())}
            for key in played
        }
        line = paired_difference(slopes, {key: {0: 0.0} for key in played})
        shown = ", ".join(f"{name} ({dose:g})" for name, dose in sorted(doses.items(), key=lambda pair: pair[1]))
        named = {"rows": kind, "dial": dial, "arms": shown, "change": line.difference, "n_pairs": line.n_pairs}
        found.append({**named, "ci_low": line.ci_low, "ci_high": line.ci_high, "p": line.p})
    return frame_of("dose_trend", found)


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
    return frame_of("costs", sorted(found, key=lambda row: row["stage"]))


def clock_table(units: Iterable[dict]) -> pd.DataFrame:
    """Minutes in which each stage was at work, by the clock: of units {stage, seconds, ended (ISO time, or nothing)}."""
    stages: dict[str, list[dict]] = defaultdict(list)
    for unit in units:
        stages[unit["stage"]].append(unit)
    found = []
    for stage, done in sorted(stages.items()):
        known = all(unit.get("ended") for unit in done)
        spans = []
        for unit in done if known else ():
            end = datetime.fromisoformat(unit["ended"])
            spans.append((end - timedelta(seconds=unit["seconds"]), end))
        minutes = _covered(spans) / 60 if known else float("nan")
        found.append({"stage": stage, "units": len(done), "minutes": minutes})
    return frame_of("clock", found)


def by_wording(rows: Sequence[dict], unseen: dict[str, bool]) -> pd.DataFrame:
    """Success of each student arm on `test`, by whether the wording appears in another split.

    unseen: test instance -> whether its wording appears in no other split.
    """
    found = []
    for arm in dict.fromkeys(row["arm"] for row in rows):
        for wording, new in (("same", False), ("other", True)):
            part = [row for row in rows if row["arm"] == arm and unseen[row["instance"]] == new]
            rates = success(part)
            found.append({"arm": arm, "wording": wording, "n": rates["n_instances"], **rates})
    return frame_of("by_wording", found)


def by_seed(rows: Sequence[dict]) -> pd.DataFrame:
    """Success over all tasks of each training seed, for the arms that have several."""
    found = []
    for arm in dict.fromkeys(row["arm"] for row in rows):
        seeds = sorted({row["seed"] for row in rows if row["arm"] == arm})
        for seed in seeds if len(seeds) > 1 else ():
            rates = success([row for row in rows if (row["arm"], row["seed"]) == (arm, seed)])
            found.append({"arm": arm, "seed": seed, "n": rates["n_instances"], **rates})
    return frame_of("by_seed", found)


# ---- single rows


def _covered(spans: Iterable[tuple[datetime, datetime]]) -> float:
    """Seconds that at least one of the spans covers."""
    total, until = 0.0, None
    for start, end in sorted(spans):
        start = max(start, until) if until else start
        total += max(0.0, (end - start).total_seconds())
        until = max(end, until) if until else end
    return total


def _contrast_rows(name: str, a: str, b: str, means_a: dict, means_b: dict, seeds: str) -> Iterable[dict]:
    tasks, changes = list(dict.fromkeys(task for task, _ in means_a)) if means_a and means_b else [], []
    for task in [*tasks, ALL]:
        parts = ({k: v for k, v in means.items() if task in (k[0], ALL)} for means in (means_a, means_b))
        published, measured = paper.difference(a, b, task), paired_difference(*parts)
        value = published.value if published else float("nan")
        row = {"contrast": name, "task": task, **vars(measured), "paper_difference": value, "seeds": seeds}
        changes += [measured.difference] if measured.n_pairs else []
        yield row | (dict(zip(("t_low", "t_high"), t_interval(changes[:-1]))) if task == ALL else {})


def _seeds(rows: Iterable[dict], *arms: str) -> str:
    """How many training seeds each arm has."""
    rows = list(rows)
    return ", ".join(str(len({row["seed"] for row in rows if row["arm"] == arm})) for arm in arms)


def _first_of(rows: list[dict], *arms: str) -> list[dict]:
    parts = ([row for row in rows if row["arm"] == arm] for arm in arms)
    return next((part for part in parts if part), [])
