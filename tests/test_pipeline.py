"""Stages 01 to 04 on the mock task with a scripted student: killed with SIGKILL at any moment and run again, they
give the same bytes as a run that nobody killed, and nothing that was answered is asked twice."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coevo_lib.files import read_jsonl

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
# The student reads every box, but adds up wrongly for about half of the prompts; every reply takes a moment.
STUDY = """
import hashlib, re, sys, time
from coevo_lib.cache import CachedEngine, ReplyCache
from coevo_lib.engines.scripted import ScriptedEngine
from coevo_lib.evolution import evolve
from coevo_lib.pipeline import ablate, correct_failures, evaluate, localize_failures, roll_out_train, score_localizers
from coevo_lib.stage import open_stage
from coevo_lib.study import read_failures

def student(request):
    time.sleep(0.02)
    print("asked", flush=True)
    said = [m["content"] for m in request.messages if m["role"] == "assistant"]
    seen = [m["content"] for m in request.messages[2:] if m["role"] == "user"]
    if not said:
        return "boxes()"
    left = [box for box in seen[0].split(", ") if f'open("{box}")' not in said]
    if left:
        return f'open("{left[0]}")'
    if said[-1].startswith("calc"):
        return f"submit({seen[-1]})"
    coins = re.findall(r"\\d+", " ".join(seen[1:]))
    drawn = request.sample if request.temperature else 0
    odd = (int(hashlib.sha256(str(coins).encode()).hexdigest(), 16) + drawn) % 2
    return 'calc("' + "+".join(coins[odd:]) + '")'

profile, cache = sys.argv[1:]
engine = CachedEngine(ScriptedEngine(student), ReplyCache(cache), "scripted")
names = {"profile": profile, "round": 1}
stage = open_stage("01", dict(names)); evolve(stage, engine); stage.close()
stage = open_stage("02", dict(names))
for unit in stage.todo: (ablate if unit.part else roll_out_train)(stage, unit, engine)
stage = open_stage("03", dict(names))
for unit in [u for u in stage.todo if not u.part]: localize_failures(stage, unit)
for unit in stage.todo: score_localizers(stage, unit, engine)
stage = open_stage("04", dict(names))
for unit in stage.todo: correct_failures(stage, unit, read_failures(stage, unit), engine)
stage = open_stage("06", dict(names))
for unit in stage.todo: evaluate(stage, unit, engine)
"""


def start(folder: Path) -> subprocess.Popen:
    profile = folder / "tiny.toml"
    profile.write_text(PROFILE)
    environment = os.environ | {
        "COEVO_OUTPUTS": str(folder / "outputs"),
        "COEVO_HEADLESS": "1",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-c", STUDY, str(profile), str(folder / "replies.sqlite")]
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
    rows = read_jsonl(round_ / "02_rollouts" / "ablation" / "mock" / "ablation.jsonl")
    assert [rows[0]["element"], rows[-1]["element"]] == ["h0", "h*"] and {row["n"] for row in rows} == {12}
    said = read_jsonl(round_ / "03_failure_localization" / "planted" / "mock" / "localized.jsonl")
    failures = read_jsonl(round_ / "03_failure_localization" / "mock" / "failures.jsonl")
    assert [row["turn"] for row in said if row["method"] == "oracle"] == [row["turn"] for row in failures]


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
