"""A unit is stale exactly when something that can change what it holds has changed, and the reason is named."""

import shutil
import time

import pytest
from toy_project import PARAMETERS, PROFILE, finish, make_project, write, write_notebook

from coevo_lib.errors import UserError
from coevo_lib.fingerprint import stale_units
from coevo_lib.profile import load_profile
from coevo_lib.source import python_hash
from coevo_lib.stages import all_units, build_units

PLAIN = "def f(x):\n    return x + 1\n"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    root = make_project(tmp_path_factory.mktemp("finished"))
    finish(root)
    return root


@pytest.fixture
def root(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "copy")


def stale(root, profile="cpu"):
    loaded = load_profile(profile, root)
    return {unit.path: reason for unit, reason in stale_units(list(all_units(build_units(loaded))), loaded).items()}


def stale_stages(root):
    return sorted({path.split("/")[0] for path in stale(root)})


@pytest.mark.parametrize(
    "same",
    [
        "def f(x):\n    # a comment\n    return x + 1\n",
        'def f(x):\n    """A docstring."""\n    return x + 1\n',
        '"""A docstring."""\n\n\ndef f( x ):\n\n    return (x\n            + 1)\n',
    ],
)
def test_comments_docstrings_and_layout_do_not_count(same):
    assert python_hash(same) == python_hash(PLAIN)


@pytest.mark.parametrize(
    "other", ["def f(x):\n    return x + 2\n", "def f(x):\n    return x - 1\n", "def g(x):\n    return x + 1\n"]
)
def test_what_the_code_does_counts(other):
    assert python_hash(other) != python_hash(PLAIN)


def test_magics_do_not_stop_the_reading_of_a_cell():
    assert python_hash("%matplotlib inline\n!ls\nx = 1") == python_hash("x = 1")


def test_nothing_is_stale_after_a_run_and_finding_that_out_is_quick(root):
    started = time.monotonic()
    assert stale(root) == {}
    assert time.monotonic() - started < 2


def test_a_changed_module_restales_the_stages_that_import_it_directly_or_not(root):
    write(root / "coevo_lib" / "hooks.py", "def hook(x):\n    return x + 2\n")
    assert stale_stages(root) == ["01_harness_evolution", "02_rollouts"]
    assert stale(root)["02_rollouts/alpha"] == "module coevo_lib/hooks.py changed"


def test_a_comment_in_a_module_restales_nothing(root):
    write(root / "coevo_lib" / "hooks.py", "# new\ndef hook(x):\n    return x + 1  # adds one\n")
    assert stale(root) == {}


def test_a_file_that_is_only_touched_restales_nothing(root):
    for path in root.rglob("*.*"):
        path.touch()
    assert stale(root) == {}


@pytest.mark.parametrize(
    ("suffix", "text", "reason"),
    [
        (".py", "NAME = 'other'\n", "task file coevo_lib/tasks/alpha.py changed"),
        (".toml", "prompt = 'y'\n", "task file coevo_lib/tasks/alpha.toml changed"),
    ],
)
def test_a_changed_task_file_restales_its_own_units_and_the_joint_ones(root, suffix, text, reason):
    write(root / "coevo_lib" / "tasks" / f"alpha{suffix}", text)
    found = stale(root)
    assert found["02_rollouts/alpha"] == reason
    assert not [path for path in found if "beta" in path]
    assert {"05_training/corr/s0", "07_results"} < set(found)


def test_a_comment_in_a_task_file_restales_nothing(root):
    write(root / "coevo_lib" / "tasks" / "alpha.toml", "prompt = 'x'  # another reason\n")
    assert stale(root) == {}


def test_a_new_task_adds_its_own_units_and_restales_the_joint_ones(root):
    write(root / "notebooks" / "profiles" / "cpu.toml", PROFILE.replace('"beta"', '"beta", "gamma"'))
    found = stale(root)
    assert sorted(path for path in found if "gamma" not in path) == ["05_training/corr/s0", "07_results"]
    assert len([path for path in found if "gamma" in path]) == 6
    assert all(reason == "never run" for path, reason in found.items() if "gamma" in path)


def test_a_task_of_the_users_own_is_a_file_given_by_path(root):
    write(root / "my" / "delta.py", "from coevo_lib.hooks import hook\n")
    write(root / "notebooks" / "profiles" / "cpu.toml", PROFILE.replace('"beta"', '"beta", "my/delta.py"'))
    assert "02_rollouts/delta" in stale(root)
    units = build_units(load_profile("cpu", root))
    assert [unit.task for unit in units["02_rollouts"]] == ["alpha", "beta", str(root / "my" / "delta.py")]
    assert units["07_results"][0].task_sources[2] == str(root / "my" / "delta.py")
    write(root / "notebooks" / "profiles" / "cpu.toml", PROFILE.replace('"beta"', '"beta", "my/absent.py"'))
    with pytest.raises(UserError, match="my/absent.py"):
        stale(root)


def test_a_changed_parameter_restales_the_notebooks_that_declare_it(root):
    write(root / "notebooks" / "profiles" / "cpu.toml", PROFILE.replace("max_turns = 14", "max_turns = 9"))
    assert stale_stages(root) == ["01_harness_evolution", "02_rollouts", "06_evaluation"]
    assert stale(root)["02_rollouts/beta"] == "parameters changed: max_turns 14 -> 9"


def test_the_engine_is_no_reason_to_run_again(root):
    write(root / "notebooks" / "profiles" / "cpu.toml", 'engine = "other"\n' + PROFILE)
    assert stale(root) == {}


def test_a_changed_arm_restales_its_own_units(root):
    write(root / "notebooks" / "profiles" / "cpu.toml", PROFILE.replace("corrected_turn", "all_turns"))
    assert sorted(stale(root)) == [
        "05_training/corr/s0",
        "06_evaluation/corr/s0/alpha",
        "06_evaluation/corr/s0/beta",
        "07_results",
    ]


def test_a_changed_notebook_restales_its_stage(root):
    write_notebook(root, "04_correction", ["x = 1"])
    assert stale(root) == {f"04_correction/{task}": "notebook changed" for task in ("alpha", "beta")}


def test_text_and_display_cells_of_a_notebook_do_not_count(root):
    path = root / "notebooks" / "04_correction.ipynb"
    text = path.read_text(encoding="utf-8").replace("Next.", "Other words.")
    shown = '{"cell_type": "code", "id": "s", "metadata": {"tags": ["show"]}, "source": "1 + 1"}, {"cell_type": "code"'
    path.write_text(text.replace('{"cell_type": "code"', shown, 1), encoding="utf-8")
    assert stale(root) == {}


def test_other_outputs_of_a_unit_restale_its_readers(root):
    (root / "outputs/cpu/r1/03_failure_localization/alpha/manifest.json").unlink()
    assert "input 03_failure_localization/alpha changed" in stale(root)["04_correction/alpha"]
    finish(root, stages=["03_failure_localization"])
    assert stale(root) == {}, "the same outputs again leave the readers fresh"


def test_outputs_that_are_absent_or_truncated_are_stale(root):
    (root / "outputs/cpu/r1/02_rollouts/alpha/rollouts.jsonl").unlink()
    (root / "outputs/cpu/r1/02_rollouts/beta/rollouts.jsonl").write_text("{", encoding="utf-8")
    assert stale(root) == {
        "02_rollouts/alpha": "outputs not present: rollouts.jsonl",
        "02_rollouts/beta": "outputs of another size: rollouts.jsonl",
    }


def test_another_prepared_student_restales_everything(root):
    write(root / "student" / "manifest.json", "{}")
    assert set(stale(root).values()) == {"prepared student changed"}
    assert stale_stages(root) == sorted(PARAMETERS)


def test_a_further_round_starts_from_the_carried_arm(root):
    write(root / "notebooks" / "profiles" / "cpu.toml", 'carry_arm = "corr"\n' + PROFILE)
    assert stale(root) == {}
    second = build_units(load_profile("cpu", root, round=2))
    assert [unit.dir for unit in second["01_harness_evolution"][0].inputs] == [
        root / "outputs/cpu/r1/05_training/corr/s0"
    ]


def test_a_module_that_is_no_python_is_named(root):
    write(root / "coevo_lib" / "play.py", "def play(:\n")
    with pytest.raises(UserError, match="play.py, line 1"):
        stale(root)
