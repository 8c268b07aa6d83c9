"""Stages 02 to 06: one function a stage, each filling one unit's folder.

A unit is resumed by doing it again: the reply cache answers what was already played, training goes on from
its newest checkpoint.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from coevo_lib.agent import Episode
from coevo_lib.arms import Quota, arm_rows
from coevo_lib.correction import Correction, candidates, continue_student, to_json
from coevo_lib.damages import Success
from coevo_lib.engines.base import Engine
from coevo_lib.expert import has_script, require_expert
from coevo_lib.files import sha256_json, write_jsonl, write_text_atomic
from coevo_lib.harness import Harness
from coevo_lib.localization import Failure, localize
from coevo_lib.localizers import Case, counterfactual, heuristic
from coevo_lib.localizers import judge as by_chat
from coevo_lib.models import default_cache_dir
from coevo_lib.planting import first_of_each, judge, plant_failures
from coevo_lib.rollouts import expert_episodes, roll_out, student_jobs
from coevo_lib.simplification import singles
from coevo_lib.stage import Stage
from coevo_lib.stages import Unit
from coevo_lib.study import evolved_harness, expert, instances, material, read_trajectories, student_of_round
from coevo_lib.task import Task, load_task
from coevo_lib.training import Recipe, row_losses, train_adapter
from coevo_lib.trajectory import Trajectory

CONTINUATIONS = 4  # of the student, sampled from one prefix, for the counterfactual localiser
DRAWS = 0.7  # temperature of the arm that draws an instance many times


def rollout_row(episode: Episode, harness_name: str, **fields) -> dict:
    """A line of rollouts.jsonl: the trajectory, which harness it was, and the messages as they were shown."""
    trajectory = episode.trajectory
    key = f"{trajectory.instance}/{harness_name}/{trajectory.author}/{trajectory.sample}"
    return {"key": key, "harness_name": harness_name, **fields, **trajectory.to_json(), "messages": episode.messages()}


def roll_out_train(stage: Stage, unit: Unit, engine: Engine) -> list[dict]:
    """02: the student and the expert on `train`, under h0 and h*."""
    task = load_task(unit.task)
    train, turns = instances(stage, task, "train"), stage.parameters["max_turns"]
    harnesses = {"h0": Harness(), "hstar": evolved_harness(stage, unit, task)}
    with stage.writing(unit) as out:
        jobs = [job for harness in harnesses.values() for job in student_jobs(task, train, harness, turns)]
        played = roll_out(engine, jobs, progress=lambda x: stage.progress(x, len(jobs), f"{unit.label} student"))
        rows = [rollout_row(e, name) for e, name in zip(played, [name for name in harnesses for _ in train])]
        for name, harness in harnesses.items():
            rows += [rollout_row(e, name) for e in expert_episodes(expert(stage, task), task, train, harness, turns)]
        write_jsonl(out / "rollouts.jsonl", rows)
    return rows


def ablate(stage: Stage, unit: Unit, engine: Engine) -> list[dict]:
    """02, beside the rollouts: h0, h*, and each element of h* alone on top of h0, on `select`."""
    task = load_task(unit.task)
    best, select, turns = (
        evolved_harness(stage, unit, task),
        instances(stage, task, "select"),
        stage.parameters["max_turns"],
    )
    tried = [("h0", Harness()), *((part.name, harness) for part, harness in singles(best, task)), ("h*", best)]
    with stage.writing(unit) as out:
        jobs = [job for _, harness in tried for job in student_jobs(task, select, harness, turns)]
        ends = [episode.trajectory for episode in roll_out(engine, jobs)]
        rows = []
        for place, (name, harness) in enumerate(tried):
            whole = [t for t in ends[place * len(select) :][: len(select)] if t.status != "fault"]
            fields = {
                "successes": sum(t.success for t in whole),
                "n": len(whole),
                "tokens": sum(t.tokens for t in whole),
            }
            rows.append({"task": task.name, "element": name, "harness": harness.id, **fields})
        write_jsonl(out / "ablation.jsonl", rows)
    return rows


def localize_failures(stage: Stage, unit: Unit, chat: Engine | None = None) -> list[Failure]:
    """03: the failing turn and its class, for every failed student rollout under h*.

    By the oracle; for a task without a scripted expert by the `chat` model.
    """
    task = load_task(unit.task)
    require_expert(task, chat is not None)
    with stage.writing(unit) as out:
        cases = _failed_cases(stage, unit, task)
        failures = oracle(cases) if has_script(task) else by_chat(chat, cases)
        write_jsonl(out / "failures.jsonl", [{"key": f"{f.instance}/hstar", **asdict(f)} for f in failures])
    return failures


def score_localizers(stage: Stage, unit: Unit, engine: Engine, chat: Engine | None = None) -> list[dict]:
    """03, beside the failures: every localiser on planted failures, whose turn is known, and on real ones.

    With a `chat` model there is a judge among them.
    """
    task = load_task(unit.task)
    wanted, few, turns = (stage.parameters[name] for name in ("n_planted", "n_counterfactual", "max_turns"))
    failed, judged, named = _failed_cases(stage, unit, task), [], []
    with stage.writing(unit) as out:
        planted, counts = plant_failures(engine, _successes(stage, unit, task), wanted, turns)
        for localizer, most in _localizers(task, engine, chat, few, turns):
            shown = planted if most is None else list(first_of_each(planted, most))
            cases = [Case(task, m.success.instance, m.success.harness, m.trajectory) for m in shown]
            judged += judge(shown, localizer(cases))
            named += localizer(failed[:most])
        write_jsonl(out / "planted.jsonl", [made.to_json() for made in planted])
        write_jsonl(out / "planting_counts.jsonl", [{"task": task.name, **count} for count in counts])
        write_jsonl(out / "judged.jsonl", judged)
        write_jsonl(out / "localized.jsonl", [{"task": task.name, **asdict(f)} for f in named])
    return judged


def _failed_cases(stage: Stage, unit: Unit, task: Task) -> list[Case]:
    harness, train = evolved_harness(stage, unit, task), {i.key: i for i in instances(stage, task, "train")}
    return [Case(task, train[t.instance], harness, t) for t in student_rollouts(stage, unit)["hstar"] if not t.success]


def _successes(stage: Stage, unit: Unit, task: Task) -> list[Success]:
    """The student's successes on `train`, under h* before those under h0."""
    train, rolled = {i.key: i for i in instances(stage, task, "train")}, student_rollouts(stage, unit)
    harnesses = {"hstar": evolved_harness(stage, unit, task), "h0": Harness()}
    return [
        Success(task, train[t.instance], harness, t)
        for name, harness in harnesses.items()
        for t in rolled[name]
        if t.success
    ]


def oracle(cases: list[Case]) -> list[Failure]:
    """The localiser by expert replay, for many cases."""
    return [localize(case.task, case.instance, case.harness, case.trajectory) for case in cases]


def _localizers(
    task: Task, engine: Engine, chat: Engine | None, few: int, max_turns: int
) -> list[tuple[Callable, int | None]]:
    """(localiser of many cases, how many planted failures a class, and real failures, it sees; None: all)."""
    found = [(oracle, None)] if has_script(task) else []
    found.append((lambda cases: [heuristic(case) for case in cases], None))
    if few:
        found.append((lambda cases: counterfactual(engine, cases, CONTINUATIONS, max_turns), few))
    return [*found, (lambda cases: by_chat(chat, cases), None)] if chat else found


def student_rollouts(stage: Stage, unit: Unit) -> dict[str, list[Trajectory]]:
    """The student's trajectories on `train` under "h0" and "hstar"; infrastructure faults are not among them."""
    [source] = stage.input(unit, "02_rollouts")
    path = source.dir / "rollouts.jsonl"
    return {
        name: read_trajectories(
            path,
            lambda row, name=name: (
                row["author"] == "student" and row["harness_name"] == name and row["status"] != "fault"
            ),
        )
        for name in ("h0", "hstar")
    }


def failed_rollouts(stage: Stage, unit: Unit) -> dict[str, Trajectory]:
    """Instance -> the student's failed trajectory under h*."""
    return {t.instance: t for t in student_rollouts(stage, unit)["hstar"] if not t.success}


def correct_failures(stage: Stage, unit: Unit, failures: list[Failure], engine: Engine) -> list[dict]:
    """04: one rewritten turn a failure, re-executed, and continued by the student; other candidates beside it."""
    task = load_task(unit.task)
    harness, train = evolved_harness(stage, unit, task), {i.key: i for i in instances(stage, task, "train")}
    failed = failed_rollouts(stage, unit)
    made = [candidates(expert(stage, task), task, train[f.instance], harness, failed[f.instance], f) for f in failures]
    kept: list[list[tuple[Correction, dict]]] = [found for found in made if found]
    turns = stage.parameters["max_turns"]
    with stage.writing(unit) as out:
        succeeded = continue_student(engine, task, harness, [found[0][0] for found in kept], failed, train, turns)
        rows = [
            {**to_json(*found[0], [other for other, _ in found[1:]]), "student_succeeds": ok}
            for found, ok in zip(kept, succeeded)
        ]
        write_jsonl(out / "corrections.jsonl", rows)
    return rows


def rows_of(stage: Stage, unit: Unit) -> list[dict]:
    """The training rows of a training unit."""
    materials = [material(stage, unit, name) for name in unit.task_sources]
    quota = Quota(stage.parameters["train_rows"], stage.parameters["own_rows"])
    student = student_of_round(stage, unit)
    return arm_rows(unit.arm, materials, quota, unit.key["seed"], lambda rows: row_losses(student, rows))


def recipe(stage: Stage, unit: Unit) -> Recipe:
    """The LoRA settings of a training unit."""
    names = ("rank", "alpha", "learning_rate", "epochs", "batch")
    return Recipe(**{name: stage.parameters[name] for name in names}, seed=unit.key["seed"])


def train_arm(stage: Stage, unit: Unit, rows: list[dict]) -> dict:
    """05: one adapter. Checkpoints live in the cache under the rows' content, so a stale one is never resumed."""
    settings = recipe(stage, unit)
    base = student_of_round(stage, unit)
    work = Path(default_cache_dir()) / "checkpoints" / sha256_json([rows, asdict(settings), base.name])[:16]
    with stage.writing(unit) as out:
        write_jsonl(out / "rows.jsonl", rows)
        result = {"rows": len(rows), **train_adapter(base, rows, out, settings, work)}
        write_text_atomic(out / "summary.json", json.dumps(result, indent=2) + "\n")
    shutil.rmtree(work, ignore_errors=True)
    return result


def evaluate(stage: Stage, unit: Unit, engine: Engine) -> float:
    """06: one arm on the `test` instances of one task; a scripted arm is played by the expert. Returns success."""
    task, turns = load_task(unit.task), stage.parameters["max_turns"]
    harness = evolved_harness(stage, unit, task) if unit.arm["harness"] == "hstar" else Harness()
    draws = unit.arm.get("samples", 1)
    test, fields = instances(stage, task, "test"), {"arm": unit.key["arm"], "seed": unit.key["seed"]}
    with stage.writing(unit) as out:
        if unit.arm["rows"] == "scripted":
            episodes = expert_episodes(expert(stage, task), task, test, harness, turns)
        else:
            jobs = student_jobs(task, test, harness, turns, samples=range(draws))
            episodes = _best_of(roll_out(engine, jobs, temperature=DRAWS if draws > 1 else 0.0), draws)
        write_jsonl(out / "rollouts.jsonl", [rollout_row(e, unit.arm["harness"], **fields) for e in episodes])
    return sum(e.trajectory.success for e in episodes) / len(episodes)


def _best_of(episodes: list[Episode], n: int) -> list[Episode]:
    """One episode of every n that played one instance: the verifier picks a success if there is one."""
    groups = [episodes[start : start + n] for start in range(0, len(episodes), n)]
    return [next((e for e in group if e.trajectory.success), group[0]) for group in groups]
