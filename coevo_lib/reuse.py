"""Takes over what another profile has already done: equal fingerprints stand for equal work.

So `full`, which adds seeds and arms to `cpu`, repeats nothing of it.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

from coevo_lib.files import write_text_atomic
from coevo_lib.fingerprint import stale_units, unit_fingerprint
from coevo_lib.manifest import absent_outputs, begin, changed_outputs, read_manifest
from coevo_lib.profile import Profile
from coevo_lib.stages import MANIFEST, Unit


def take_over(units: list[Unit], profile: Profile) -> dict[str, int]:
    """Copies the stale units that stand whole and with the same fingerprint under another profile: its name -> how many."""
    taken: dict[str, int] = {}
    for unit in stale_units(units, profile):
        fingerprint, _ = unit_fingerprint(unit, profile)
        if source := _twin(unit, fingerprint):
            begin(unit, fingerprint)
            shutil.copytree(source.dir, unit.dir, dirs_exist_ok=True, ignore=shutil.ignore_patterns(MANIFEST))
            manifest = json.loads((source.dir / MANIFEST).read_text(encoding="utf-8"))
            manifest |= {"key": {**manifest["key"], "profile": profile.name}, "taken_over_from": source.base.name}
            write_text_atomic(unit.dir / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
            taken[source.base.name] = taken.get(source.base.name, 0) + 1
    return taken


def _twin(unit: Unit, fingerprint: str) -> Unit | None:
    others: list[Path] = sorted(path for path in unit.base.parent.glob("*") if path.is_dir() and path != unit.base)
    for base in others:
        twin = replace(unit, base=base)
        manifest = read_manifest(twin)
        whole = manifest and not absent_outputs(twin, manifest) and not changed_outputs(twin, manifest)
        if whole and manifest["fingerprint"] == fingerprint:
            return twin
    return None
