"""Stages 01 to 04 on the mock task with a scripted student: killed with SIGKILL at any moment and run again, they
give the same bytes as a run that nobody killed, and nothing that was answered is asked twice."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from coevo_lib import results
from coevo_lib.files import read_jsonl
from coevo_lib.profile import load_profile
from coevo_lib.stages import build_units

ROOT = Path(__file__).resolve().parents[1]
PROFILE = """
tasks = ["mock"]
n_evolve = 12
n_select = 12
n_train = 16
proposals = 3
minibatch = 8
max_turns = 8
n_test = 10
n_planted = 3
n_counterfactual = 2
random_edits = true
search_repeats = 1
ablation = true

[[arms]]
name = "student_h0"
rows = "none"
harness = "h0"
loss = ""
match = ""

[[arms]]
name = "best_of_n_h0"
rows = "best_of_n"
harness = "h0"
loss = ""
match = ""
samples = 3
"""


def start(folder: Path, profile_text: str = PROFILE, *words: str) -> subprocess.Popen:
    profile = folder / "tiny.toml"
    profile.write_text(profile_text)
    environment = os.environ | {
        "COEVO_OUTPUTS": str(folder / "outputs"),
        "COEVO_HEADLESS": "1",
        "PYTHONPATH": str(ROOT),
    }
    study = Path(__file__).with_name("tiny_study.py")
    command = [sys.executable, str(study), str(profile), str(folder / "replies.sqlite"), *words]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def finish(process: subprocess.Popen) -> int:
    """Waits for the end; returns how many replies the student was asked for."""
    text, _ = process.communicate(timeout=120)
    assert process.returncode == 0, text
    return text.count("asked")


def artefacts(folder: Path) -> dict[str, bytes]:
    files = [f for f in (folder / "outputs").rglob("*") if f.suffix in (".jsonl", ".toml", ".csv")]
    return {str(f.relative_to(folder)): f.read_bytes() for f in files}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    return folder, finish(start(folder))


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_killed_study_goes_on_where_it_was(undisturbed, tmp_path, share):
    folder, asked = undisturbed
    assert asked > 50
    process, heard = start(tmp_path), 0
    for line in process.stdout:
        heard += "asked" in line
        if heard >= share * asked:
            break
    os.kill(process.pid, signal.SIGKILL)
    process.stdout.read()
    process.wait()
    time.sleep(0.1)
    again = finish(start(tmp_path))
    assert again <= asked - heard + 64, "only what was in flight is asked again"
    assert artefacts(tmp_path) == artefacts(folder)


def test_a_finished_study_asks_nothing(undisturbed):
    folder, _ = undisturbed
    before = artefacts(folder)
    assert {Path(name).name for name in before} >= {
        "lineage.jsonl",
        "best.toml",
        "rollouts.jsonl",
        "failures.jsonl",
        "planted.jsonl",
        "planting_counts.jsonl",
        "judged.jsonl",
        "localized.jsonl",
        "ablation.jsonl",
        "corrections.jsonl",
    }
    assert finish(start(folder)) == 0
    assert artefacts(folder) == before


def test_planted_failures_are_counted_and_judged(undisturbed):
    folder, _ = undisturbed
    [unit] = (folder / "outputs").rglob("03_failure_localization/planted/mock")
    planted, counts, judged = (read_jsonl(unit / f"{name}.jsonl") for name in ("planted", "planting_counts", "judged"))
    methods = {
        name: [row for row in judged if row["method"] == name] for name in ("oracle", "heuristic", "counterfactual")
    }
    assert sum(count["kept"] for count in counts) == len(planted) == len(methods["oracle"]) > 3
    assert len(methods["heuristic"]) == len(planted) >= len(methods["counterfactual"]) > 3
    assert sum(map(len, methods.values())) == len(judged)
    assert all(count["kept"] <= 3 for count in counts)
    truth = [(row["class"], row["turn"]) for row in planted]
    assert truth == [(row["class"], row["planted"]) for row in methods["oracle"]]
    assert not any(row["success"] for row in planted)


def test_the_parts_stand_beside_the_units_that_training_reads(undisturbed):
    folder, _ = undisturbed
    [round_] = (folder / "outputs").rglob("r1")
    plain, control = (round_ / "01_harness_evolution" / name / "s0" for name in ("mock", "random_edits/mock"))
    assert read_jsonl(plain / "lineage.jsonl") != read_jsonl(control / "lineage.jsonl")
    repeat = read_jsonl(round_ / "01_harness_evolution" / "repeats" / "mock" / "s1" / "lineage.jsonl")
    assert repeat[0]["harness"] == read_jsonl(plain / "lineage.jsonl")[0]["harness"] and len(repeat) > 1
    rows = read_jsonl(round_ / "02_rollouts" / "ablation" / "mock" / "ablation.jsonl")
    assert [rows[0]["element"], rows[-1]["element"]] == ["h0", "h*"] and {row["n"] for row in rows} == {12}
    said = read_jsonl(round_ / "03_failure_localization" / "planted" / "mock" / "localized.jsonl")
    failures = read_jsonl(round_ / "03_failure_localization" / "mock" / "failures.jsonl")
    assert [row["turn"] for row in said if row["method"] == "oracle"] == [row["turn"] for row in failures]


def test_h_star_is_never_taken_from_a_control(monkeypatch):
    """Not even from one that scored more on `select`."""
    given = []

    def evolved_harness(stage, unit, task):
        given.append(unit)
        raise StopIteration

    monkeypatch.setattr(results, "evolved_harness", evolved_harness)
    [unit] = build_units(load_profile("full", ROOT))["07_results"]
    with pytest.raises(StopIteration):
        results.collect(SimpleNamespace(units=[unit]))
    assert {source.part for source in unit.inputs} >= {"", "random_edits", "repeats"}
    assert {source.part for source in given[0].inputs} == {""}


def test_the_best_of_many_draws_is_one_episode_an_instance_and_a_success_if_there_was_one(undisturbed):
    folder, _ = undisturbed
    single, best = (
        read_jsonl(next((folder / "outputs").rglob(f"06_evaluation/{arm}/s0/mock/rollouts.jsonl")))
        for arm in ("student_h0", "best_of_n_h0")
    )
    assert [row["instance"] for row in single] == [row["instance"] for row in best] and len(best) == 10
    assert 0 < sum(row["success"] for row in single) < 10
    assert all(row["success"] for row in best), "of two draws in a row one is right"
    assert {row["sample"] for row in best} == {0, 1}


def test_a_task_without_an_expert_is_taught_by_a_chat_model(tmp_path):
    """From a file of one's own, through search, rollouts, localisation, correction and training rows."""
    code, prompts = (ROOT / "coevo_lib" / "tasks" / f"mock.{end}" for end in ("py", "toml"))
    task = tmp_path / "purses.py"
    task.write_text(code.read_text().split("    def expert(")[0].replace('"mock"', '"purses"'))
    task.with_suffix(".toml").write_text(prompts.read_text())
    profile = PROFILE.split("[[arms]]")[0].replace('"mock"', f'"{task}"').replace("n_counterfactual = 2", "")
    arm = '[[arms]]\nname = "corr"\nrows = "correction"\nharness = "hstar"\nloss = "corrected turn"\nmatch = ""\n'
    text, _ = start(tmp_path, profile + arm, "taught").communicate(timeout=120)
    assert text.splitlines()[-1].startswith("rows ['calc(") and text.splitlines()[-1].count("calc(") == 4, text
    [round_] = (tmp_path / "outputs").rglob("r1")
    played = read_jsonl(round_ / "02_rollouts" / "purses" / "rollouts.jsonl")
    teachers = [row for row in played if row["author"] == "expert"]
    assert len(teachers) == 32 and all(row["success"] and row["model"] == "chat model" for row in teachers)
    failures = read_jsonl(round_ / "03_failure_localization" / "purses" / "failures.jsonl")
    assert failures and {row["method"] for row in failures} == {"judge"}
    made = read_jsonl(round_ / "04_correction" / "purses" / "corrections.jsonl")
    assert len(made) == len(failures) and all(row["verified"] and row["text"].startswith("calc(") for row in made)
    assert {row["sentence"] for row in made} == {"All is read."} and any(row["student_succeeds"] for row in made)
    lineage = read_jsonl(round_ / "01_harness_evolution" / "purses" / "s0" / "lineage.jsonl")
    assert {row["kind"] for row in lineage} == {"seed", "failed proposal"}
