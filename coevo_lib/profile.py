"""A profile: one flat TOML file of parameters, checked against what the notebooks declare.

A key exists because some notebook's `parameters` cell assigns it; its type is the type of the literal there.
Its range is in ranges.py, its meaning with the modules that use it.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coevo_lib.errors import UserError
from coevo_lib.notebooks import declared_parameters
from coevo_lib.ranges import check_values

__all__ = ["declared_parameters", "load_profile", "parameters_for", "Profile", "checked_value", "find_root"]

GIVEN_BY_RUNNER = ("profile", "round")
ARM_TEXT = ("name", "rows", "harness", "loss", "match")
ARM_OPTIONS = {"directness": 0.0, "persistence": 0.0, "samples": 0, "lora_seeds": [0], "choice": ""}


@dataclass(frozen=True)
class Profile:
    """Parameters of one study in one round."""

    name: str  # the file's stem, and the folder's name under outputs/
    path: Path
    root: Path  # the repository
    round: int
    values: dict[str, Any]  # every declared key: the profile's value, else the notebooks' default

    @property
    def reference(self) -> str:
        """What a notebook's `profile` parameter has to say to load this file again."""
        if self.path.parent == _folder(self.root):
            return self.name
        return self.shown

    @property
    def shown(self) -> str:
        """Its file as messages name it: within the repository, where it is there."""
        return str(self.path.relative_to(self.root) if self.path.is_relative_to(self.root) else self.path)

    def get(self, key: str, default: Any = None) -> Any:
        return self.values.get(key, default)

    def with_values(self, values: dict[str, Any]) -> "Profile":
        return replace(self, values={**self.values, **values})


def find_root(start: str | Path | None = None) -> Path:
    """The repository around a folder: the nearest one upward that holds pyproject.toml."""
    start = Path(start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / "pyproject.toml").is_file():
            return folder
    raise UserError(f"{start}: no pyproject.toml here or above; run this inside the repository")


def profile_names(root: Path) -> list[str]:
    return sorted(path.stem for path in _folder(root).glob("*.toml"))


def load_profile(name_or_path: str | Path, root: Path | None = None, round: int = 1) -> Profile:
    """Read and check a profile; every mistake is a UserError that names the file and the key."""
    root = root or find_root()
    path = _find(str(name_or_path), root)
    shown = path.relative_to(root) if path.is_relative_to(root) else path
    if round < 1:
        raise UserError(f"round = {round}: rounds are counted from 1")
    defaults = _all_declared(root)
    given = _read_toml(path, shown)
    for key in given:
        if key in GIVEN_BY_RUNNER:
            raise UserError(f"{shown}: {key} is given on the command line; delete it here")
        if key not in defaults:
            raise UserError(f"{shown}: no notebook declares {key}{_closest(key, defaults)}")
    checked = {key: checked_value(value, defaults[key], key, shown) for key, value in given.items()}
    values = {key: value for key, value in defaults.items() if key not in GIVEN_BY_RUNNER} | checked
    check_values(values, str(shown))
    return Profile(name=path.stem, path=path, root=root, round=round, values=values)


def parameters_for(profile: Profile, notebook: str | Path) -> dict[str, Any]:
    """The names that this notebook declares, with this profile's values."""
    given = {"profile": profile.reference, "round": profile.round, **profile.values}
    return {name: given[name] for name in declared_parameters(Path(notebook))}


def checked_value(value: Any, default: Any, key: str, shown: str | Path) -> Any:
    """The value, if it has the type of the declared default; an int will do for a float."""
    if key == "arms":
        return _checked_arms(value, shown)
    wanted, found = type(default).__name__, type(value).__name__
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if type(value) is not type(default):
        raise UserError(f"{shown}: {key} has to be {wanted}, found {found} {value!r}")
    if isinstance(default, list) and value:
        pattern = (default or value)[0]
        return [checked_value(item, pattern, f"{key}[{place}]", shown) for place, item in enumerate(value)]
    return value


def _folder(root: Path) -> Path:
    return root / "notebooks" / "profiles"


def _find(name_or_path: str, root: Path) -> Path:
    if re.fullmatch(r"[\w-]+", name_or_path):
        path = _folder(root) / f"{name_or_path}.toml"
    else:
        path = next((p for p in (Path(name_or_path), root / name_or_path) if p.is_file()), Path(name_or_path))
    if not path.is_file():
        known = ", ".join(profile_names(root)) or "none"
        raise UserError(f"profile {name_or_path}: no such file; profiles here: {known}")
    return path.resolve()


def _read_toml(path: Path, shown: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{shown}: not valid TOML: {error}") from None


def _all_declared(root: Path) -> dict[str, Any]:
    """All declared names with their defaults; notebooks that share a name have to agree on it."""
    found: dict[str, Any] = {}
    owner: dict[str, str] = {}
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        for name, value in declared_parameters(path).items():
            if name in found and (type(value), value) != (type(found[name]), found[name]):
                raise UserError(
                    f"notebooks/{path.name}: default {name} = {value!r}, but {owner[name]} says {found[name]!r}; "
                    "give both the same"
                )
            found.setdefault(name, value)
            owner.setdefault(name, path.name)
    return found


def _checked_arms(arms: Any, shown: str | Path) -> list[dict[str, Any]]:
    if not isinstance(arms, list) or not all(isinstance(arm, dict) for arm in arms):
        raise UserError(f"{shown}: arms has to be a list of tables [[arms]], found {type(arms).__name__}")
    known = {**dict.fromkeys(ARM_TEXT, ""), **ARM_OPTIONS}
    names: set[str] = set()
    checked = []
    for place, arm in enumerate(arms, start=1):
        where = f"[[arms]] number {place}"
        for key in arm:
            if key not in known:
                raise UserError(f"{shown}: {where} has the unknown key {key}{_closest(key, known)}")
        for key in ARM_TEXT:
            if key not in arm:
                raise UserError(f"{shown}: {where} lacks the key {key}")
        arm = {key: checked_value(value, known[key], f"{where}, {key}", shown) for key, value in arm.items()}
        if not re.fullmatch(r"[A-Za-z0-9_-]+", arm["name"]) or arm["name"] in names:
            raise UserError(f"{shown}: {where}: name = {arm['name']!r} has to be unique, of letters, digits, _ or -")
        names.add(arm["name"])
        checked.append(arm)
    return checked


def _closest(key: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(key, [name for name in known if name not in GIVEN_BY_RUNNER], n=1, cutoff=0.0)
    return f"; the closest name is {near[0]}" if near else ""
