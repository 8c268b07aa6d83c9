"""Stage 01: one harness search per task and seed, all at once on one engine, so that its batches stay full."""

import csv

from coevo_lib.engines.base import Engine
from coevo_lib.files import write_jsonl, write_text_atomic
from coevo_lib.harness import Harness
from coevo_lib.rollouts import random_episode
from coevo_lib.search import Budget, Search
from coevo_lib.stage import Stage
from coevo_lib.stages import Unit
from coevo_lib.study import instances, side_by_side
from coevo_lib.task import Task, load_task


def budget(stage: Stage) -> Budget:
    """What one search may spend, from the profile."""
    names = ("proposals", "minibatch", "max_turns")
    return Budget(**{name: stage.parameters[name] for name in names})


def evolve(stage: Stage, engine: Engine) -> dict[str, Search]:
    """Runs every search still to do, side by side, and writes its files; returns label -> search."""
    todo = list(stage.todo)
    searches = side_by_side(lambda unit: _search(stage, unit, engine), todo)
    return {unit.label: search for unit, search in zip(todo, searches)}


def _search(stage: Stage, unit: Unit, engine: Engine) -> Search:
    task = load_task(unit.task)
    search = Search(
        task,
        instances(stage, task, "evolve"),
        instances(stage, task, "select"),
        engine,
        budget(stage),
        seed=unit.key["seed"],
        report=lambda line: print(line, flush=True),
    )
    with stage.writing(unit) as out:
        best = search.run()
        write_jsonl(out / "lineage.jsonl", search.lineage)
        write_text_atomic(out / "best.toml", best.to_toml())
        with (out / "curve.csv").open("w", newline="") as handle:
            rows = search.curve()
            writer = csv.DictWriter(handle, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return search


def random_play(task: Task, harness: Harness, n: int, max_turns: int) -> float:
    """Rule 1's check: the success of random legal calls under a harness, on `n` instances of `select`."""
    played = [random_episode(task, instance, harness, max_turns) for instance in task.instances("select", n)]
    return sum(episode.trajectory.success for episode in played) / n
