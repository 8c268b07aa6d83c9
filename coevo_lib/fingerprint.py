"""Whether a unit is up to date: a hash over everything that can change what it holds, and why it differs.

Each part is kept beside the hash, so that a difference can be named. File times never count.
"""

import json
from pathlib import Path
from typing import Any

from coevo_lib.files import sha256_file, sha256_json
from coevo_lib.manifest import absent_outputs, changed_outputs, read_manifest
from coevo_lib.notebooks import code_cells, read_notebook
from coevo_lib.profile import Profile, parameters_for
from coevo_lib.source import file_hash, module_hashes, python_hash, reached_modules
from coevo_lib.stages import MANIFEST, STAGES, STUDENT_MANIFEST, TOUR, Unit, outputs_base, task_file

# These say which units exist; each unit's own share of them enters by its key, its arm and its inputs.
STRUCTURE = frozenset(
    "profile round tasks search_seeds lora_seeds arms carry_arm random_edits search_repeats ablation".split()
)
# How the same numbers are computed or shown.
PERFORMANCE = frozenset({"engine", "concurrency"})
JOINT = (STAGES[4].id, STAGES[6].id, TOUR)  # stages whose units see the whole list of tasks

Detail = dict[str, Any]


def unit_fingerprint(unit: Unit, profile: Profile, root: Path | None = None) -> tuple[str, Detail]:
    """The unit's hash and its parts."""
    root = root or profile.root
    notebook = root / "notebooks" / f"{unit.stage}.ipynb"
    cells = "\n".join(code_cells(read_notebook(notebook), without=("parameters", "show")))
    task_files = [task_file(task, root) for task in unit.tasks]
    both_files = [file for path in task_files for file in (path, path.with_suffix(".toml"))]
    texts = [(path.read_text(encoding="utf-8"), str(path)) for path in task_files]
    modules = {
        *reached_modules([(cells, str(notebook))], root),
        *reached_modules(texts, root, tasks_too=True),
    } - set(task_files)
    declared = parameters_for(profile, notebook)
    detail: Detail = {
        "key": {"round": unit.round, **unit.key},
        "parameters": {name: declared[name] for name in sorted(declared) if name not in STRUCTURE | PERFORMANCE},
        "notebook": python_hash(cells, str(notebook)),
        "modules": module_hashes(sorted(modules), root),
        "task files": {_shown(file, root): file_hash(file) for file in both_files},
        "student": _student(root),
        "inputs": {input_name(unit, source): _outputs_hash(source) for source in unit.inputs},
    }
    if unit.arm is not None:
        detail["arm"] = unit.arm
    if unit.stage in JOINT:
        detail["tasks"] = list(unit.tasks)
    if unit.stage == STAGES[-1].id:
        detail["arms"] = profile.get("arms", [])
    detail = json.loads(json.dumps(detail))  # as a manifest will give it back
    return sha256_json(detail), detail


def why_stale(unit: Unit, profile: Profile) -> str | None:
    """Why the unit has to run, in a few words; None when it is up to date."""
    manifest = read_manifest(unit)
    if manifest is None:
        if (unit.dir / MANIFEST).exists():
            return f"{MANIFEST} is not as it was written"
        return "never run" if not unit.dir.exists() else "not finished"
    fingerprint, detail = unit_fingerprint(unit, profile)
    if manifest["fingerprint"] != fingerprint:
        return _shortened(differences(manifest["detail"], detail)) or "hashed by other rules"
    if absent := absent_outputs(unit, manifest):
        return f"outputs not present: {_shortened(absent)}"
    if changed := changed_outputs(unit, manifest):
        return f"outputs not as written: {_shortened(changed)}"
    return None


def stale_units(units: list[Unit], profile: Profile) -> dict[Unit, str]:
    """The units that have to run, in order, each with its reason."""
    reasons = {unit: why_stale(unit, profile) for unit in units}
    return {unit: reason for unit, reason in reasons.items() if reason}


def differences(before: Detail, now: Detail) -> list[str]:
    """What changed, part by part."""
    found = [
        f"parameters changed: {change}"
        for part in ("parameters", "key", "arm")
        for change in _changes(before.get(part) or {}, now.get(part) or {})
    ]
    if before.get("notebook") != now["notebook"]:
        found.append("notebook changed")
    for part, noun in (("modules", "module"), ("task files", "task file"), ("inputs", "input")):
        old, new = before.get(part) or {}, now[part]
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                found.append(f"{noun} {name} {_verb(name, old, new)}")
    if before.get("tasks") != now.get("tasks"):
        found.append(f"tasks changed: {_listed(before.get('tasks'))} -> {_listed(now.get('tasks'))}")
    if before.get("arms") != now.get("arms"):
        found.append("arms changed")
    if before.get("student") != now["student"]:
        found.append("prepared student changed")
    return found


def input_name(unit: Unit, source: Unit) -> str:
    return source.path if source.round == unit.round else f"r{source.round}/{source.path}"


def tour_unit(profile: Profile) -> Unit:
    """The tour writes no artefact, but it too is executed only when something in it changed."""
    base = profile.root / ".cache" / "tour" / outputs_base(profile).name
    return Unit(TOUR, profile.round, TOUR, base, {}, tasks=tuple(profile.get("tasks", [])))


def _changes(old: Detail, new: Detail) -> list[str]:
    return [
        f"{name} {_value(old, name)} -> {_value(new, name)}"
        for name in sorted({*old, *new})
        if _value(old, name) != _value(new, name)
    ]


def _value(values: Detail, name: str) -> str:
    text = json.dumps(values[name], ensure_ascii=False) if name in values else "none"
    return text if len(text) <= 40 else f"{text[:37]}..."


def _verb(name: str, old: Detail, new: Detail) -> str:
    return "changed" if name in old and name in new else "added" if name in new else "no longer used"


def _listed(names: list[str] | None) -> str:
    return ", ".join(names or []) or "none"


def _shortened(reasons: list[str], most: int = 2) -> str:
    rest = len(reasons) - most
    return "; ".join(reasons[:most]) + (f"; and {rest} more" if rest > 0 else "")


def _student(root: Path) -> str:
    path = root / STUDENT_MANIFEST
    return sha256_file(path) if path.is_file() else "none"


def _outputs_hash(unit: Unit) -> str:
    manifest = read_manifest(unit)
    return sha256_json(manifest["outputs"]) if manifest else "missing"


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()
