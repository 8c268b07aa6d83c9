"""The whole study on the mock task: real student, real training, real kernels; killed, resumed, and repeated."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROFILE = """
tasks = ["mock"]
n_evolve = 8
n_select = 8
n_train = 10
n_test = 8
proposals = 2
minibatch = 6
train_rows = 8
own_rows = 2
epochs = 1
max_turns = 8
"""
ARM = '\n[[arms]]\nname = "{}"\nrows = "{}"\nharness = "{}"\nloss = ""\nmatch = ""\n'
ARMS = (("student_h0", "none", "h0"), ("student_hstar", "none", "hstar"), ("imit_hstar", "expert", "hstar"), ("corr_hstar", "correction", "hstar"))
VOLATILE = re.compile(r"costs\.")  # seconds differ from run to run


def run(profile: Path, outputs: Path, kill_after: str = "") -> str:
    """Runs the study; with `kill_after`, sends SIGKILL to the whole run as soon as that text is printed."""
    environment = os.environ | {"COEVO_OUTPUTS": str(outputs)}
    command = [sys.executable, "-m", "coevo_lib", "run", "--profile", str(profile)]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    seen = ""
    for line in process.stdout:
        seen += line
        if kill_after and kill_after in line:
            time.sleep(3)
            os.killpg(process.pid, signal.SIGKILL)
            break
    process.stdout.close()
    code = process.wait()
    assert kill_after or code == 0, seen
    return seen


def tables(outputs: Path) -> dict[str, bytes]:
    folders = outputs.glob("*/r1/07_results/tables/*.csv")
    return {file.name: file.read_bytes() for file in folders if not VOLATILE.match(file.name)}


@pytest.fixture(scope="module")
def profile(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("profile") / "tiny.toml"
    path.write_text(PROFILE + "".join(ARM.format(*arm) for arm in ARMS))
    return path


def test_a_killed_study_goes_on_and_a_repeat_from_the_cache_gives_equal_tables(profile, tmp_path):
    run(profile, tmp_path / "a", kill_after="02_rollouts")
    done = list((tmp_path / "a").glob("*/r1/01_harness_evolution/*/s0/manifest.json"))
    stamp = done[0].read_bytes()
    finished = run(profile, tmp_path / "a")
    assert done[0].read_bytes() == stamp, "what was complete before the kill is not done again"
    assert "corr_hstar - imit_hstar" in finished
    assert {"table1_success.csv", "table1_contrasts.csv", "table4_edits.csv"} <= set(tables(tmp_path / "a"))
    started = time.monotonic()
    assert "07_results" in run(profile, tmp_path / "a")
    assert time.monotonic() - started < 30, "an unchanged study runs nothing"
    run(profile, tmp_path / "b")
    assert tables(tmp_path / "a") == tables(tmp_path / "b")
