"""The committed notebooks are stripped, short and readable, and every profile fits them."""

import copy
import json
from pathlib import Path

import pytest
from toy_project import notebook

from coevo_lib.notebooks import notebook_problems
from coevo_lib.profile import load_profile

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PROFILES = sorted((ROOT / "notebooks" / "profiles").glob("*.toml"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_keeps_the_rules(path):
    assert notebook_problems(path) == []


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_every_key_of_a_profile_is_declared_by_a_notebook(path):
    load_profile(path.stem, ROOT)


def broken(cell: int, **changes):
    def change(content):
        content["cells"][cell].update(changes)

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (broken(3, outputs=[{"output_type": "stream"}]), "make strip"),
        (broken(3, execution_count=4), "make strip"),
        (broken(3, metadata={"papermill": {}}), "timings"),
        (broken(3, id="cell-0"), "id"),
        (broken(3, source="def f():\n    pass"), "defines"),
        (broken(3, source="x = 1\n" * 25), "25 lines"),
        (broken(3, source="open('/home/someone/x')"), "absolute path"),
        (broken(1, source="a = f()"), "parameters"),
        (broken(1, source="a = [\n  1,\n]"), "one per line"),
        (broken(0, source="# Title"), "Question"),
        (lambda content: content["cells"].extend([content["cells"][3]] * 20), "code cells"),
    ],
)
def test_a_broken_rule_is_named(tmp_path, change, words):
    content = copy.deepcopy(notebook("toy", "a = 1", ["x = 1  # about 1/2 of ~5", "y = 2"]))
    path = tmp_path / "toy.ipynb"
    path.write_text(json.dumps(content), encoding="utf-8")
    assert notebook_problems(path) == []
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    assert any(words in problem for problem in notebook_problems(path)), notebook_problems(path)
