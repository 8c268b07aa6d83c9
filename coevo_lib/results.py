"""Stage 07: reads everything that the stages before wrote, and makes the tables and figures of the study.

What a table or a figure is made of is in `tables`, `measures`, `curves` and `figures`; here is only where the
rows come from.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from coevo_lib import localization_tables, search_tables, tables
from coevo_lib.curves import evolution_figure
from coevo_lib.drawing import save_figure
from coevo_lib.expert import has_script
from coevo_lib.figures import (
    costs_figure,
    differences_figure,
    dose_figure,
    drift_figure,
    failures_figure,
    loop_figure,
    success_figure,
)
from coevo_lib.files import read_json, read_jsonl
from coevo_lib.harness import Harness
from coevo_lib.localization import localize
from coevo_lib.manifest import read_manifest
from coevo_lib.measures import behaviour, generated, scored, scripted
from coevo_lib.stage import Stage
from coevo_lib.stages import Unit
from coevo_lib.study import evolved_harness, instances
from coevo_lib.style_distance import divergence, pairs_of_rollouts, pairs_of_rows
from coevo_lib.table_format import write_table
from coevo_lib.task import Task, load_task
from coevo_lib.trajectory import Trajectory


@dataclass
class Collected:
    """Everything that the tables are made of; one entry a row of the stages' files."""

    tasks: list[Task]
    arms: list[dict]
    rows: list[dict]  # evaluation rows
    lineage: list[dict]  # of the searches that gave h*
    training: list[dict]  # rollouts of stage 02
    corrections: list[dict]
    judged: list[dict]  # planted failures and what the localiser said
    planting: list[dict]  # counts of planted failures
    localized: list[dict]  # what each localiser said of real failures
    ablation: list[dict]  # h0, each element of h* alone, h*
    searches: list[dict]  # `lineage` and that of the searches with other seeds or random edits
    adapters: list[dict]  # what each training unit used
    hstar: dict[str, Harness]
    expert: dict  # the profile's directness and persistence
    unseen: dict[str, bool]  # test instance -> whether its wording appears in no other split
    failures: list[dict]  # of the evaluation, with arm and class
    seconds: list[dict]  # of each unit, and when it ended


def collect(stage: Stage) -> Collected:
    """Reads all units of the stages before, and localises the failures of every arm on `test`."""
    [unit] = stage.units
    tasks = [load_task(name) for name in unit.task_sources]
    main = replace(unit, inputs=tuple(source for source in unit.inputs if not source.part))  # h* comes from no control
    hstar = {task.name: evolved_harness(stage, main, task) for task in tasks}

    def read(stage_id: str, name: str) -> list[dict]:
        sources = [u for u in stage.input(unit, stage_id) if name in u.promised]
        return [{**u.key, **row} for u in sources for row in read_jsonl(u.dir / name)]

    searches = [{**row, "task": Path(row["task"]).stem} for row in read("01_harness_evolution", "lineage.jsonl")]
    lineage = [row for row in searches if "part" not in row]
    rows = read("06_evaluation", "rollouts.jsonl")
    training = read("02_rollouts", "rollouts.jsonl")
    unseen = {
        i.key: task.templates[i.goal["template"]].get("test_only", False)
        for task in tasks
        for i in instances(stage, task, "test")
    }
    adapters = [_adapter(u, training) for u in stage.input(unit, "05_training")]
    return Collected(
        tasks, stage.parameters["arms"], rows, lineage, training,
        read("04_correction", "corrections.jsonl"), read("03_failure_localization", "judged.jsonl"),
        read("03_failure_localization", "planting_counts.jsonl"), read("03_failure_localization", "localized.jsonl"),
        read("02_rollouts", "ablation.jsonl"), searches, adapters, hstar,
        {name: stage.parameters[name] for name in ("directness", "persistence")}, unseen, test_failures(stage, tasks, hstar, rows),
        [_seconds(u) for u in unit.inputs],
    )  # fmt: skip


def _adapter(unit: Unit, training: list[dict]) -> dict:
    """What a training unit used and reached, and how far its rows are from the student's own work under h*."""
    own = pairs_of_rollouts(r for r in training if r["author"] == "student" and r["harness_name"] == "hstar")
    rows = read_jsonl(unit.dir / "rows.jsonl")
    kinds = pairs_of_rows(row for row in rows if row["kind"] == unit.arm["rows"])
    return {**unit.key, **read_json(unit.dir / "summary.json"), "style_divergence": divergence(kinds, own)}


def _seconds(unit: Unit) -> dict:
    task = Path(unit.key["task"]).stem if "task" in unit.key else ""
    manifest = read_manifest(unit)
    return {
        "stage": unit.stage,
        "task": task,
        "arm": unit.key.get("arm", ""),
        "seconds": manifest["seconds"],
        "ended": manifest.get("ended"),
    }


def test_failures(stage: Stage, tasks: list[Task], hstar: dict[str, Harness], rows: list[dict]) -> list[dict]:
    """One row per failed test rollout of a student: arm, task, instance, failing turn, failure class.

    A task without a scripted expert is left out: no other localiser is free.
    """
    scripts = [task for task in tasks if has_script(task)]
    known = {task.name: (task, {i.key: i for i in instances(stage, task, "test")}) for task in scripts}
    found = []
    for row in scored(rows):
        if row["success"] or row["author"] != "student" or row["task"] not in known:
            continue
        task, test = known[row["task"]]
        harness = Harness() if row["harness_name"] == "h0" else hstar[row["task"]]
        failure = localize(task, test[row["instance"]], harness, Trajectory.from_json(row))
        found.append({"arm": row["arm"], "task": row["task"], **vars(failure)})
    return found


def build_tables(found: Collected) -> dict[str, pd.DataFrame]:
    """All tables by name."""
    students = [row for row in found.rows if row["author"] == "student"]
    scripts = {task.name for task in found.tasks if has_script(task)}
    untrained = [row for row in students if row["arm"] in ("student_h0", "student_hstar")]
    counts = {
        arm: sum(row["arm"] == arm and row["task"] in scripts for row in scored(students))
        for arm in dict.fromkeys(r["arm"] for r in students)
    }
    return {
        "table1_success": tables.table1_success(found.rows, found.arms),
        "table1_contrasts": tables.table1_contrasts(found.rows, arms=found.arms),
        "table2_elements": tables.table2_elements(found.rows, {name: h.elements() for name, h in found.hstar.items()}),
        "table3_failures": tables.table3_failures(found.failures, counts),
        "table4_edits": search_tables.table4_edits(found.lineage, {name: h.id for name, h in found.hstar.items()}),
        "tasks": tables.tasks_table(found.tasks, found.rows, found.lineage),
        "dose_response": tables.dose_response(found.rows, found.arms, found.adapters, found.expert),
        "dose_trend": tables.dose_trend(found.rows, found.arms, found.expert),
        "localization_scores": localization_tables.localization_scores(found.judged),
        "localization_classes": localization_tables.localization_classes(found.judged),
        "localization_agreement": localization_tables.agreement(found.localized),
        "ablation": search_tables.ablation(found.ablation),
        "search_controls": search_tables.search_controls(found.searches),
        "by_split": search_tables.by_split(found.lineage, found.training, untrained, found.unseen),
        "by_seed": tables.by_seed(students),
        "by_wording": tables.by_wording(students, found.unseen),
        "planted_failures": localization_tables.planted_failures(found.planting),
        "costs": tables.costs_table(costs(found)),
        "clock": tables.clock_table(found.seconds),
    }


def costs(found: Collected) -> list[dict]:
    """What every stage spent: seconds of its units, episodes, tokens, expert calls."""
    entries = list(found.seconds)
    draws = {arm["name"]: arm.get("samples", 1) for arm in found.arms}
    for stage_id, rows in (("02_rollouts", found.training), ("06_evaluation", found.rows)):
        for row in rows:
            calls = len(row["turns"]) if row["author"] == "expert" else 0
            spent = {
                "rollouts": draws.get(row.get("arm"), 1),
                "generated_tokens": generated(row),
                "expert_calls": calls,
            }
            entries.append({"stage": stage_id, "task": row["task"], "arm": row.get("arm", ""), **spent})
    for row in found.ablation:
        spent = {"rollouts": row["n"], "generated_tokens": row["tokens"]}
        entries.append({"stage": "02_rollouts", "task": row["task"], **spent})
    for row in found.planting:
        entries.append({"stage": "03_failure_localization", "task": row["task"], "rollouts": row["played"]})
    for row in found.searches:
        twice = row["kind"] == "seed"  # for the noise
        n = row.get("select_n", 0) * (2 if twice else 1) + 2 * row.get("minibatch_n", 0)
        spent = {"rollouts": n, "generated_tokens": row["generated_tokens"] + row["proposer_tokens"]}
        entries.append({"stage": "01_harness_evolution", "task": row["task"], **spent})
    entries += [
        {"stage": "04_correction", "task": Path(r["task"]).stem, "rollouts": 1, "expert_calls": 1}
        for r in found.corrections
    ]
    entries += [
        {"stage": "05_training", "arm": a["arm"], "trained_tokens": a["trained_tokens"]} for a in found.adapters
    ]
    return entries


def loop_numbers(found: Collected, table1: pd.DataFrame) -> tuple[dict, dict]:
    """(arm -> success over all tasks, counts) for the loop figure."""
    over_all = table1[table1.task == "all"].set_index("arm").success.to_dict()
    played = [row for row in found.training if row["harness_name"] == "hstar"]
    rows = {a["arm"]: a["rows"] for a in found.adapters if a["seed"] == min(b["seed"] for b in found.adapters)}
    counts = {
        "proposals": sum(row["kind"] not in search_tables.NO_EDITS for row in found.lineage),
        "rollouts": sum(row["author"] == "student" for row in played),
        "failures": sum(row["author"] == "student" and not row["success"] for row in scored(played)),
        "expert_successes": sum(row["author"] == "expert" and row["success"] for row in played),
        "corrections": len(found.corrections),
        "correction_rows": rows.get("corr_hstar"),
        "imitation_rows": rows.get("imit_hstar"),
    }
    return over_all, {name: n for name, n in counts.items() if n is not None}


def build_figures(found: Collected, made: dict[str, pd.DataFrame]) -> dict[str, tuple]:
    """Name -> (figure, the data it shows)."""
    success, counts = loop_numbers(found, made["table1_success"])
    students = [a["name"] for a in found.arms if not scripted([], a)]
    table1 = made["table1_success"]
    own = table1[table1.arm.isin(students)]
    ways = behaviour(row for row in found.rows if row["author"] == "student")
    numbers = pd.DataFrame({"value": {**success, **counts}}).rename_axis("what").reset_index()
    curves = [row for row in found.searches if row.get("part") != "random_edits"]
    lineage = pd.DataFrame(curves)[
        ["task", "seed", "iteration", "kind", "element", "accepted", "select_successes", "select_n"]
    ]
    return {
        "loop": (loop_figure(success, counts), numbers),
        "success": (success_figure(own), own),
        "differences": (differences_figure(made["table1_contrasts"]), made["table1_contrasts"]),
        "evolution": (evolution_figure(curves), lineage),
        "drift": (drift_figure(ways), ways),
        "dose_response": (dose_figure(made["dose_response"]), made["dose_response"]),
        "failures": (failures_figure(made["table3_failures"]), made["table3_failures"]),
        "costs": (costs_figure(made["costs"]), made["costs"]),
    }


def write_results(stage: Stage, made: dict[str, pd.DataFrame], figures: dict[str, tuple]) -> Path:
    """Writes tables (CSV and Markdown) and figures (PNG, SVG and CSV); returns the unit's folder."""
    [unit] = stage.units
    with stage.writing(unit) as out:
        for name, frame in made.items():
            write_table(frame, out / "tables", name)
        for name, (figure, data) in figures.items():
            save_figure(figure, data, out / "figures", name)
    return unit.dir
