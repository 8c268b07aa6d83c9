"""Stage 01: one harness search per task and seed, all at once on one engine, so that its batches stay full."""

import csv

from coevo_lib.agent import Episode
from coevo_lib.chat_meta_agent import ChatMetaAgent
from coevo_lib.engines.base import Engine
from coevo_lib.files import write_jsonl, write_text_atomic
from coevo_lib.harness import Harness
from coevo_lib.meta_agent import MetaAgent, RandomEdits
from coevo_lib.rollouts import random_episode
from coevo_lib.search import Budget, Search
from coevo_lib.stage import Stage
from coevo_lib.stages import Unit
from coevo_lib.study import instances, side_by_side
from coevo_lib.task import Task, load_task
from coevo_lib.toolbox import check_harness


def budget(stage: Stage) -> Budget:
    """What one search may spend, from the profile."""
    names = ("proposals", "minibatch", "max_turns")
    return Budget(**{name: stage.parameters[name] for name in names})


def evolve(stage: Stage, engine: Engine, chat: Engine | None = None) -> dict[str, Search]:
    """Runs every search still to do, side by side, and writes its files; returns label -> search.

    A `chat` model proposes the edits in place of the offline meta-agent.
    """
    todo = list(stage.todo)
    searches = side_by_side(lambda unit: _search(stage, unit, engine, chat), todo)
    return {unit.label: search for unit, search in zip(todo, searches)}


def _search(stage: Stage, unit: Unit, engine: Engine, chat: Engine | None) -> Search:
    task = load_task(unit.task)
    search = Search(
        task,
        instances(stage, task, "evolve"),
        instances(stage, task, "select"),
        engine,
        budget(stage),
        seed=unit.key["seed"],
        meta=_meta_agent(task, unit, chat),
        report=lambda line: print(f"{unit.part} {line}".strip(), flush=True),
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


def _meta_agent(task: Task, unit: Unit, chat: Engine | None) -> MetaAgent | ChatMetaAgent:
    if unit.part == "random_edits":
        return RandomEdits(unit.key["seed"])
    if chat is None:
        return MetaAgent()
    tools = Episode(task, task.instances("evolve", 1)[0], Harness()).toolbox.describe()
    return ChatMetaAgent(chat, tools, lambda harness: check_harness(harness, task, "harness"))


def random_play(task: Task, harness: Harness, n: int, max_turns: int) -> float:
    """Rule 1's check: the success of random legal calls under a harness, on `n` instances of `select`."""
    played = [random_episode(task, instance, harness, max_turns) for instance in task.instances("select", n)]
    return sum(episode.trajectory.success for episode in played) / n
