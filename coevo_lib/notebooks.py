"""Reading notebook files: tagged cells, the `parameters` cell, and the rules that committed notebooks keep.

It executes nothing and changes nothing.
"""

import ast
import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from coevo_lib.errors import UserError

MAX_CODE_CELLS = 18
MAX_CELL_LINES = 24
HEADER_LINES = ("Question", "Reads", "Writes", "Time")
_ABSOLUTE_PATH = re.compile(
    r"(?<![\w.:/~-])(?:~/|[A-Za-z]:\\|/(?:home|root|Users|tmp|mnt|opt|var|work|data|content)\b)[\w./-]*"
)


def read_notebook(path: Path) -> dict:
    """The notebook as plain JSON."""
    try:
        return _parse(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such notebook") from None
    except ValueError as error:
        raise UserError(f"{path}: not a notebook ({error}); restore it from git") from None


@lru_cache(maxsize=64)
def _parse(text: str) -> dict:
    notebook = json.loads(text)
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise ValueError("it has no cells")
    return notebook


def source(cell: dict) -> str:
    return "".join(cell["source"])


def tags(cell: dict) -> list[str]:
    return cell.get("metadata", {}).get("tags", [])


def code_cells(notebook: dict, without: tuple[str, ...] = ()) -> list[str]:
    """Sources of the code cells that carry none of the tags in `without`."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [source(cell) for cell in cells if not set(without) & set(tags(cell))]


def declared_parameters(path: Path) -> dict[str, Any]:
    """Names and default values in the notebook's `parameters` cell, which holds literal assignments only."""
    notebook = read_notebook(path)
    cells = [source(c) for c in notebook["cells"] if c["cell_type"] == "code" and "parameters" in tags(c)]
    if len(cells) != 1:
        raise UserError(f"{path}: {len(cells)} cells tagged `parameters`; there has to be exactly one")
    try:
        statements = ast.parse(cells[0]).body
        return dict(_literal(statement) for statement in statements)
    except (SyntaxError, ValueError) as error:
        raise UserError(f"{path}: its `parameters` cell may only hold lines like `name = 1` ({error})") from None


def _literal(statement: ast.stmt) -> tuple[str, Any]:
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    else:
        targets = getattr(statement, "targets", [])
    if len(targets) != 1 or not isinstance(targets[0], ast.Name):
        raise ValueError(f"line {statement.lineno} is no plain assignment")
    value = ast.literal_eval(statement.value)
    if value is None:
        raise ValueError(f"{targets[0].id} = None has no type; use an empty value of the type")
    return targets[0].id, value


def title_and_question(path: Path) -> tuple[str, str]:
    """The first heading and the `Question` line of a notebook."""
    text = next((source(c) for c in read_notebook(path)["cells"] if c["cell_type"] == "markdown"), "")
    heading = re.search(r"^#\s+(.+)$", text, re.MULTILINE)
    return heading.group(1).strip() if heading else Path(path).stem, _header_line(text, "Question")


def _header_line(text: str, word: str) -> str:
    found = re.search(rf"^\W*{word}\b[\W_]*(\S.*)$", text, re.MULTILINE)
    return found.group(1).strip() if found else ""


def notebook_problems(path: Path) -> list[str]:
    """What is wrong with a committed notebook, in sentences; empty when it keeps the rules."""
    notebook = read_notebook(path)
    cells = notebook["cells"]
    return [*_state_problems(notebook, cells), *_shape_problems(cells), *_parameter_problems(path)]


def _state_problems(notebook: dict, cells: list[dict]) -> list[str]:
    problems = []
    if any(cell.get("outputs") or cell.get("execution_count") for cell in cells):
        problems.append("holds outputs or execution counts; run: make strip")
    if "papermill" in notebook["metadata"] or any("papermill" in cell.get("metadata", {}) for cell in cells):
        problems.append("holds papermill's timings; run: make strip")
    identities = [cell.get("id") for cell in cells]
    if None in identities or len(set(identities)) != len(identities):
        problems.append("has cells without an id, or with the same one")
    return problems


def _shape_problems(cells: list[dict]) -> list[str]:
    problems = []
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    markdown = [cell for cell in cells if cell["cell_type"] == "markdown"]
    if len(code) > MAX_CODE_CELLS:
        problems.append(f"has {len(code)} code cells, more than {MAX_CODE_CELLS}")
    if len(markdown) < len(code) - 2:
        problems.append(f"has {len(markdown)} markdown cells for {len(code)} code cells")
    opening = source(cells[0]) if cells and cells[0]["cell_type"] == "markdown" else ""
    missing = [word for word in HEADER_LINES if not _header_line(opening, word)]
    if missing or not opening.startswith("# "):
        problems.append(f"opens without a title or the lines {', '.join(missing or HEADER_LINES)}")
    for cell in cells:
        name = cell.get("id", "?")
        if found := _ABSOLUTE_PATH.search(source(cell)):
            problems.append(f"cell {name}: absolute path {found.group(0)}")
        if cell["cell_type"] == "code":
            problems += [f"cell {name}: {problem}" for problem in _code_problems(source(cell))]
    return problems


def _code_problems(text: str) -> list[str]:
    problems = []
    if len(text.splitlines()) > MAX_CELL_LINES:
        problems.append(f"{len(text.splitlines())} lines, more than {MAX_CELL_LINES}")
    if re.search(r"^\s*(?:async\s+)?(?:def|class)\s", text, re.MULTILINE):
        problems.append("defines a function or class; put it in coevo_lib")
    return problems


def _parameter_problems(path: Path) -> list[str]:
    try:
        declared_parameters(path)
    except UserError as error:
        return [str(error)]
    cell = next(source(c) for c in read_notebook(path)["cells"] if "parameters" in tags(c))
    if any(statement.lineno != statement.end_lineno for statement in ast.parse(cell).body):
        return ["its `parameters` cell has a value over several lines; one per line"]
    return []
