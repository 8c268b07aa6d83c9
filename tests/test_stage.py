"""A kill leaves no unit that looks complete, and what is missing or damaged is named with its make target."""

import json

import pytest
from toy_project import PARAMETERS, finish, make_project, write

from coevo_lib.errors import UserError
from coevo_lib.files import append_jsonl, read_jsonl, stable_seed, write_jsonl, write_text_atomic
from coevo_lib.stage import open_stage


@pytest.fixture
def root(tmp_path):
    return make_project(tmp_path)


def evolved(root):
    finish(root, stages=["01_harness_evolution"])
    return open_stage("02_rollouts", {"profile": "cpu"}, root)


def test_a_unit_leaves_the_list_when_it_is_written_and_closing_prints_one_line(root, capsys):
    stage = open_stage("01_harness_evolution", {"profile": "cpu"}, root)
    assert [unit.label for unit in stage.todo] == ["alpha/s0", "beta/s0"]
    finish(root, stages=["01_harness_evolution"])
    capsys.readouterr()
    stage = open_stage("01_harness_evolution", {"profile": "cpu"}, root)
    assert stage.todo == []
    stage.close("all is well")
    assert capsys.readouterr().out.splitlines()[-1].endswith("2 units complete in 0 s. all is well")


def test_an_exception_while_writing_leaves_no_manifest(root):
    stage = evolved(root)
    with pytest.raises(KeyboardInterrupt), stage.writing(stage.todo[0]) as out:
        write(out / "rollouts.jsonl", "{}\n")
        raise KeyboardInterrupt
    assert not (stage.todo[0].dir / "manifest.json").exists()
    with pytest.raises(UserError, match="02_rollouts/alpha is not finished"):
        stage.close()


def test_an_attempt_goes_on_from_its_own_files_but_not_from_those_of_other_code(root):
    stage = evolved(root)
    unit = stage.todo[0]
    with pytest.raises(RuntimeError), stage.writing(unit) as out:
        write(out / "part", "half")
        raise RuntimeError
    with pytest.raises(RuntimeError), stage.writing(unit) as out:
        assert (out / "part").read_text() == "half"
        raise RuntimeError
    write(root / "coevo_lib" / "hooks.py", "def hook(x):\n    return x + 3\n")
    with pytest.raises(RuntimeError), stage.writing(unit) as out:
        assert not (out / "part").exists()
        raise RuntimeError


def test_a_promised_file_that_was_not_written_is_named(root):
    stage = evolved(root)
    with pytest.raises(UserError, match="did not write rollouts.jsonl"), stage.writing(stage.todo[0]):
        pass
    assert len(stage.todo) == 2


def test_the_manifest_says_where_the_numbers_came_from(root):
    stage = evolved(root)
    unit = stage.unit(task="beta")
    with stage.writing(unit) as out:
        write(out / "rollouts.jsonl", "{}\n")
        write(out / "more" / "notes.txt", "x")
    manifest = json.loads((unit.dir / "manifest.json").read_text(encoding="utf-8"))
    assert set(manifest["outputs"]) == {"rollouts.jsonl", "more/notes.txt"}
    assert manifest["parameters"]["max_turns"] == 14
    assert list(manifest["inputs"]) == ["01_harness_evolution/beta/s0"]
    assert {"git", "versions", "machine", "seconds", "fingerprint"} <= set(manifest)


def test_a_missing_input_is_named_with_the_command_that_makes_it(root):
    with pytest.raises(UserError, match=r"01_harness_evolution/alpha/s0 is missing.*make evolution PROFILE=cpu"):
        open_stage("02_rollouts", {"profile": "cpu"}, root)


@pytest.mark.parametrize("damage", ["truncate", "same length", "delete"])
def test_a_damaged_input_is_named_with_the_command_that_rebuilds_it(root, damage):
    finish(root, stages=["01_harness_evolution"])
    path = root / "outputs/cpu/r1/01_harness_evolution/beta/s0/best.toml"
    text = path.read_text(encoding="utf-8")
    path.unlink()
    if damage != "delete":
        path.write_text(text[:3] if damage == "truncate" else text[::-1], encoding="utf-8")
    with pytest.raises(UserError, match=r"beta/s0/best.toml is .*make force-evolution evolution PROFILE=cpu"):
        open_stage("02_rollouts", {"profile": "cpu"}, root)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"outputs": {}}', "\xff", '["fingerprint", "detail", "outputs", "bytes"]']
)
def test_an_input_whose_manifest_is_spoilt_is_named_with_the_command_that_rebuilds_it(root, text):
    finish(root, stages=["01_harness_evolution"])
    path = root / "outputs/cpu/r1/01_harness_evolution/beta/s0/manifest.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=r"s0/manifest.json is not as it was written.*: make evolution PROFILE=cpu"):
        open_stage("02_rollouts", {"profile": "cpu"}, root)


def test_a_unit_gives_its_inputs_by_stage(root):
    finish(root, stages=list(PARAMETERS)[:5])
    stage = open_stage("06_evaluation", {"profile": "cpu"}, root)
    unit = stage.unit(arm="corr", task="beta")
    assert [source.path for source in stage.input(unit, "05_training")] == ["05_training/corr/s0"]
    assert [source.path for source in stage.input(unit, "evolution")] == ["01_harness_evolution/beta/s0"]
    assert stage.input(stage.unit(arm="base", task="beta"), "05_training") == [] == stage.carried(unit)
    assert unit.arm["loss"] == "corrected turn"


def test_the_profile_fills_in_what_the_cell_left_at_its_default_and_an_edit_counts(root, capsys):
    finish(root, stages=["01_harness_evolution"])
    namespace = {"profile": "cpu", "round": 1, "tasks": [], "max_turns": 12, "temperature": 0.9}
    stage = open_stage("02_rollouts", namespace, root)
    assert (namespace["max_turns"], namespace["tasks"]) == (14, ["alpha", "beta"])
    assert stage.parameters["temperature"] == 0.9
    printed = capsys.readouterr().out
    assert "max_turns = 14" in printed and "set here instead of in profile cpu: temperature = 0.9" in printed


def test_outputs_can_be_elsewhere(root, tmp_path, monkeypatch):
    monkeypatch.setenv("COEVO_OUTPUTS", str(tmp_path / "other"))
    finish(root, stages=["01_harness_evolution"])
    assert (tmp_path / "other/cpu/r1/01_harness_evolution/alpha/s0/manifest.json").is_file()


def test_progress_is_at_most_ten_lines_when_nobody_watches(root, capsys, monkeypatch):
    stage = open_stage("01_harness_evolution", {"profile": "cpu"}, root)
    monkeypatch.setenv("COEVO_HEADLESS", "1")
    for count in (3, 10, 203):
        for items in (range(count), iter(range(count))):
            capsys.readouterr()
            assert list(stage.progress(items, label="played")) == list(range(count))
            assert 1 <= len(capsys.readouterr().out.splitlines()) <= 10


def test_a_half_written_last_line_is_dropped_also_before_more_is_added(tmp_path):
    path = write_jsonl(tmp_path / "rows.jsonl", [{"a": 1}, {"a": "ü"}])
    with path.open("a", encoding="utf-8") as file:
        file.write('{"a": 3, "b')
    assert read_jsonl(path) == [{"a": 1}, {"a": "ü"}]
    append_jsonl(path, {"a": 4})
    assert read_jsonl(path) == [{"a": 1}, {"a": "ü"}, {"a": 4}]


def test_a_broken_line_elsewhere_is_named_with_its_number_and_the_fix(tmp_path):
    path = write(tmp_path / "cpu" / "r1" / "02_rollouts" / "rows.jsonl", '{"a": 1}\n{"a": \n{"a": 3}\n')
    with pytest.raises(UserError, match=r"rows.jsonl, line 2: .*make force-02_rollouts reproduce PROFILE=cpu"):
        read_jsonl(path)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = write_text_atomic(tmp_path / "file", "old")
    with pytest.raises(TypeError):
        write_text_atomic(path, 3)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_seeds_are_the_same_everywhere():
    assert stable_seed("task", 1) == 1584768566
    assert stable_seed("task", 1) != stable_seed("task", 11) and stable_seed("a", "b") != stable_seed("ab")
