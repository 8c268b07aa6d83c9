"""The stages as data: their units, what each unit reads, and the files it promises.

Whether a unit is up to date is decided in fingerprint.py; here is only what exists for a profile.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from coevo_lib.errors import UserError
from coevo_lib.profile import Profile

MANIFEST = "manifest.json"
STUDENT_MANIFEST = "student/manifest.json"
TOUR = "00_tour"
UNTRAINED = ("none", "scripted", "best_of_n")  # `rows` of an arm that has no adapter


@dataclass(frozen=True)
class Stage:
    """One numbered notebook."""

    id: str
    target: str  # its name in the Makefile
    promised: tuple[str, ...]  # files that every unit of it holds when done
    parts: dict[str, tuple[str, ...]] = field(default_factory=dict)  # the same for units beside the main ones


SEARCHED = ("lineage.jsonl", "best.toml", "curve.csv")
STAGES = (
    Stage("01_harness_evolution", "evolution", SEARCHED, {"random_edits": SEARCHED, "repeats": SEARCHED}),
    Stage("02_rollouts", "rollouts", ("rollouts.jsonl",), {"ablation": ("ablation.jsonl",)}),
    Stage(
        "03_failure_localization",
        "localization",
        ("failures.jsonl",),
        {"planted": ("planted.jsonl", "planting_counts.jsonl", "judged.jsonl", "localized.jsonl")},
    ),
    Stage("04_correction", "correction", ("corrections.jsonl",)),
    Stage("05_training", "training", ("rows.jsonl", "adapter/adapter_config.json", "training_log.csv", "summary.json")),
    Stage("06_evaluation", "evaluation", ("rollouts.jsonl",)),
    Stage(
        "07_results",
        "results",
        (
            "tables/table1_success.csv",
            "tables/table1_contrasts.csv",
            "tables/table2_elements.csv",
            "tables/table3_failures.csv",
            "tables/table4_edits.csv",
            "tables/tasks.csv",
            "tables/dose_response.csv",
            "tables/dose_trend.csv",
            "tables/localization_scores.csv",
            "tables/localization_classes.csv",
            "tables/localization_agreement.csv",
            "tables/planted_failures.csv",
            "tables/ablation.csv",
            "tables/search_controls.csv",
            "tables/by_split.csv",
            "tables/by_wording.csv",
            "tables/by_seed.csv",
            "tables/costs.csv",
            "tables/clock.csv",
        ),
    ),
)
BY_ID = {stage.id: stage for stage in STAGES}
_EVOLUTION, _ROLLOUTS, _FAILURES, _CORRECTION, _TRAINING, _EVALUATION, _RESULTS = BY_ID


@dataclass(frozen=True)
class Unit:
    """The smallest piece of work that is done, skipped or redone as a whole."""

    stage: str
    round: int
    path: str  # relative to outputs/<profile>/r<round>/
    base: Path = field(repr=False)  # outputs/<profile>
    key: dict[str, Any] = field(compare=False)  # e.g. {"task": "attendance", "seed": 0}
    inputs: tuple["Unit", ...] = field(compare=False, repr=False, default=())
    tasks: tuple[str, ...] = field(compare=False, repr=False, default=())  # whose files it depends on
    arm: dict[str, Any] | None = field(compare=False, repr=False, default=None)
    root: Path = field(compare=False, repr=False, default=Path())  # the repository

    @property
    def dir(self) -> Path:
        return self.base / f"r{self.round}" / self.path

    @property
    def label(self) -> str:
        """Names the unit within its stage."""
        return self.path.partition("/")[2] or self.path

    @property
    def task(self) -> str:
        """The unit's task as `load_task` takes it from any folder: a name, or an absolute path."""
        return self.task_sources[self.tasks.index(self.key["task"])]

    @property
    def task_sources(self) -> tuple[str, ...]:
        """All tasks that the unit depends on, as `load_task` takes them."""
        return tuple(str(self.root / task) if task.endswith(".py") else task for task in self.tasks)

    @property
    def part(self) -> str:
        """Empty for the main units; a name for those that check or control them, which no training reads."""
        return self.key.get("part", "")

    @property
    def promised(self) -> tuple[str, ...]:
        stage = BY_ID.get(self.stage)
        return () if stage is None else stage.parts[self.part] if self.part else stage.promised


def find_stage(name: str) -> Stage:
    """A stage by its id, its number or its make target."""
    for stage in STAGES:
        if name in (stage.id, stage.target, stage.id[:2]):
            return stage
    raise UserError(f"stage {name}: unknown; stages: {', '.join(stage.id for stage in STAGES)}")


def command_for(stage: str, profile: Profile, round: int | None = None, force: bool = False) -> str:
    """The make command that runs a stage, to be named in messages; of another round nothing need be there yet."""
    target = BY_ID[stage].target
    number = round or profile.round
    suffix = f" ROUND={number}" if number != 1 else ""
    wanted = target if number == profile.round else "reproduce"
    return f"make {f'force-{target} ' if force else ''}{wanted} PROFILE={profile.reference}{suffix}"


def outputs_base(profile: Profile) -> Path:
    """outputs/<profile>; COEVO_OUTPUTS moves the outputs folder elsewhere."""
    return (profile.root / (os.environ.get("COEVO_OUTPUTS") or "outputs")).resolve() / profile.name


def task_file(task: str, root: Path) -> Path:
    """The Python file of a task, given by name or by path."""
    return root / task if task.endswith(".py") else root / "coevo_lib" / "tasks" / f"{task}.py"


def task_name(task: str) -> str:
    return Path(task).stem if task.endswith(".py") else task


def trained(arm: dict[str, Any]) -> bool:
    return arm["rows"] not in UNTRAINED


def all_units(units: dict[str, list[Unit]]) -> Iterator[Unit]:
    for stage in STAGES:
        yield from units[stage.id]


def build_units(profile: Profile) -> dict[str, list[Unit]]:
    """All units of a profile in its round, by stage, each linked to the units that it reads."""
    tasks, carried = _tasks(profile), _carried(profile)
    units: dict[str, list[Unit]] = {stage.id: [] for stage in STAGES}

    def add(stage: str, key: dict[str, Any], inputs: list[Unit], names: list[str], arm=None) -> Unit:
        path = "/".join([stage, *_path_parts(key)])
        made = Unit(
            stage, profile.round, path, outputs_base(profile), key, tuple(inputs), tuple(names), arm, profile.root
        )
        units[stage].append(made)
        return made

    evolved: dict[str, list[Unit]] = {}
    for task in tasks:
        seeds = profile.values["search_seeds"]
        evolved[task] = [add(_EVOLUTION, {"task": task, "seed": seed}, carried, [task]) for seed in seeds]
        for seed in seeds if profile.get("random_edits") else ():
            add(_EVOLUTION, {"part": "random_edits", "task": task, "seed": seed}, carried, [task])
        for further in range(profile.get("search_repeats", 0)):
            key = {"part": "repeats", "task": task, "seed": max(seeds) + 1 + further}
            add(_EVOLUTION, key, carried, [task])
        rollouts = add(_ROLLOUTS, {"task": task}, [*evolved[task], *carried], [task])
        if profile.get("ablation"):
            add(_ROLLOUTS, {"part": "ablation", "task": task}, [*evolved[task], *carried], [task])
        failures = add(_FAILURES, {"task": task}, [rollouts, *evolved[task], *carried], [task])
        add(_FAILURES, {"part": "planted", "task": task}, [rollouts, *evolved[task], *carried], [task])
        add(_CORRECTION, {"task": task}, [failures, rollouts, *evolved[task], *carried], [task])
    before_training = [unit for unit in all_units(units) if not unit.part]
    seeds = {arm["name"]: arm.get("lora_seeds", profile.values["lora_seeds"]) for arm in profile.get("arms", [])}
    # How many seeds an arm has says nothing about what one of them does.
    arms = {arm["name"]: {k: v for k, v in arm.items() if k != "lora_seeds"} for arm in profile.get("arms", [])}
    for arm in arms.values():
        if arm["match"]:
            arm = {**arm, "matched": arms[arm["match"]]}
        for seed in seeds[arm["name"]] if trained(arm) else [0]:
            key = {"arm": arm["name"], "seed": seed}
            adapter = [add(_TRAINING, key, [*before_training, *carried], tasks, arm)] if trained(arm) else []
            for task in tasks:
                add(_EVALUATION, {**key, "task": task}, [*adapter, *evolved[task], *carried], [task], arm)
    add(_RESULTS, {}, list(all_units(units)), tasks)
    return units


def _carried(profile: Profile) -> list[Unit]:
    """What round 2 starts from: the adapter that one arm trained in round 1, of the first seed."""
    if profile.round == 1:
        return []
    if profile.round > 2:
        raise UserError(f"round = {profile.round}: no stage stacks the adapters of two rounds; use ROUND=2 at most")
    name = profile.get("carry_arm")
    names = {arm["name"]: trained(arm) for arm in profile.get("arms", [])}
    if not names.get(name):
        what = "is trained on nothing" if name in names else "does not exist here"
        able = ", ".join(each for each in names if names[each]) or "none; add a trained arm"
        raise UserError(f"{profile.shown}: carry_arm = {name!r} names an arm that {what}; trained arms: {able}")
    before = build_units(replace(profile, round=1))[_TRAINING]
    return [unit for unit in before if unit.key["arm"] == name][:1]


def _path_parts(key: dict[str, Any]) -> Iterator[str]:
    """Folder names in the order of the artefact table: arm before seed before task, but task before a search seed."""
    for name, value in key.items():
        yield f"s{value}" if name == "seed" else task_name(value) if name == "task" else value


def _tasks(profile: Profile) -> list[str]:
    tasks = profile.get("tasks", [])
    names = [task_name(task) for task in tasks]
    if len(set(names)) != len(names):
        raise UserError(f"{profile.shown}: tasks has two of the same name: {', '.join(names)}")
    for task in tasks:
        if not task_file(task, profile.root).is_file():
            wanted = task if task.endswith(".py") else f"coevo_lib/tasks/{task}.py"
            own = sorted(profile.root.glob(f"*/{task_name(task)}.py"))
            hint = f"; did you mean {own[0].relative_to(profile.root)}?" if own else ""
            raise UserError(f"{profile.shown}: tasks names {task}, but there is no file {wanted}{hint}")
    return tasks
