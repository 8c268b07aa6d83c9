"""A task of one's own starts from files that work."""

import shutil

import pytest

from coevo_lib.check_task import check
from coevo_lib.errors import UserError
from coevo_lib.new_task import main, new_task
from coevo_lib.notebooks import declared_parameters
from coevo_lib.profile import find_root, load_profile
from coevo_lib.task import load_task

ROOT = find_root(__file__.rsplit("/", 1)[0])


@pytest.fixture
def root(tmp_path):
    """A repository with the notebooks and the smallest profile of this one."""
    (tmp_path / "pyproject.toml").touch()
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    return tmp_path


def test_what_is_written_passes_every_check(root):
    paths = new_task("bee_keeping", root=root)
    names = ["my_tasks/bee_keeping.py", "my_tasks/bee_keeping.toml", "notebooks/profiles/bee_keeping.toml"]
    assert [path.relative_to(root).as_posix() for path in paths] == names
    checks = check(str(paths[0]))
    assert [c for c in checks if not c.ok] == []
    assert not any("does not apply" in c.detail for c in checks)


def test_the_task_loads_by_its_path_and_has_a_template_for_test_only(root):
    task = load_task(str(new_task("hives", "mine/of_all", root)[0]))
    assert type(task).__name__ == "Hives" and task.name == "hives"
    assert [bool(template.get("test_only")) for template in task.templates.values()].count(True) == 1
    [instance] = task.instances("train", 1)
    assert instance.goal["meadow"] in instance.prompt


def test_early_honey_is_not_the_answer(root, played):
    task = load_task(str(new_task("hives", root=root)[0]))
    for instance in task.instances("test", 60):
        early = [instance.data["kilos"][hive]["early"] for hive in instance.data["meadows"][instance.goal["meadow"]]]
        total = sum(early) * (3 if instance.goal["kind"] == "price" else 1)
        assert total == instance.data["answer"] or not played(task, instance, [f"submit({total})"]).trajectory.success


def test_the_profile_is_the_smallest_one_for_this_task(root):
    new_task("hives", root=root)
    smoke, profile = load_profile("smoke", root), load_profile("hives", root)
    assert profile.values["tasks"] == ["my_tasks/hives.py"]
    assert profile.values == smoke.values | {"tasks": ["my_tasks/hives.py"]} and profile.values["arms"]
    assert "tasks" in declared_parameters(root / "notebooks" / "02_rollouts.ipynb")


@pytest.mark.parametrize("taken", ["my_tasks/hives.py", "my_tasks/hives.toml", "notebooks/profiles/hives.toml"])
def test_nothing_is_overwritten(root, taken):
    path = root / taken
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    before = sorted(root.rglob("*"))
    with pytest.raises(UserError, match=f"{taken}: exists already; choose another name"):
        new_task("hives", root=root)
    assert path.read_text() == "mine" and sorted(root.rglob("*")) == before


@pytest.mark.parametrize(
    "name", ["Hives", "2hives", "bee-keeping", "bee keeping", "", "_", "class", "../hives", "hives.py", "süß"]
)
def test_a_name_that_python_does_not_take_is_refused(root, name):
    with pytest.raises(UserError, match="not a Python name in small letters"):
        new_task(name, root=root)
    assert not (root / "my_tasks").exists()


@pytest.mark.parametrize("name", ["attendance", "cpu"])
def test_a_name_that_is_taken_is_refused(root, name):
    with pytest.raises(UserError, match="of this name|exists already"):
        new_task(name, root=root)
    assert not (root / "my_tasks").exists()


def test_a_repository_without_the_smallest_profile_is_told(root):
    (root / "notebooks" / "profiles" / "smoke.toml").unlink()
    with pytest.raises(UserError, match="smoke.toml: missing"):
        new_task("hives", root=root)
    assert not (root / "my_tasks").exists()


def test_the_command_prints_what_to_do_next(root, monkeypatch, capsys):
    monkeypatch.chdir(root)
    assert main(["hives"]) == 0
    out = capsys.readouterr().out.split("\n")
    assert out[0] == "wrote my_tasks/hives.py"
    assert [line.strip() for line in out[-4:-1]] == [
        "make check-task TASK=my_tasks/hives.py",
        "make reproduce PROFILE=hives",
        "make lab",
    ]
    assert main(["hives"]) == 2
    assert capsys.readouterr().err.startswith("error: my_tasks/hives.py: exists already")
