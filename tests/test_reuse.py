"""A profile takes over what another one has done, if and only if it would do the same."""

import json

import pytest
from test_runner import coevo
from toy_project import PROFILE, finish, make_project, write

FULL = PROFILE + '[[arms]]\nname = "more"\nrows = "own"\nharness = "hstar"\nloss = "every assistant turn"\nmatch = ""\n'


@pytest.fixture
def root(tmp_path):
    made = make_project(tmp_path, importing=False)
    write(made / "notebooks" / "profiles" / "full.toml", FULL)
    return made


def units(root, profile):
    return {
        p.parent.relative_to(root / "outputs" / profile / "r1").as_posix()
        for p in (root / "outputs" / profile).rglob("manifest.json")
    }


def test_a_larger_profile_does_only_what_is_new(root):
    finish(root)
    done = coevo(root, "run", "--profile", "full")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "01_harness_evolution     2 units taken over from profile cpu" in done.stdout
    assert "05_training              1 of 2 units to do: more/s0 (never run)" in done.stdout
    assert "07_results               1 of 1 unit to do" in done.stdout
    assert units(root, "full") > units(root, "cpu")
    manifest = json.loads((root / "outputs/full/r1/02_rollouts/beta/manifest.json").read_text())
    assert manifest["taken_over_from"] == "cpu" and manifest["key"]["profile"] == "full"
    again = coevo(root, "run", "--profile", "full")
    assert "taken over" not in again.stdout and again.stdout.count("fresh (") == 7


def test_what_differs_or_is_damaged_is_done_anew(root):
    finish(root)
    (root / "outputs/cpu/r1/02_rollouts/beta/rollouts.jsonl").write_text("edited")
    write(root / "notebooks" / "profiles" / "full.toml", FULL.replace("max_turns = 14", "max_turns = 15"))
    done = coevo(root, "run", "--profile", "full")
    assert done.returncode == 0 and "taken over" not in done.stdout.split("03_failure")[0]
    write(root / "notebooks" / "profiles" / "other.toml", FULL)
    done = coevo(root, "run", "--profile", "other")
    assert "02_rollouts              1 unit taken over from profile cpu" in done.stdout
    assert (root / "outputs/other/r1/02_rollouts/beta/rollouts.jsonl").read_text() != "edited"
