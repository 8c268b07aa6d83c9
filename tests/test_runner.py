"""The command line runs what is stale in a kernel of its own, skips the rest, and says what went wrong."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from toy_project import PARAMETERS, PROFILE, WORK, finish, make_project, write, write_notebook

LIBRARY = Path(__file__).resolve().parents[1]
OPENING = 'from coevo_lib.stage import open_stage\nstage = open_stage("02_rollouts", globals())'


def command(*words):
    return [sys.executable, "-P", "-m", "coevo_lib", *words]


def environment():
    return {**os.environ, "PYTHONPATH": str(LIBRARY)}


def coevo(root, *words):
    return subprocess.run(
        command(*words), cwd=root, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def root(tmp_path):
    return make_project(tmp_path, importing=False)


def executed(root, stage):
    return root / ".cache" / "executed" / "cpu" / "r1" / f"{stage}.ipynb"


def test_only_what_is_stale_is_executed(root):
    finish(root)
    (root / "outputs/cpu/r1/02_rollouts/beta/manifest.json").unlink()
    done = coevo(root, "run")
    assert done.returncode == 0, done.stderr
    assert "02_rollouts              1 of 2 units to do: beta (not finished)" in done.stdout
    assert "2 units complete" in done.stdout, "what the notebook prints is shown while it runs"
    assert "outputs/cpu/r1/07_results/tables" in done.stdout
    assert [path.stem for path in executed(root, "x").parent.iterdir()] == ["02_rollouts"]

    started = time.monotonic()
    again = coevo(root, "run")
    assert time.monotonic() - started < 10
    assert again.stdout.count("fresh (") == 7 and again.returncode == 0

    told = coevo(root, "report")
    assert "report/cpu/index.html" in told.stdout
    assert "Why?" in (root / "report" / "cpu" / "index.html").read_text(encoding="utf-8")


def test_the_tour_is_executed_once(root):
    finish(root)
    write_notebook(root, "00_tour", ["print('welcome')"], "tasks = []")
    assert "welcome" in coevo(root, "run").stdout
    assert "00_tour                  fresh" in coevo(root, "run").stdout


def test_status_names_the_reason_and_what_waits_for_it(root):
    finish(root)
    write(root / "coevo_lib" / "tasks" / "alpha.py", "NAME = 'new'\n")
    assert coevo(root, "force", "05").returncode == 0
    lines = coevo(root, "status").stdout.splitlines()
    assert any("02_rollouts/alpha" in line and "task file" in line for line in lines)
    assert any("02_rollouts/beta" in line and "fresh" in line for line in lines)
    assert any("05_training/corr/s0" in line and "not finished" in line for line in lines)


def test_mistakes_end_with_status_2_and_one_line_before_any_kernel(root):
    write(root / "notebooks" / "profiles" / "cpu.toml", "max_turn = 3")
    for words in (["run"], ["run", "--profile", "gpu"], ["force", "nothing"]):
        done = coevo(root, *words)
        assert done.returncode == 2
        assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
        assert not (root / ".cache" / "executed").exists()


@pytest.mark.parametrize("words", [["run", "--round", "two"], ["nothing"], [], ["force"]])
def test_words_that_are_not_understood_are_answered_in_one_line(root, words):
    done = coevo(root, *words)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: ") and "--help" in done.stderr


@pytest.mark.parametrize("words", [["coevo_lib", "status"], ["coevo_lib", "lint"], ["coevo_lib.new_task", "hives"]])
@pytest.mark.parametrize("buffered", [True, False])
def test_a_reader_that_goes_early_is_no_error_to_speak_of(root, words, buffered):
    profiles = root / "notebooks" / "profiles"
    (profiles / "smoke.toml").write_bytes((profiles / "cpu.toml").read_bytes())
    settings = {**environment(), "PYTHONUNBUFFERED": "" if buffered else "1"}
    run = subprocess.Popen(
        [sys.executable, "-P", "-m", *words], cwd=root, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    run.stdout.close()
    assert run.stderr.read() == b"" and run.wait() == 141


def test_a_task_without_an_expert_is_refused_before_anything_runs(root):
    """Unless the profile names a chat model."""
    task = write(root / "coevo_lib" / "tasks" / "beta.py", "class Beta(Task):\n    def draw(self):\n        pass\n")
    done = coevo(root, "run")
    assert done.returncode == 2 and "beta.py: Beta has no scripted expert; write expert(self" in done.stderr
    assert "chat_url and chat_model" in done.stderr and not executed(root, "01_harness_evolution").exists()
    write_notebook(root, "04_correction", ["pass"], PARAMETERS["04_correction"] + '\nchat_url = ""\nchat_model = ""')
    write(root / "notebooks" / "profiles" / "cpu.toml", 'chat_url = "http://x/v1"\nchat_model = "m"\n' + PROFILE)
    assert coevo(root, "status").returncode == 0
    write(root / "notebooks" / "profiles" / "cpu.toml", PROFILE)
    write(task, "class Beta(Task):\n    def expert(self, view, style):\n        pass\n")
    assert coevo(root, "status").returncode == 0


def test_a_stage_run_alone_names_what_it_lacks(root):
    done = coevo(root, "run", "--stage", "rollouts")
    assert done.returncode == 2 and "make evolution PROFILE=cpu" in done.stderr


@pytest.mark.parametrize(
    ("cell", "status", "words"),
    [
        ("1 / 0", 1, ("ZeroDivisionError", "----> 1")),
        ("from coevo_lib.errors import UserError\nraise UserError('x.toml: mend it')", 2, ("error: x.toml: mend it",)),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", 1, ("died",)),
        ("pass", 1, ("still stale", "never run")),
    ],
)
def test_a_failing_notebook_says_why_and_where_its_cells_are(root, cell, status, words):
    finish(root, stages=["01_harness_evolution"])
    write_notebook(root, "02_rollouts", [OPENING, cell])
    done = coevo(root, "run", "--stage", "02_rollouts")
    assert done.returncode == status
    assert all(word in done.stderr for word in words), done.stderr
    if cell != "pass":
        assert ".cache/unfinished/cpu/r1/02_rollouts.ipynb" in done.stderr


@pytest.mark.parametrize("end", ["1 / 0", "import os, signal\n    os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_notebook_that_stops_after_writing_its_units_runs_until_it_comes_to_its_end(root, end):
    finish(root)
    refuses = write(root / "refuses", "")
    check = f"from pathlib import Path\nif Path({str(refuses)!r}).exists():\n    {end}"
    imports = "from coevo_lib.files import write_text_atomic"
    write_notebook(root, "02_rollouts", [f"{imports}\n{OPENING}", WORK, "stage.close()", check])
    finish(root, stages=["01_harness_evolution"])
    assert coevo(root, "run").returncode == 1
    written = [path.read_bytes() for path in sorted((root / "outputs/cpu/r1/02_rollouts").rglob("*.*"))]

    lines = dict(line.split(maxsplit=1) for line in coevo(root, "status").stdout.splitlines())
    reason = "stale  its notebook did not come to its end: .cache/unfinished/cpu/r1/02_rollouts.ipynb"
    assert lines["02_rollouts/alpha"] == lines["02_rollouts/beta"] == reason
    assert lines["03_failure_localization/alpha"] == "waits  reads 02_rollouts/alpha"
    again = coevo(root, "run")
    assert again.returncode == 1 and "02_rollouts              did not come to its end: again (2 units)" in again.stdout
    assert not executed(root, "02_rollouts").exists()

    refuses.unlink()
    assert coevo(root, "run").returncode == 0
    assert written == [path.read_bytes() for path in sorted((root / "outputs/cpu/r1/02_rollouts").rglob("*.*"))]
    assert executed(root, "02_rollouts").is_file() and coevo(root, "run").stdout.count("fresh (") == 7


def test_a_report_holds_only_what_came_to_its_end(root):
    finish(root)
    shown = executed(root, "02_rollouts")
    failed = root / ".cache" / "unfinished" / "cpu" / "r1" / "02_rollouts.ipynb"
    for path, words in ((shown, "before"), (failed, "Unhappily")):
        write(path, (root / "notebooks" / "02_rollouts.ipynb").read_text(encoding="utf-8").replace("Next.", words))
    told = coevo(root, "report")
    assert "note: 02_rollouts did not come to its end; run it again: make reproduce PROFILE=cpu" in told.stdout
    index = (root / "report" / "cpu" / "index.html").read_text(encoding="utf-8")
    assert "02_rollouts did not come to its end the last time" in index
    page = (root / "report" / "cpu" / "r1" / "02_rollouts.html").read_text(encoding="utf-8")
    assert "before" in page and "Unhappily" not in page


def test_status_of_a_second_round_lists_its_units_and_says_what_they_wait_for(root):
    write(root / "notebooks" / "profiles" / "cpu.toml", f'carry_arm = "corr"\n{PROFILE}')
    again = "--round", "2"
    finish(root, stages=list(PARAMETERS)[:4])
    lines = coevo(root, "status", *again).stdout.splitlines()
    assert len(lines) == 18 and all("  waits  reads " in line for line in lines[:-2])
    assert "waits  reads r1/05_training/corr/s0" in lines[0] and "round 2: 0 of 16 units fresh" in lines[-2]
    why = "round 2 waits for outputs/cpu/r1/05_training/corr/s0, which is stale (never run); "
    assert lines[-1] == f"{why}first run: make reproduce PROFILE=cpu"
    for words in (["run"], ["run", "--stage", "01"]):
        done = coevo(root, *words, *again)
        assert done.returncode == 2 and done.stderr.count("\n") == 1
        assert "r1/05_training/corr/s0" in done.stderr and "make reproduce PROFILE=cpu" in done.stderr

    finish(root)
    lines = coevo(root, "status", *again).stdout.splitlines()
    assert len(lines) == 17 and all("  stale  never run" in line for line in lines[:-1])
    write(root / "outputs/cpu/r1/02_rollouts/alpha/rollouts.jsonl", "edited")
    assert "r1/02_rollouts/alpha, which is stale (outputs not as written" in coevo(root, "run", *again).stderr


def test_a_second_round_runs_and_leaves_the_first_alone(root):
    write(root / "notebooks" / "profiles" / "cpu.toml", f'carry_arm = "corr"\n{PROFILE}')
    finish(root)
    done = coevo(root, "run", "--round", "2", "--stage", "01")
    assert done.returncode == 0, done.stderr
    assert (root / "outputs/cpu/r2/01_harness_evolution/alpha/s0/manifest.json").is_file()
    assert "0 of 14" not in coevo(root, "status", "--round", "2").stdout
    assert coevo(root, "run").stdout.count("fresh (") == 7


def test_no_kernel_outlives_a_killed_run(root):
    finish(root, stages=["01_harness_evolution"])
    waiting = f"""import os, pathlib, time
with stage.writing(stage.todo[0]):
    pathlib.Path({str(root / "pid")!r}).write_text(str(os.getpid()))
    time.sleep(60)"""
    write_notebook(root, "02_rollouts", [OPENING, waiting])
    run = subprocess.Popen(command("run", "--stage", "02_rollouts"), cwd=root, env=environment())
    assert _eventually(lambda: (root / "pid").is_file() and (root / "pid").read_text())
    other = coevo(root, "run", "--stage", "02_rollouts")
    assert other.returncode == 2 and "already running" in other.stderr
    run.send_signal(signal.SIGKILL)
    run.wait()
    kernel = int((root / "pid").read_text())
    assert _eventually(lambda: not _alive(kernel))
    assert "stale  not finished" in coevo(root, "status").stdout


def _eventually(condition, seconds=40):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.1)
    return False


def _alive(process):
    state = Path(f"/proc/{process}/stat")
    if sys.platform == "linux":
        return state.is_file() and state.read_text().rpartition(")")[2].split()[0] != "Z"
    return subprocess.run(["ps", "-p", str(process)], capture_output=True, check=False).returncode == 0
