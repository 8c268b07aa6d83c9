"""Failure localisation: the first turn of a failed trajectory that went wrong, and its class.

By expert replay: the world is replayed turn by turn, and after each turn the scripted expert, continuing the student's
plan, counts the calls still needed. The failing turn is the first that no style of the expert would make: it
brings the end no nearer, or it leaps over calls that are needed and is no expert's own leap. Tables call it `oracle`;
the others are in `localizers`.
"""

from dataclasses import dataclass

from coevo_lib.agent import replay
from coevo_lib.arithmetic import numbers_in
from coevo_lib.expert import FAR, STYLES, ScriptedExpert, calls_left
from coevo_lib.harness import Harness
from coevo_lib.task import Instance, Task
from coevo_lib.trajectory import ERROR, MALFORMED, OK, REFUSED, Trajectory

CLASSES = ("tool_use", "instruction_following", "knowledge", "long_context", "planning", "other")


@dataclass(frozen=True)
class Failure:
    """Where and how a trajectory failed. `turn` is None when no single turn can be blamed."""

    instance: str
    turn: int | None
    failure_class: str
    evidence: str
    method: str = "oracle"
    confidence: float = 1.0


def localize(task: Task, instance: Instance, harness: Harness, trajectory: Trajectory) -> Failure:
    """The failing turn of a failed trajectory and its class (one of CLASSES, the paper's six)."""
    texts = [turn.text for turn in trajectory.turns]
    before = calls_left(task, instance, harness, [])
    for turn in range(len(texts)):
        after = calls_left(task, instance, harness, texts[: turn + 1])
        if after >= before or after < before - 1 and not _own(task, instance, harness, texts[:turn], texts[turn]):
            kind, evidence = classify(trajectory, turn, before)
            return Failure(instance.key, turn, kind, evidence)
        before = after
    return Failure(instance.key, None, "other", f"ran out of turns with {before} calls to go")


def _own(task: Task, instance: Instance, harness: Harness, texts: list[str], text: str) -> bool:
    """Whether an expert of some style would make this call here."""
    episode = replay(task, instance, harness, [*texts, text], max_turns=len(texts) + FAR)
    call = episode.turns[-1].call
    before = replay(task, instance, harness, texts, max_turns=len(texts) + FAR)
    return call in [step[0] for step in ScriptedExpert().candidates(before, most=len(STYLES) + 1)]


def classify(trajectory: Trajectory, index: int, left: int) -> tuple[str, str]:
    """(class, evidence) of a failing turn; `left` calls were needed before it.

    malformed: instruction following. Tool error: tool use. Refused, repeated, or before its time: planning.
    All was read and the numbers are right but the sum is not: knowledge. Numbers miscopied: long context.
    """
    turn = trajectory.turns[index]
    earlier = trajectory.turns[:index]
    if turn.status == MALFORMED:
        return "instruction_following", f"no readable call: {turn.text[:80]!r}"
    if turn.status == ERROR:
        return "tool_use", turn.observation
    if turn.status == REFUSED:
        return "planning", turn.observation
    if any(turn.call == other.call and other.status == OK for other in earlier):
        return "planning", f"repeats {turn.text.strip()}"
    if left > 2:
        return "planning", f"{turn.call.tool} while {left} calls are still needed"
    seen = set(numbers_in("\n".join([trajectory.prompt, *(t.observation for t in earlier)])))
    strange = [f"{n:g}" for arg in turn.call.args for n in numbers_in(str(arg)) if n not in seen]
    if left == 2 and not any(isinstance(arg, str) for arg in turn.call.args):
        return "planning", "submits without working it out"
    if strange:
        return "long_context", f"{', '.join(strange)} stands nowhere above"
    return "knowledge", "all was read, but what is computed from it is wrong"
