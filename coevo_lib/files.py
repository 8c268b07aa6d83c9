"""Small file habits shared by every stage: atomic writes, JSON lines, hashes, seeds.

It knows nothing about stages or profiles.
"""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from coevo_lib.errors import UserError


def write_text_atomic(path: str | Path, text: str) -> Path:
    """Write the whole file or nothing: a reader or a kill never meets half of it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)  # mkstemp makes files that only their owner reads
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path


def write_jsonl(path: str | Path, rows: Iterable[Any]) -> Path:
    """Write all rows at once, one JSON object a line."""
    return write_text_atomic(path, "".join(_line(row) for row in rows))


def append_jsonl(path: str | Path, *rows: Any) -> None:
    """Add rows at the end; what a kill left half-written there is removed first."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        _drop_half_line(file)
        file.write("".join(_line(row) for row in rows).encode())


def read_jsonl(path: str | Path) -> list[Any]:
    """All rows. A half-written last line is dropped; any other broken line is the user's to know about."""
    path = Path(path)
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; {rebuild_hint(path)}") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except ValueError:  # covers broken UTF-8 too
            if number == len(lines):
                break
            raise UserError(f"{path}, line {number}: not valid JSON; {rebuild_hint(path)}") from None
    return rows


def read_json(path: str | Path) -> Any:
    """The content of a JSON file. Raises UserError naming the file when it is missing or broken."""
    path = Path(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UserError(f"{path}: missing or not valid JSON; {rebuild_hint(path)}") from None


def rebuild_hint(path: Path) -> str:
    """The command that writes this artefact again, as far as its path tells."""
    found = re.search(r"([\w-]+)/r(\d+)/(\d\d_\w+)/", path.as_posix())
    if not found:
        return "write it again or delete it"
    profile, number, stage = found.groups()
    suffix = f" ROUND={number}" if number != "1" else ""
    return f"rebuild it: make force-{stage} reproduce PROFILE={profile}{suffix}"


def sha256_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sha256_file(path: str | Path) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_json(value: Any) -> str:
    """Hash of a JSON value that does not depend on the order of its keys."""
    return sha256_text(json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")))


def stable_seed(*parts: Any) -> int:
    """A 32-bit seed from any parts: the same on every machine and in every process, unlike `hash()`."""
    digest = hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).digest()
    return int.from_bytes(digest[:4], "big")


def _line(row: Any) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _drop_half_line(file) -> None:
    """Cut the file after its last complete line; a complete row that only lacks its newline gets it."""
    end = file.seek(0, os.SEEK_END)
    if end == 0:
        return
    file.seek(end - 1)
    if file.read(1) == b"\n":
        return
    file.seek(0)
    content = file.read()
    start = content.rfind(b"\n") + 1
    try:
        json.loads(content[start:])
    except ValueError:
        file.truncate(start)
    else:
        file.write(b"\n")
