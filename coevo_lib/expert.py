"""Experts: who shows the right next call for a live episode, and says in one sentence why.

`ScriptedExpert` drives a task's own `expert` method with the two declared parameters of rule 3; a task without one
takes a chat model (`chat_expert`). The helpers at the end are the shared moves of read-then-compute tasks. A scripted
expert sees a `View` (prompt values and answers so far), never the world (rule 2).
"""

import random
from dataclasses import dataclass
from typing import Protocol

from coevo_lib.agent import Episode, expert_text, replay
from coevo_lib.arithmetic import evaluate
from coevo_lib.calls import Call
from coevo_lib.errors import UserError
from coevo_lib.files import stable_seed
from coevo_lib.harness import Harness
from coevo_lib.task import Instance, Style, Task, View
from coevo_lib.trajectory import OK, Trajectory

BLOCK = 20  # instances over which shares of styles are exact
LOST = 10_000  # calls still needed where no way leads to success
FAR = 60  # calls after which a way counts as none
STYLES = (Style(persistent=True), Style(), Style(direct=True))

Step = tuple[Call, str]  # the next call, and why


class Expert(Protocol):
    """What the study asks of an expert, scripted or not."""

    def next(self, episode: Episode) -> Step | None:
        """The next call and one sentence why; None where it knows no way on."""

    def candidates(self, episode: Episode, most: int, failed: str = "") -> list[Step]:
        """Up to `most` different next calls, its own choice first. `failed`: what went wrong when another was made."""

    def calls_left(self, task: Task, instance: Instance, harness: Harness, texts: list[str]) -> int:
        """How many calls it still needs for success after these replies; LOST where it gets there no more."""


@dataclass(frozen=True)
class ScriptedExpert:
    """A teacher by construction; its success is no evidence.

    directness: share of episodes in which it batches calls and computes in its head.
    persistence: share of episodes in which it continues somebody else's plan.
    """

    directness: float = 0.5
    persistence: float = 1.0
    seed: int = 0

    def __post_init__(self):
        for field in ("directness", "persistence"):
            if not 0 <= getattr(self, field) <= 1:
                raise UserError(f"profile: {field}: {getattr(self, field)} is not between 0 and 1")

    def style(self, episode: Episode) -> Style:
        """This expert's way of working on an episode as it stands; fixed by seed and instance."""
        key = episode.instance.key
        foreign = bool(episode.turns) and episode.trajectory.author == "student"
        if foreign and self._draw(key, "persistent") < self.persistence:
            return Style(direct=False, persistent=True)
        return Style(direct=self._draw(key, "direct") < self.directness, persistent=False)

    def _draw(self, key: str, what: str) -> float:
        """Between 0 and 1; evenly spread over every block of 20 instances, so that shares hold exactly."""
        split, index = key.rsplit("/", 1)
        block, place = divmod(int(index), BLOCK)
        order = random.Random(stable_seed(self.seed, split, block, what)).sample(range(BLOCK), BLOCK)
        return (order[place] + 0.5) / BLOCK

    def next(self, episode: Episode) -> Step | None:
        return episode.task.expert(view_of(episode), self.style(episode))

    def candidates(self, episode: Episode, most: int, failed: str = "") -> list[Step]:
        """What this expert writes, then what it would write in the student's plan, step by step, and in its head."""
        view, found = view_of(episode), {}
        for style in [self.style(episode), *STYLES]:
            step = episode.task.expert(view, style) if len(found) < most else None
            if step:
                found.setdefault(step[0], step)
        return list(found.values())

    def calls_left(self, task: Task, instance: Instance, harness: Harness, texts: list[str]) -> int:
        """Counted in the student's plan, whatever this expert's own style."""
        return calls_left(task, instance, harness, texts)


def calls_left(task: Task, instance: Instance, harness: Harness, texts: list[str]) -> int:
    """How many calls the scripted expert, continuing this plan, still needs for success; LOST where there is no way."""
    expert, episode = (
        ScriptedExpert(directness=0.0, persistence=1.0),
        replay(task, instance, harness, texts, max_turns=len(texts) + FAR),
    )
    if episode.world.finished:
        return 0 if episode.trajectory.success else LOST
    for needed in range(1, FAR):
        step = expert.next(episode)
        if step is None or episode.step(expert_text(step[0], harness)).status != OK:
            return LOST
        if episode.world.finished:
            return needed if episode.trajectory.success else LOST
    return LOST


def view_of(episode: Episode) -> View:
    """What an expert may know of a live episode: answers that the context rule removed are not among it."""
    toolbox = episode.toolbox
    composites = {(c.first, c.each): c.name for c in toolbox.composites.values() if c.name in toolbox.visible}
    keep = episode.harness.context.keep
    shown = episode.turns[-keep:] if keep else episode.turns
    facts = [fact for turn in shown for fact in turn.facts]
    return View(episode.instance.goal, facts, frozenset(toolbox.visible), composites)


def play_expert(expert: Expert, episode: Episode) -> Trajectory:
    """Lets the expert finish the episode from wherever it stands; stops when it knows no way on."""
    if not episode.turns:
        episode.trajectory.author = "expert"
        episode.trajectory.model = "expert" if isinstance(expert, ScriptedExpert) else "chat model"
    while not episode.done:
        step = expert.next(episode)
        if step is None:
            break
        turn = episode.step(expert_text(step[0], episode.harness))
        if turn.status != "ok":
            break
    return episode.trajectory


def has_script(task: Task) -> bool:
    """Whether the task brings a scripted expert."""
    return type(task).expert is not Task.expert


def require_expert(task: Task, chat: bool) -> None:
    """Refuses a task for which there is neither a scripted expert nor a chat model."""
    if not has_script(task) and not chat:
        raise UserError(
            f"{task.file}: {type(task).__name__} has no scripted expert; write expert(self, view, style) in it, or name a "
            "chat model as expert in the profile: chat_url and chat_model"
        )


# ---- shared moves of tasks that list, read each, compute, submit


def read_all(view: View, style: Style, first: Call, each: str) -> tuple[Call, str] | None:
    """The next reading call until every item that `first` lists was read by `each`; None when done."""
    items = view.answers(first.tool).get(first.args)
    missing = None if items is None else [i for i in items if (i,) not in view.answers(each)]
    if missing == []:
        return None
    composite = view.composites.get((first.tool, each))
    begun = items is not None and style.persistent
    singly = {first.tool, each} <= view.tools and (begun or not style.direct)
    if composite and not singly:
        return Call(composite, first.args), "One call reads them all."
    if items is None:
        return first, "First see which ones there are."
    return Call(each, (missing[0],)), f"{missing[0]} is not read yet."


def conclude(view: View, style: Style, expression: str, why: str) -> tuple[Call, str]:
    """Computes and submits: by the calculator step by step, or in the head when direct."""
    value = evaluate(expression)
    if style.direct or "calc" not in view.tools or view.last("calc") == value:
        return Call("submit", (value,)), f"{why} The result is {value:g}."
    return Call("calc", (expression,)), f"{why} Now the sum."
