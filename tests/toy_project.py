"""A tiny repository in a temporary folder: the notebooks' cells write one line a unit and need no model."""

import json
from pathlib import Path

SHARED = "tasks = []\nsearch_seeds = [0]\nlora_seeds = [0]\narms = []"
PARAMETERS = {
    "01_harness_evolution": f'{SHARED}\nmax_turns = 12\ncarry_arm = ""',
    "02_rollouts": "tasks = []\nmax_turns = 12\ntemperature = 0.5\nengine = 'auto'",
    "03_failure_localization": "tasks = []\nmethod = 'replay'",
    "04_correction": "tasks = []",
    "05_training": f"{SHARED}\nepochs = 1",
    "06_evaluation": f"{SHARED}\nmax_turns = 12",
    "07_results": f"{SHARED}\nresamples = 10",
}
PROFILE = """
tasks = ["alpha", "beta"]
max_turns = 14  # a comment

[[arms]]
name = "base"
rows = "none"
harness = "h0"
loss = ""
match = ""

[[arms]]
name = "corr"
rows = "correction"
harness = "hstar"
loss = "corrected turn"
match = ""
"""
WORK = """for unit in stage.todo:
    with stage.writing(unit) as out:
        for name in unit.promised:
            write_text_atomic(out / name, unit.path)"""
OPENING = (
    "from coevo_lib.files import write_text_atomic\nfrom coevo_lib.stage import open_stage\nimport coevo_lib.{module}"
)


def notebook(stage: str, parameters: str, cells: list[str]) -> dict:
    def cell(kind: str, text: str, place: int, **metadata) -> dict:
        made = {"cell_type": kind, "id": f"cell-{place}", "metadata": metadata, "source": text}
        return made if kind == "markdown" else {**made, "outputs": [], "execution_count": None}

    header = f"# {stage}\n\n**Question.** Why?\n**Reads.** -\n**Writes.** -\n**Time.** 1 s"
    parameters = f'profile = "cpu"\nround = 1\n{parameters}'
    made = [cell("markdown", header, 0), cell("code", parameters, 1, tags=["parameters"])]
    for place, text in enumerate(cells, start=1):
        made += [cell("markdown", "Next.", 2 * place), cell("code", text, 2 * place + 1)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def write_notebook(root: Path, stage: str, cells: list[str], parameters: str | None = None) -> Path:
    path = root / "notebooks" / f"{stage}.ipynb"
    content = notebook(stage, PARAMETERS[stage] if parameters is None else parameters, cells)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def make_project(root: Path, importing: bool = True) -> Path:
    """Notebooks 01 and 02 import `play`, which imports `hooks`; 07 imports `tables`; the others nothing."""
    write(root / "pyproject.toml", "")
    write(root / "notebooks" / "profiles" / "cpu.toml", PROFILE)
    write(root / "coevo_lib" / "hooks.py", '"""Hooks."""\n\n\ndef hook(x):\n    # adds\n    return x + 1\n')
    write(root / "coevo_lib" / "play.py", "def play():\n    from coevo_lib.hooks import hook\n\n    return hook(1)\n")
    write(root / "coevo_lib" / "tables.py", "ROWS = 3\n")
    for task in ("alpha", "beta", "gamma"):
        write(root / "coevo_lib" / "tasks" / f"{task}.py", f"NAME = '{task}'\n")
        write(root / "coevo_lib" / "tasks" / f"{task}.toml", "prompt = 'x'  # why\n")
    modules = {"01_harness_evolution": "play", "02_rollouts": "play", "07_results": "tables"}
    for stage in PARAMETERS:
        opening = OPENING.format(module=modules.get(stage, "files") if importing else "files")
        write_notebook(root, stage, [opening, f'stage = open_stage("{stage}", globals())', WORK, 'stage.close("ok")'])
    return root


def finish(root: Path, profile: str = "cpu", stages=None) -> None:
    """Do by hand what the notebooks do, for every stale unit."""
    from coevo_lib.stage import open_stage

    for stage_id in stages or PARAMETERS:
        stage = open_stage(stage_id, {"profile": profile}, root)
        for unit in stage.todo:
            with stage.writing(unit) as out:
                for name in unit.promised:
                    write(out / name, unit.path)
        stage.close()
