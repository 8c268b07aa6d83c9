"""Starts a task of your own: `python -m coevo_lib.new_task hives` writes a small one that works, to be changed.

The task and its prompts go into a folder of your own, a profile for it to notebooks/profiles. Nothing is overwritten.
What a task has to keep to is in `task`; whether it does, `check_task` tells.
"""

import keyword
import re
import string
import sys
from pathlib import Path

from coevo_lib.command_line import Parser, carry_out
from coevo_lib.errors import UserError
from coevo_lib.files import write_text_atomic
from coevo_lib.profile import find_root
from coevo_lib.task import TASKS_DIR

TEXTS = Path(__file__).parent / "templates"
SMALLEST = Path("notebooks", "profiles", "smoke.toml")


def new_task(name: str, folder: str = "my_tasks", root: Path | None = None, profile: Path | None = None) -> list[Path]:
    """Writes the task, its prompts and its profile; returns their paths. Raises UserError and then writes nothing.

    `profile`: where the profile goes, seen from `root`; notebooks/profiles/<name>.toml by default.
    """
    root = root or find_root()
    _check_name(name)
    task = root / folder / f"{name}.py"
    shown = _shown(task, root)
    values = {"name": name, "class_name": "".join(part.title() for part in name.split("_")), "file": shown}
    texts = {
        task: _filled("task.py.txt", values),
        task.with_suffix(".toml"): _filled("task.toml.txt", values),
        root / (profile or SMALLEST.parent / f"{name}.toml"): _profile(root, name, shown),
    }
    for path in texts:
        if path.exists():
            raise UserError(f"{_shown(path, root)}: exists already; choose another name, or delete it first")
    for path, text in texts.items():
        write_text_atomic(path, text)
    return list(texts)


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name) or not name.replace("_", ""):
        raise UserError(f"name {name!r}: not a Python name in small letters; write one such as my_task")
    if (TASKS_DIR / f"{name}.py").exists():
        raise UserError(f"name {name!r}: coevo_lib/tasks has a task of this name; choose another")


def _filled(file: str, values: dict[str, str]) -> str:
    return string.Template((TEXTS / file).read_text(encoding="utf-8")).substitute(values)


def _profile(root: Path, name: str, task: str) -> str:
    """The smallest profile, for this task alone."""
    if not (root / SMALLEST).is_file():
        raise UserError(f"{SMALLEST}: missing; the new profile is a copy of it")
    text = (root / SMALLEST).read_text(encoding="utf-8")
    text, changed = re.subn(r"^tasks\s*=\s*\[[^\]]*\]", lambda _: f'tasks = ["{task}"]', text, count=1, flags=re.M)
    if not changed:
        raise UserError(f"{SMALLEST}: has no line tasks = [...]; the new profile is a copy of it")
    text = text[re.search(r"^tasks", text, flags=re.M).start() :]  # its own heading speaks of another study
    first = f"# {name} alone, at toy size: enough to try every stage, too small for a result. For one, take the values of cpu.toml."
    return f"{first}\n{text}"


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


def main(words: list[str] | None = None) -> int:
    parser = Parser(prog="python -m coevo_lib.new_task", description=__doc__.splitlines()[0])
    parser.add_argument("name", help="the task's name: small letters, digits and _")
    parser.add_argument("--folder", default="my_tasks", help="where the task goes, below the repository")
    arguments = parser.parse_args(words)
    return carry_out(lambda: _write(arguments.name, arguments.folder))


def _write(name: str, folder: str) -> int:
    root = find_root()
    paths = [_shown(path, root) for path in new_task(name, folder, root)]
    print("\n".join(f"wrote {path}" for path in paths))
    print(f"\nNext:\n  make check-task TASK={paths[0]}\n  make reproduce PROFILE={name}\n  make lab")
    return 0


if __name__ == "__main__":
    sys.exit(main())
