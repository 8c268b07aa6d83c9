"""What a person reads of a task on trial: a line a check, one instance, and the expert's trajectory on it."""

import contextlib
import shutil
import textwrap
from typing import NamedTuple

from coevo_lib.agent import Episode, expert_text
from coevo_lib.expert import ScriptedExpert
from coevo_lib.harness import Harness
from coevo_lib.task import Task
from coevo_lib.trial import MAX_TURNS

NO_EXPERT = "no scripted expert: a chat model has to teach; name it in the profile, chat_url and chat_model"


class Check(NamedTuple):
    name: str
    ok: bool
    detail: str
    last: bool = False  # it failed in a way that leaves nothing to the further ones


def report(checks: list[Check]) -> str:
    lines = [_wrapped(f"{check.name}: {check.detail}", "ok      " if check.ok else "FAILED  ") for check in checks]
    failed = sum(not check.ok for check in checks)
    end = f"{failed} of {len(checks)} checks failed" if failed else f"all {len(checks)} checks passed"
    if checks[-1].last:
        end = "the further checks rest on this one"
    return "\n".join([*lines, "", end])


def show(task: Task) -> str:
    """One instance as the student sees it, and the expert's trajectory on it, turn by turn."""
    [instance] = task.instances("train", 1)
    episode, expert = Episode(task, instance, Harness(), max_turns=MAX_TURNS), ScriptedExpert(directness=0.0)
    episode.trajectory.author = "expert"
    lines = [f"One instance, {instance.key}, as the student sees it under h0", ""]
    lines += [_wrapped(episode.system, "  system  "), _wrapped(instance.prompt, "  user    "), ""]
    if type(task).expert is Task.expert:
        return "\n".join([*lines, NO_EXPERT])
    lines.append("The expert's trajectory, step by step")
    with contextlib.suppress(Exception):  # a check has told what the expert raises
        while not episode.done and (step := expert.next(episode)):
            turn = episode.step(expert_text(step[0], episode.harness))
            said = f"{turn.text}\nwhy: {step[1]}\n-> {turn.observation}"
            lines += ["", _wrapped(said, f"  {len(episode.turns):>4}  ")]
    result = "success" if episode.trajectory.success else "failure"
    return "\n".join(
        [*lines, "", f"  {len(episode.turns)} turns, {result}: {episode.trajectory.feedback or 'no next call'}"]
    )


def _wrapped(text: str, head: str) -> str:
    """Text within the terminal's width; its own lines and its further ones stand under the first."""
    width = min(max(shutil.get_terminal_size((100, 24)).columns, 80), 120) - len(head)
    lines = "\n".join(textwrap.fill(line, width) for line in text.split("\n"))
    return head + lines.replace("\n", "\n" + " " * len(head))
