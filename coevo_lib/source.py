"""What a piece of Python means, as a hash, and which modules of this library it reaches.

Comments, layout and docstrings do not count. Nothing is imported: everything is read from the syntax tree.
"""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from coevo_lib import syntax
from coevo_lib.errors import UserError
from coevo_lib.files import sha256_file, sha256_json, sha256_text

PACKAGE = "coevo_lib"
# These decide when a unit runs, never what it holds; all that they pass on (parameters, inputs) is hashed by itself.
PLUMBING = frozenset(
    f"{PACKAGE}/{name}.py"
    for name in (
        "__main__ command_line errors export fingerprint manifest notebooks plan profile ranges runner source stage stages"
    ).split()
)
_MAGIC = re.compile(r"^\s*[%!].*$", re.MULTILINE)
_DOTTED = re.compile(rf"{PACKAGE}(?:\.\w+)+")


def python_hash(text: str, name: str = "<text>") -> str:
    """Hash of what the code does."""
    return _analysed(text, name)[0]


def imported_names(text: str, name: str = "<text>") -> frozenset[str]:
    """Dotted names of this library that the code imports anywhere, also inside functions or as a literal string."""
    return _analysed(text, name)[1]


def file_hash(path: Path) -> str:
    """Hash of a module, a TOML file (comments do not count) or any other file; `absent` when there is none."""
    if not path.is_file():
        return "absent"
    if path.suffix == ".py":
        return python_hash(path.read_text(encoding="utf-8"), str(path))
    if path.suffix == ".toml":
        try:
            return sha256_text(repr(_sorted(tomllib.loads(path.read_text(encoding="utf-8")))))
        except ValueError as error:
            raise UserError(f"{path}: not valid TOML: {error}") from None
    return sha256_file(path)


def reached_modules(texts: Iterable[tuple[str, str]], root: Path, tasks_too: bool = False) -> list[Path]:
    """Files of the library that some code (text, name) imports, directly or through others.

    Task files count only with `tasks_too`: a unit depends on its own tasks, not on all of them.
    """
    found: dict[Path, None] = {}
    waiting = [name for text, where in texts for name in imported_names(text, where)]
    while waiting:
        for path in _files_of(waiting.pop(), root):
            relative = path.relative_to(root).as_posix()
            is_task = relative.startswith(f"{PACKAGE}/tasks/") and path.name != "__init__.py"
            if path in found or relative in PLUMBING or (is_task and not tasks_too):
                continue
            found[path] = None
            inside = relative.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
            package = inside if path.name == "__init__.py" else inside.rpartition(".")[0]
            waiting += _absolute(imported_names(path.read_text(encoding="utf-8"), str(path)), package)
    return sorted(found)


def module_hashes(paths: Iterable[Path], root: Path) -> dict[str, str]:
    """Hash by path of each module, and of the TOML file beside it where there is one."""
    files = [file for path in paths for file in (path, path.with_suffix(".toml")) if file.is_file()]
    return {file.relative_to(root).as_posix(): file_hash(file) for file in files}


@lru_cache(maxsize=512)
def _analysed(text: str, name: str) -> tuple[str, frozenset[str]]:
    tree = _parsed(text, name)
    return sha256_json(list(_plain(tree))), frozenset(_imports(tree))


def _parsed(text: str, name: str) -> ast.Module:
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        with syntax._ONE_AT_A_TIME:  # episodes may be played in other threads meanwhile
            return compile(text, name, "exec", flags)
    except SyntaxError:
        try:
            with syntax._ONE_AT_A_TIME:
                return compile(_MAGIC.sub("", text), name, "exec", flags)
        except SyntaxError as error:
            raise UserError(f"{name}, line {error.lineno}: not valid Python: {error.msg}") from None


def _plain(node: ast.AST) -> Iterator:
    """The tree as nested lists. Empty fields are left out, so that newer Pythons with more fields agree."""
    yield type(node).__name__
    for name, value in ast.iter_fields(node):
        if name == "body" and _has_docstring(node):
            value = value[1:]
        if isinstance(node, ast.JoinedStr):  # some Pythons put empty pieces between the parts of an f-string
            value = [part for part in value if getattr(part, "value", None) != ""]
        if value is None or value == [] or name in ("ctx", "kind", "type_comment", "type_ignores"):
            continue
        if isinstance(value, list):
            yield [name, *(list(_plain(item)) if isinstance(item, ast.AST) else repr(item) for item in value)]
        else:
            yield [name, list(_plain(value)) if isinstance(value, ast.AST) else repr(value)]


def _has_docstring(node: ast.AST) -> bool:
    holder = isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    return holder and ast.get_docstring(node, clean=False) is not None


def _imports(tree: ast.Module) -> Iterator[str]:
    """Dotted names; a relative import keeps its leading dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == PACKAGE)
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            if node.level or origin.split(".")[0] == PACKAGE:
                joint = "" if origin.endswith(".") else "."
                yield from (f"{origin}{joint}{alias.name}" for alias in node.names)
                yield origin
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _DOTTED.fullmatch(node.value):
            yield node.value


def _absolute(names: Iterable[str], package: str) -> Iterator[str]:
    for name in names:
        level = len(name) - len(name.lstrip("."))
        if not level:
            yield name
            continue
        above = package.split(".")[: len(package.split(".")) - level + 1]
        yield ".".join([*above, *filter(None, [name[level:]])])


def _files_of(dotted: str, root: Path) -> Iterator[Path]:
    """The module behind a dotted name and the packages around it; names inside a module lead to the module."""
    parts = dotted.split(".")
    for length in range(1, len(parts) + 1):
        stem = root.joinpath(*parts[:length])
        for path in (stem / "__init__.py", stem.with_suffix(".py")):
            if path.is_file():
                yield path


def _sorted(value):
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
