"""What a notebook uses to take part in the study: which units to do, where to write, when it is done.

    stage = open_stage("02_rollouts", globals())
    for unit in stage.todo:
        with stage.writing(unit) as out:
            ...
    stage.close("48 of 60 solved")

What the units hold is none of its business.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from coevo_lib.errors import UserError, damaged_artefact, missing_upstream
from coevo_lib.fingerprint import stale_units, unit_fingerprint
from coevo_lib.manifest import absent_outputs, begin, damaged_output, read_manifest, surroundings, write_manifest
from coevo_lib.profile import Profile, checked_value, declared_parameters, find_root, load_profile, parameters_for
from coevo_lib.ranges import check_values
from coevo_lib.stages import MANIFEST, Unit, build_units, command_for, find_stage

HEADLESS = "COEVO_HEADLESS"
MOST_LINES = 10


class Stage:
    """The open stage of one notebook. Open it with `open_stage`."""

    def __init__(self, stage_id: str, profile: Profile):
        self.id = stage_id
        self.profile = profile
        self.root = profile.root
        self.parameters = parameters_for(profile, self.root / "notebooks" / f"{stage_id}.ipynb")
        self.units: list[Unit] = build_units(profile)[stage_id]
        self.reasons = stale_units(self.units, profile)
        self._fresh = set(self.units) - set(self.reasons)
        self._opened = time.monotonic()

    @property
    def todo(self) -> list[Unit]:
        """The units still to do, in order; a unit leaves the list when its `writing` block ends well."""
        return [unit for unit in self.units if unit not in self._fresh]

    @property
    def seconds(self) -> float:
        """Since the stage was opened."""
        return time.monotonic() - self._opened

    def of_part(self, part: str = "") -> list[Unit]:
        """The main units, or those of a named part, which check or control them."""
        return [unit for unit in self.units if unit.part == part]

    def unit(self, **key: Any) -> Unit:
        """The one unit with these key values, e.g. `stage.unit(task="attendance")`."""
        found = [unit for unit in self.units if key.items() <= unit.key.items()]
        if len(found) != 1:
            labels = ", ".join(unit.label for unit in self.units)
            raise UserError(f"{self.id}: {len(found)} units have {key}; units: {labels}")
        return found[0]

    def input(self, unit: Unit, stage_id: str) -> list[Unit]:
        """The units of an earlier stage of this round that `unit` reads."""
        wanted = find_stage(stage_id).id
        return [source for source in unit.inputs if source.stage == wanted and source.round == unit.round]

    def carried(self, unit: Unit) -> list[Unit]:
        """The training units of the round before, whose adapters this round's student starts from."""
        return [source for source in unit.inputs if source.round != unit.round]

    @contextmanager
    def writing(self, unit: Unit) -> Iterator[Path]:
        """The unit's folder, to be filled. Its manifest goes first and comes back last, if nothing was raised.

        Files of an attempt that was cut short are kept if nothing has changed since; any others are removed.
        """
        fingerprint, detail = unit_fingerprint(unit, self.profile)
        self._fresh.discard(unit)
        begin(unit, fingerprint)
        started = time.monotonic()
        yield unit.dir
        missing = [name for name in unit.promised if not (unit.dir / name).is_file()]
        if missing:
            raise UserError(f"{self._shown(unit)}: the notebook did not write {', '.join(missing)}")
        content = {
            "stage": unit.stage,
            "key": {"profile": self.profile.name, "round": unit.round, **unit.key},
            "fingerprint": fingerprint,
            "parameters": self.parameters,
            "inputs": detail["inputs"],
            "detail": detail,
            "seconds": round(time.monotonic() - started, 2),
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
            **surroundings(self.root),
        }
        write_manifest(unit, content)
        self._fresh.add(unit)

    def progress(self, items: Iterable[Any], total: int | None = None, label: str = "") -> Iterator[Any]:
        """Pass the items on, with a bar when a person watches and at most ten lines when nobody does."""
        total = len(items) if total is None and hasattr(items, "__len__") else total
        if os.environ.get(HEADLESS):
            return _lines(items, total, label or self.id)
        from tqdm import tqdm

        return iter(tqdm(items, total=total, desc=label or self.id))

    def close(self, summary: str = "") -> None:
        """Assert that every unit is complete and print one line."""
        for unit in self.units:
            manifest = read_manifest(unit)
            if manifest is None:
                raise UserError(f"{self._shown(unit)} is not finished; run the cells above again to go on")
            if absent := absent_outputs(unit, manifest):
                raise damaged_artefact(f"{self._shown(unit)}/{absent[0]}", "is missing", self._rebuild(unit))
        count = f"{len(self.units)} unit{'s' if len(self.units) != 1 else ''}"
        print(f"{self.id}: {count} complete in {self.seconds:.0f} s. {summary}".rstrip())

    def _shown(self, unit: Unit) -> str:
        return shown_dir(unit, self.profile)

    def _rebuild(self, unit: Unit) -> str:
        return command_for(unit.stage, self.profile, unit.round, force=True)


def open_stage(stage_id: str, namespace: dict[str, Any], root: str | Path | None = None) -> Stage:
    """Open a stage for the parameters in a notebook's namespace.

    A value that was passed in or edited counts. Where the cell's default still stands, the profile's value is used
    and put into the namespace, so that a notebook run by hand and `make` do the same.
    """
    if os.environ.get(HEADLESS):
        die_with_parent()
    stage_id = find_stage(stage_id).id
    root = find_root(root)
    profile = load_profile(namespace.get("profile", "cpu"), root, namespace.get("round", 1))
    defaults = declared_parameters(root / "notebooks" / f"{stage_id}.ipynb")
    in_cell = {name: namespace.get(name, default) for name, default in defaults.items() if name in profile.values}
    edited = {
        name: checked_value(value, defaults[name], name, f"{stage_id}.ipynb")
        for name, value in in_cell.items()
        if value not in (defaults[name], profile.values[name])
    }
    check_values({**profile.values, **edited}, f"{stage_id}.ipynb")
    replaced = [name for name in in_cell if name not in edited and in_cell[name] != profile.values[name]]
    stage = Stage(stage_id, profile.with_values(edited))
    namespace.update(stage.parameters)
    check_inputs(stage.todo, stage.profile)
    where = f"profile {profile.name}, round {profile.round}"
    print(f"{stage_id}: {len(stage.todo)} of {len(stage.units)} units to do ({where})")
    if replaced:
        print(f"from profile {profile.name}: {_pairs(replaced, stage.parameters)}")
    if edited:
        print(f"set here instead of in profile {profile.name}: {_pairs(edited, stage.parameters)}")
    return stage


def check_inputs(units: Iterable[Unit], profile: Profile) -> None:
    """Raise a UserError unless everything that these units read is there and as it was written."""
    for source in {source: None for unit in units for source in unit.inputs}:
        manifest = read_manifest(source)
        if manifest is None:
            command = command_for(source.stage, profile, source.round)
            if (source.dir / MANIFEST).exists():
                raise damaged_artefact(f"{shown_dir(source, profile)}/{MANIFEST}", "is not as it was written", command)
            raise missing_upstream(shown_dir(source, profile), command)
        if damage := damaged_output(source, manifest):
            name, what = damage
            command = command_for(source.stage, profile, source.round, force=True)
            raise damaged_artefact(f"{shown_dir(source, profile)}/{name}", what, command)


def shown_dir(unit: Unit, profile: Profile) -> str:
    inside = unit.dir.is_relative_to(profile.root)
    return (unit.dir.relative_to(profile.root) if inside else unit.dir).as_posix()


def die_with_parent() -> None:
    """Let the system end this process when the one that started it is gone, so that no kernel outlives a kill."""
    if sys.platform == "linux":
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def _pairs(names: Iterable[str], values: dict[str, Any]) -> str:
    texts = (f"{name} = {values[name]!r}" for name in names)
    return ", ".join(text if len(text) <= 60 else f"{text[:57]}..." for text in texts)


def _lines(items: Iterable[Any], total: int | None, label: str) -> Iterator[Any]:
    started, printed, next_at = time.monotonic(), 0, 1
    for count, item in enumerate(items, start=1):
        yield item
        due = count * MOST_LINES // total > printed if total else count == next_at and printed < MOST_LINES
        if due:
            printed = count * MOST_LINES // total if total else printed + 1
            next_at = count * 4
            of = f" of {total}" if total else ""
            print(f"  {label}: {count}{of}, {time.monotonic() - started:.0f} s", flush=True)
