"""The committed student is the one that this code makes: same rows, same recipe, same weights (rule 4)."""

import csv
import dataclasses
import json
from pathlib import Path

import pytest

from coevo_lib.errors import UserError
from coevo_lib.files import sha256_file
from coevo_lib.models import STUDENT_FOLDER, student_dir
from coevo_lib.student import (
    GENERIC_ROWS,
    RECIPE,
    ROWS_PER_TASK,
    TASKS,
    first_replies,
    preparation_rows,
    rows_hash,
)

HOME = Path(__file__).parents[1] / STUDENT_FOLDER


@pytest.fixture(scope="module")
def rows():
    return preparation_rows()


@pytest.fixture
def manifest():
    if not (HOME / "manifest.json").exists():
        pytest.skip(f"{STUDENT_FOLDER}/manifest.json does not exist yet; `make student` writes it")
    return json.loads((HOME / "manifest.json").read_text())


def test_the_manifest_names_the_rows_that_the_code_makes(manifest, rows):
    assert manifest["rows_sha256"] == rows_hash(rows), (
        "the rows have changed since the student was trained: run `make student`"
    )
    assert (manifest["generic_rows"], manifest["rows_per_task"], manifest["tasks"]) == (
        GENERIC_ROWS,
        ROWS_PER_TASK,
        list(TASKS),
    )


def test_the_manifest_names_the_recipe_of_the_code(manifest):
    assert manifest["recipe"] == dataclasses.asdict(RECIPE)


def test_the_manifest_names_the_weights_beside_it(manifest):
    assert manifest["adapter_sha256"] == sha256_file(HOME / "adapter" / "adapter_model.safetensors")


def test_few_rows_come_from_each_task(rows):
    assert ROWS_PER_TASK <= 9
    sources = [row["source"] for row in rows if "source" in row]
    assert len(rows) == GENERIC_ROWS + len(sources)
    for name in TASKS:
        assert sum(source.startswith(f"{name}/prepare/") for source in sources) == ROWS_PER_TASK
    assert len(sources) == ROWS_PER_TASK * len(TASKS)


def test_the_rows_are_the_same_each_time(rows):
    assert rows_hash(preparation_rows()) == rows_hash(rows)


def test_the_hash_follows_text_and_mask_only():
    rows = preparation_rows(generic=3, per_task=1)
    assert rows_hash(rows) == rows_hash([{"messages": row["messages"], "mask": row["mask"]} for row in rows])
    changed = [{**row, "mask": [False] * len(row["mask"])} for row in rows]
    assert rows_hash(changed) != rows_hash(rows) != rows_hash(rows[::-1])


def test_fewer_rows_are_the_first_of_more(rows):
    assert preparation_rows(generic=20)[:20] == rows[:20]


def test_a_missing_student_says_what_to_run(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("coevo_lib.models.base_model_dir", lambda *arguments: pytest.fail("converted first"))
    with pytest.raises(UserError, match="student/manifest.json: the prepared student is missing; run `make student`"):
        student_dir()


@pytest.mark.model
def test_the_training_begins_as_the_committed_one_did(manifest, rows, tmp_path):
    """The first five steps of the same schedule give the same loss within 3 %; the whole takes minutes to repeat."""
    from coevo_lib.models import base_model_dir
    from coevo_lib.training import train_adapter

    result = train_adapter(base_model_dir(), rows, tmp_path, RECIPE, stop_after=5)
    committed = next(csv.DictReader((HOME / "training_log.csv").open()))
    assert committed["step"] == "5"
    assert result["loss"] == pytest.approx(float(committed["loss"]), rel=0.03)


@pytest.mark.model
def test_the_committed_student_replies_as_it_did_when_it_was_made(manifest):
    """Greedy first replies, all but one: bfloat16 sums differ a little between machines."""
    committed = json.loads((HOME / "replies.json").read_text())
    replies = first_replies(HOME / "adapter")
    assert len(committed) >= 8 and committed.keys() == replies.keys()
    assert sum(replies[prompt] != text for prompt, text in committed.items()) <= 1
