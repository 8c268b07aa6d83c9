"""The study's glue: what a stage reads from the stages before it, and the models that it plays.

Every function takes an open stage and a unit, so that the notebooks stay short and a task, a round or an
arm is nowhere a special case.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from coevo_lib.arms import Material
from coevo_lib.cache import ReplyCache
from coevo_lib.chat_expert import ChatExpert
from coevo_lib.engines import open_api_engine, open_engine
from coevo_lib.engines.base import Engine
from coevo_lib.expert import Expert, ScriptedExpert, has_script, require_expert
from coevo_lib.files import read_jsonl
from coevo_lib.harness import Harness, load_harness
from coevo_lib.localization import Failure
from coevo_lib.models import default_cache_dir, merge_adapter, student_dir
from coevo_lib.stage import Stage
from coevo_lib.stages import Unit
from coevo_lib.task import Instance, Task, load_task, task_file
from coevo_lib.toolbox import check_harness
from coevo_lib.trajectory import Trajectory


def instances(stage: Stage, task: Task, split: str) -> list[Instance]:
    """The instances of a split, as many as the profile says."""
    return task.instances(split, stage.parameters[f"n_{split}"], diversity=stage.parameters["diversity"])


def expert(stage: Stage, task: Task) -> Expert:
    """The task's scripted expert as the profile sets it; for a task without one the profile's chat model."""
    chat = None if has_script(task) else open_chat(stage)
    require_expert(task, chat is not None)
    return ChatExpert(chat) if chat else ScriptedExpert(stage.parameters["directness"], stage.parameters["persistence"])


def evolved_harness(stage: Stage, unit: Unit, task: Task) -> Harness:
    """h* of the unit's task: over the search seeds the best on `select`, ties to the earlier seed."""
    found = []
    for source in stage.input(unit, "01_harness_evolution"):
        if task_file(source.task).resolve() == task.file.resolve():
            [chosen] = [row for row in read_jsonl(source.dir / "lineage.jsonl") if row["chosen"]]
            found.append((chosen["select_successes"], source.dir / "best.toml"))
    path = max(found, key=lambda pair: pair[0])[1]
    harness = load_harness(path)
    check_harness(harness, task, str(path))
    return harness


def student_of_round(stage: Stage, unit: Unit) -> Path:
    """The student that this round starts from: the prepared one, or the carried adapter of the round before."""
    model = student_dir()
    for source in stage.carried(unit)[:1]:
        model = merge_adapter(model, source.dir / "adapter")
    return model


def arm_model(stage: Stage, unit: Unit) -> Path:
    """The model that an evaluation unit plays: the round's student, with the arm's adapter if it has one."""
    model = student_of_round(stage, unit)
    for source in stage.input(unit, "05_training"):
        model = merge_adapter(model, source.dir / "adapter")
    return model


def open_student(stage: Stage, model: Path) -> Engine:
    """An engine for a model folder, behind the reply cache; it starts at the first reply that the cache lacks."""
    cache = ReplyCache(default_cache_dir() / "replies.sqlite")
    return open_engine(stage.parameters["engine"], model, cache=cache, concurrency=stage.parameters["concurrency"])


def open_chat(stage: Stage) -> Engine | None:
    """The chat model that the profile names, behind the reply cache; None where it names none."""
    url, model = stage.parameters["chat_url"], stage.parameters["chat_model"]
    cache = ReplyCache(default_cache_dir() / "replies.sqlite")
    return open_api_engine(url, model, cache=cache) if url else None


def by_model(stage: Stage) -> list[tuple[Path, list[Unit]]]:
    """The evaluation units still to do, grouped by the model that they play: one engine serves a group."""
    groups: dict[Path, list[Unit]] = {}
    for unit in stage.todo:
        groups.setdefault(arm_model(stage, unit), []).append(unit)
    return list(groups.items())


def side_by_side(do: Callable[[Unit], Any], units: Iterable[Unit]) -> list:
    """`do` for every unit, each in a thread: while one waits for its last episodes, the others keep the engine busy."""
    units = list(units)
    with ThreadPoolExecutor(max(1, len(units))) as pool:
        return list(pool.map(do, units))


def read_trajectories(path: Path, keep: Callable[[dict], bool] = lambda row: True) -> list[Trajectory]:
    """The trajectories of a rollouts.jsonl, those that `keep` wants."""
    return [Trajectory.from_json(row) for row in read_jsonl(path) if keep(row)]


def read_failures(stage: Stage, unit: Unit) -> list[Failure]:
    """The localised failures that `unit` reads, in their order."""
    [source] = [u for u in stage.input(unit, "03_failure_localization") if u.key["task"] == unit.key["task"]]
    return _failures(source)


def _failures(source: Unit) -> list[Failure]:
    return [
        Failure(**{name: row[name] for name in Failure.__dataclass_fields__})
        for row in read_jsonl(source.dir / "failures.jsonl")
    ]


def material(stage: Stage, unit: Unit, name: str) -> Material:
    """What the task `name` offers a training unit."""
    task = load_task(name)
    [rolled] = [u for u in stage.input(unit, "02_rollouts") if u.task == name]
    [failed] = [u for u in stage.input(unit, "03_failure_localization") if u.task == name]
    path = rolled.dir / "rollouts.jsonl"
    rollouts = {
        which: read_trajectories(
            path, lambda row, which=which: row["author"] == "student" and row["harness_name"] == which
        )
        for which in ("h0", "hstar")
    }
    failures = {failure.instance: failure for failure in _failures(failed)}
    harnesses = {"h0": Harness(), "hstar": evolved_harness(stage, unit, task)}
    train = {instance.key: instance for instance in instances(stage, task, "train")}
    [made] = [u for u in stage.input(unit, "04_correction") if u.task == name]
    boundary = frozenset(
        row["instance"] for row in read_jsonl(made.dir / "corrections.jsonl") if row["student_succeeds"]
    )
    return Material(
        task, train, harnesses, rollouts, failures, stage.parameters["max_turns"], expert(stage, task), boundary
    )
