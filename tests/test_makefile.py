"""The Makefile says in one line what a target lacks, before anything is set up or run."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="needs make")


def make(*words):
    """What make would do; nothing is carried out. The variables of a make around it, as in `make test`, are kept out."""
    outside = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    command = ["make", "--dry-run", *words]
    return subprocess.run(command, cwd=ROOT, env=outside, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["smoke", "PROFILE=cpu"], "make reproduce PROFILE=cpu"),
        (["check-task"], "make check-task TASK=attendance"),
        (["check-task", "NAME=stock"], "make check-task TASK=attendance"),
        (["new-task", "NAME= "], "make new-task NAME=hives"),
    ],
)
def test_a_target_that_cannot_do_what_was_meant_names_the_command_that_can(words, fix):
    done = make(*words)
    assert done.returncode == 2 and done.stdout == ""
    assert fix in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["smoke"], 'run --profile smoke --round "1"'),
        (["smoke", "PROFILE=smoke", "ROUND=2"], 'run --profile smoke --round "2"'),
        (["status", "PROFILE=my study.toml"], 'status --profile "my study.toml" --round "1"'),
        (["check-task", "TASK=my tasks/hives.py"], 'check_task "my tasks/hives.py"'),
        (["new-task", "NAME=hives"], 'new_task "hives"'),
    ],
)
def test_what_is_given_reaches_the_command(words, command):
    assert make(*words).stdout.rstrip().endswith(command)
