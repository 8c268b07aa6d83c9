"""What has to run and why: the state of a profile's units and notebooks before anything is executed.

Running them is left to runner.py; when a single unit is up to date is said in fingerprint.py.
"""

import ast
import sys
from pathlib import Path

from coevo_lib.errors import UserError
from coevo_lib.fingerprint import input_name, stale_units, unit_fingerprint
from coevo_lib.notebooks import read_notebook
from coevo_lib.profile import Profile
from coevo_lib.stage import shown_dir
from coevo_lib.stages import STAGES, Unit, all_units, build_units, command_for, task_file


def checked_plan(profile: Profile) -> dict[str, list[Unit]]:
    """All units, after every cheap check of every stage: tasks, experts, notebooks, modules, parameters."""
    for stage in STAGES:
        read_notebook(profile.root / "notebooks" / f"{stage.id}.ipynb")
    units = build_units(profile)
    for task in () if profile.get("chat_url") else profile.get("tasks", []):
        _require_expert(task_file(task, profile.root))
    for stage in STAGES:
        for unit in units[stage.id][:1]:
            unit_fingerprint(unit, profile)
    return units


def _require_expert(file: Path) -> None:
    """Refuses a task without a scripted expert, read from its text: where there is no chat model, nothing can teach."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8", errors="replace"))
    except (SyntaxError, ValueError):
        return  # said by the fingerprint, with its place
    for node in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        bases = [getattr(base, "id", getattr(base, "attr", "")) for base in node.bases]
        methods = [part.name for part in node.body if isinstance(part, ast.FunctionDef)]
        if "Task" in bases and "expert" not in methods:
            raise UserError(
                f"{file}: {node.name} has no scripted expert; write expert(self, view, style) in it, or name a chat model "
                "as expert in the profile: chat_url and chat_model"
            )


def executed_path(stage_id: str, profile: Profile, round: int | None = None) -> Path:
    """The notebook with its outputs, as it was executed to its end."""
    return _notebook("executed", stage_id, profile, round)


def unfinished_path(stage_id: str, profile: Profile, round: int | None = None) -> Path:
    """The notebook while it is executed; it stays there if it fails or is killed, as the sign that it did."""
    return _notebook("unfinished", stage_id, profile, round)


def _notebook(folder: str, stage_id: str, profile: Profile, round: int | None) -> Path:
    return profile.root / ".cache" / folder / profile.name / f"r{round or profile.round}" / f"{stage_id}.ipynb"


def to_run(units: list[Unit], profile: Profile) -> dict[Unit, str]:
    """The units whose notebook has to run, in order, each with its reason.

    A notebook that stopped has to run again even where all its units are up to date: it may have stopped because it
    refuses what they hold.
    """
    stale = stale_units(units, profile)
    reasons = {unit: stale.get(unit) or _why_stopped(unit, profile) for unit in units}
    return {unit: reason for unit, reason in reasons.items() if reason}


def _why_stopped(unit: Unit, profile: Profile) -> str | None:
    path = unfinished_path(unit.stage, profile, unit.round)
    return f"its notebook did not come to its end: {path.relative_to(profile.root)}" if path.is_file() else None


def why_not_yet(plan: dict[str, list[Unit]], profile: Profile) -> str | None:
    """Why a further round cannot start: what it carries over, or anything that this rests on, is not up to date."""
    before: dict[Unit, None] = {}
    waiting = [source for unit in all_units(plan) for source in unit.inputs if source.round != unit.round]
    while waiting:
        source = waiting.pop()
        if source not in before:
            before[source] = None
            waiting += source.inputs
    for source, reason in to_run(sorted(before, key=lambda unit: unit.path), profile).items():
        first = f"first run: {command_for(source.stage, profile, source.round)}"
        return f"round {profile.round} waits for {shown_dir(source, profile)}, which is stale ({reason}); {first}"
    return None


def status(profile: Profile) -> int:
    """Print every unit, whether it is up to date, and if not, why."""
    plan = checked_plan(profile)
    units, not_yet = list(all_units(plan)), why_not_yet(plan, profile)
    stale, waiting = to_run(units, profile), {}
    for unit in units:
        late = [s for s in unit.inputs if s in stale or s in waiting or (not_yet and s.round != unit.round)]
        if late and (not_yet or unit not in stale):
            waiting[unit] = f"reads {input_name(unit, late[0])}"
    width, lines = max(len(unit.path) for unit in units), []
    for unit in units:
        word = "waits" if unit in waiting else "stale" if unit in stale else "fresh"
        lines.append(f"{unit.path:<{width}}  {word}  {waiting.get(unit) or stale.get(unit, '')}".rstrip())
    fresh = len(units) - len({*stale, *waiting})
    lines.append(f"profile {profile.name}, round {profile.round}: {fresh} of {len(units)} units fresh")
    # At once, so that a reader such as `head` has all of it before it goes.
    sys.stdout.write("\n".join([*lines, not_yet or ""]).rstrip() + "\n")
    return 0
