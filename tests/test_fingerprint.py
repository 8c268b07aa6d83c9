"""A unit is stale exactly when something that can change what it holds has changed, and the reason is named."""

import json
import shutil
import time
from dataclasses import replace

import pytest
from toy_project import PARAMETERS, PROFILE, finish, make_project, write, write_notebook

from coevo_lib.errors import UserError
from coevo_lib.fingerprint import stale_units
from coevo_lib.manifest import SMALL
from coevo_lib.profile import find_root, load_profile, profile_names
from coevo_lib.source import python_hash
from coevo_lib.stage import open_stage
from coevo_lib.stages import STAGES, all_units, build_units, trained

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
    assert len([path for path in found if "gamma" in path]) == 7
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
    write(root / "notebooks" / "profiles" / "cpu.toml", 'engine = "replay"\n' + PROFILE)
    assert stale(root) == {}


def test_a_changed_arm_restales_its_own_units(root):
    write(root / "notebooks" / "profiles" / "cpu.toml", PROFILE.replace('"correction"', '"random_turn"'))
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
        "02_rollouts/beta": "outputs not as written: rollouts.jsonl",
    }


@pytest.mark.parametrize(
    ("stage", "name"),
    [(stage.id, name) for stage in STAGES for name in stage.promised],
)
def test_an_edit_of_any_output_that_keeps_its_length_is_seen(root, stage, name):
    path = next((root / "outputs/cpu/r1" / stage).rglob(name))
    text = path.read_text(encoding="utf-8")
    path.write_text(text.swapcase(), encoding="utf-8")
    unit = path.relative_to(root / "outputs/cpu/r1").as_posix().removesuffix(f"/{name}")
    assert stale(root) == {unit: f"outputs not as written: {name}"}
    path.write_text(text, encoding="utf-8")
    assert stale(root) == {}


def test_large_outputs_are_compared_by_length_so_that_finding_out_stays_quick(root):
    stage = open_stage("05_training", {"profile": "cpu"}, root)
    [unit] = stage.units
    with stage.writing(unit) as out:
        for name in unit.promised:
            write(out / name, unit.path)
        write(out / "adapter" / "weights", "x" * (SMALL + 1))
    assert stale(root)["07_results"].startswith("input 05_training")
    write(unit.dir / "adapter" / "weights", "y" * (SMALL + 1))
    assert unit.path not in stale(root)
    write(unit.dir / "adapter" / "weights", "y" * SMALL)
    assert stale(root)[unit.path] == "outputs not as written: adapter/weights"


MANIFEST_FILE = "outputs/cpu/r1/03_failure_localization/alpha/manifest.json"


def spoilt(manifest):
    """Texts that a manifest might hold after an accident: cut off, of another kind, without one of its parts."""
    text = json.dumps(manifest)
    yield from ("", text[: len(text) // 2], "null", "3", "[]", '"text"', "{}", json.dumps(sorted(manifest)))
    for key in ("fingerprint", "detail", "outputs", "bytes", "seconds"):
        yield json.dumps({name: value for name, value in manifest.items() if name != key})
        for other in (None, 3, "x", [], ["x"], {"x": "y"}):
            if not (key == "seconds" and other == 3):
                yield json.dumps({**manifest, key: other})
    for part in manifest["detail"]:
        yield json.dumps({**manifest, "detail": {**manifest["detail"], part: ["x"]}})


def test_a_manifest_that_was_spoilt_in_any_way_makes_its_unit_run_again(root):
    path = root / MANIFEST_FILE
    manifest = json.loads(path.read_text(encoding="utf-8"))
    texts = list(spoilt(manifest))
    assert len(texts) > 40
    for text in texts:
        path.write_text(text, encoding="utf-8")
        assert stale(root)["03_failure_localization/alpha"] == "manifest.json is not as it was written", text
    path.write_bytes(b"\xff\xfe")
    assert stale(root)["03_failure_localization/alpha"] == "manifest.json is not as it was written"
    finish(root, stages=["03_failure_localization"])
    assert stale(root) == {}


def test_another_prepared_student_restales_everything(root):
    write(root / "student" / "manifest.json", "{}")
    assert set(stale(root).values()) == {"prepared student changed"}
    assert stale_stages(root) == sorted(PARAMETERS)


def second_round(root, carry="corr"):
    write(root / "notebooks" / "profiles" / "cpu.toml", f'carry_arm = "{carry}"\n{PROFILE}')
    return load_profile("cpu", root, round=2)


def test_a_second_round_starts_from_the_carried_arm_and_leaves_the_first_as_it_is(root):
    second = build_units(second_round(root))
    assert stale(root) == {}
    carried = [root / "outputs/cpu/r1/05_training/corr/s0"]
    for stage in ("01_harness_evolution", "02_rollouts", "04_correction", "05_training", "06_evaluation"):
        for unit in second[stage]:
            assert [source.dir for source in unit.inputs if source.round == 1] == carried
    first = build_units(load_profile("cpu", root))
    assert [unit.path for unit in all_units(second)] == [unit.path for unit in all_units(first)]


@pytest.mark.parametrize(
    ("carry", "words"),
    [("core", "'core' names an arm that does not exist here; trained arms: corr"),
     ("base", "'base' names an arm that is trained on nothing; trained arms: corr"),
     ("", "'' names an arm that does not exist here; trained arms: corr")],
)  # fmt: skip
def test_an_arm_that_cannot_be_carried_is_refused_with_those_that_can(root, carry, words):
    with pytest.raises(UserError, match=f"cpu.toml: carry_arm = {words}"):
        build_units(second_round(root, carry))


def test_a_third_round_is_refused_because_no_stage_stacks_adapters(root):
    with pytest.raises(UserError, match="round = 3.*ROUND=2 at most"):
        build_units(replace(second_round(root), round=3))


def test_the_committed_profiles_can_start_a_second_round():
    root = find_root(__file__.rsplit("/", 1)[0])
    training = [
        name for name in profile_names(root) if any(map(trained, load_profile(name, root, round=1).values["arms"]))
    ]
    assert {"cpu", "full", "smoke"} <= set(training)
    for name in training:
        units = build_units(load_profile(name, root, round=2))
        sources = {source.path for unit in all_units(units) for source in unit.inputs if source.round == 1}
        assert sources == {"05_training/corr_hstar/s0"}
        # Whatever plays the student plays the carried one.
        for stage in ("01_harness_evolution", "02_rollouts", "03_failure_localization", "04_correction", "05_training"):
            assert all(any(source.round == 1 for source in unit.inputs) for unit in units[stage])


def test_a_module_that_is_no_python_is_named(root):
    write(root / "coevo_lib" / "play.py", "def play(:\n")
    with pytest.raises(UserError, match="play.py, line 1"):
        stale(root)


def test_more_seeds_for_an_arm_add_units_and_leave_the_first_one_fresh(root):
    path = root / "notebooks" / "profiles" / "cpu.toml"
    write(path, PROFILE + "lora_seeds = [0, 101]\n")
    found = stale(root)
    assert set(found) == {
        "05_training/corr/s101",
        *(f"06_evaluation/corr/s101/{t}" for t in ("alpha", "beta")),
        "07_results",
    }


def test_the_arm_that_another_matches_counts_for_it(root):
    path = root / "notebooks" / "profiles" / "cpu.toml"
    other = '[[arms]]\nname = "imit"\nrows = "expert"\nharness = "hstar"\nloss = "every assistant turn"\nmatch = "{}"\n'
    write(path, PROFILE + other.format(""))
    plain = build_units(load_profile("cpu", root))["05_training"]
    write(path, PROFILE + other.format("corr"))
    matched = build_units(load_profile("cpu", root))["05_training"]
    assert (
        "matched" not in plain[1].arm
        and matched[1].arm["matched"]["name"] == "corr"
        and "matched" not in matched[0].arm
    )


def test_repeats_of_a_search_add_units_that_only_the_results_read():
    cpu = load_profile("cpu", find_root(__file__.rsplit("/", 1)[0]))
    few, more = (build_units(profile) for profile in (cpu, cpu.with_values({"search_repeats": 2})))
    added = [unit for unit in more["01_harness_evolution"] if unit not in few["01_harness_evolution"]]
    assert [unit.key["seed"] for unit in added[:2]] == [1, 2] and len(added) == 2 * len(cpu.get("tasks"))
    assert {unit.part for unit in added} == {"repeats"}
    assert set(added) <= set(more["07_results"][0].inputs)
    for stage in list(few)[1:-1]:
        assert few[stage] == more[stage] and [unit.inputs for unit in few[stage]] == [u.inputs for u in more[stage]]
