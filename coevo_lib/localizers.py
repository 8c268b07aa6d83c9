"""Other localisers beside the one by expert replay (`localization`), each scored on the same planted failures.

`heuristic` reads signatures only. `counterfactual` asks the student itself, and needs no scripted expert. `judge` asks
a chat model, as the paper does. Each gives one `Failure` per case.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from coevo_lib.agent import replay
from coevo_lib.arithmetic import numbers_in
from coevo_lib.engines.base import Engine, Request
from coevo_lib.expert import calls_left, has_script
from coevo_lib.harness import Harness
from coevo_lib.localization import CLASSES, Failure, classify
from coevo_lib.rollouts import roll_out
from coevo_lib.task import Instance, Task
from coevo_lib.trajectory import OK, Trajectory

TEMPERATURE = 0.7
ANSWER = re.compile(r"turn\D{0,5}(\d+)\W+class\W{0,5}([a-z_]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Case:
    """A failed trajectory and what it was played on."""

    task: Task
    instance: Instance
    harness: Harness
    trajectory: Trajectory

    def named(self, turn: int, method: str, confidence: float, evidence: str = "") -> Failure:
        """The failure at `turn`, its class by rule; without a scripted expert no turn is known to come too early."""
        left = 0
        if has_script(self.task):
            texts = [t.text for t in self.trajectory.turns[:turn]]
            left = calls_left(self.task, self.instance, self.harness, texts)
        kind, seen = classify(self.trajectory, turn, left)
        return Failure(self.instance.key, turn, kind, evidence or seen, method, confidence)


def heuristic(case: Case) -> Failure:
    """The first turn that was not answered, repeats an answered call or holds a number never shown; else the last."""
    seen, answered = set(numbers_in(case.trajectory.prompt)), set()
    for index, turn in enumerate(case.trajectory.turns):
        strange = turn.call and {n for arg in turn.call.args for n in numbers_in(str(arg))} - seen
        if turn.status != OK or turn.call in answered or strange:
            return case.named(index, "heuristic", 0.5)
        answered.add(turn.call)
        seen |= set(numbers_in(turn.observation))
    return case.named(len(case.trajectory.turns) - 1, "heuristic", 0.2, "nothing strange before the end")


def counterfactual(engine: Engine, cases: Sequence[Case], samples: int, max_turns: int) -> list[Failure]:
    """The first turn after which none of the student's sampled continuations succeeds, by halving the trajectory.

    Halving takes for granted that a chance once lost does not come back. `turn` is None where no continuation from the
    very start succeeds: then nothing can be told apart.
    """
    alive = dict.fromkeys(range(len(cases)), 0)  # case -> the longest prefix from which it still succeeds
    dead = {number: len(case.trajectory.turns) for number, case in enumerate(cases)}
    share: dict[int, float] = {}
    for number, chance in zip(alive, _chances(engine, [(case, 0) for case in cases], samples, max_turns)):
        share[number] = chance
        if not chance:
            dead[number] = 0
    while open_ones := [number for number in alive if dead[number] - alive[number] > 1]:
        middles = {number: (alive[number] + dead[number]) // 2 for number in open_ones}
        tried = [(cases[number], middles[number]) for number in open_ones]
        for number, chance in zip(open_ones, _chances(engine, tried, samples, max_turns)):
            if chance:
                alive[number], share[number] = middles[number], chance
            else:
                dead[number] = middles[number]
    return [_lost(case, alive[n], share[n]) for n, case in enumerate(cases)]


def _lost(case: Case, turn: int, chance: float) -> Failure:
    if not chance:
        return Failure(case.instance.key, None, "other", "never succeeds from the start", "counterfactual", 0.0)
    return case.named(turn, "counterfactual", chance, f"{chance:.0%} of its continuations succeed before, none after")


def _chances(engine: Engine, prefixes: Sequence[tuple[Case, int]], samples: int, max_turns: int) -> list[float]:
    """Share of sampled continuations that succeed, for each (case, number of turns kept); faults do not count."""

    def job(case: Case, kept: int, sample: int):
        texts = [turn.text for turn in case.trajectory.turns[:kept]]
        return lambda: replay(case.task, case.instance, case.harness, texts, max_turns=max_turns, sample=sample)

    jobs = [job(case, kept, sample) for case, kept in prefixes for sample in range(samples)]
    ends = [episode.trajectory for episode in roll_out(engine, jobs, temperature=TEMPERATURE)]
    groups = [ends[start : start + samples] for start in range(0, len(ends), samples)]
    whole = [[t.success for t in group if t.status != "fault"] for group in groups]
    return [sum(group) / len(group) if group else 0.0 for group in whole]


def judge(engine: Engine, cases: Sequence[Case]) -> list[Failure]:
    """A chat model reads each trajectory and names turn and class; an unreadable answer goes back once.

    `turn` is None where the second answer cannot be read either.
    """
    asked = [_question(case) for case in cases]
    first = [engine.submit(Request(tuple(messages), max_tokens=200)) for messages in asked]
    found = []
    for case, messages, future in zip(cases, asked, first):
        text = future.result().text
        answer, fault = _read(text, case)
        if fault:
            again = [*messages, {"role": "assistant", "content": text}, {"role": "user", "content": fault}]
            answer, fault = _read(engine.submit(Request(tuple(again), max_tokens=200)).result().text, case)
        turn, kind = answer or (None, "other")
        found.append(Failure(case.instance.key, turn, kind, fault or "said so", "judge", 0.0 if fault else 0.5))
    return found


def _question(case: Case) -> list[dict]:
    lines = [f"Turn {n}: {t.text.strip()}\n  -> {t.observation}" for n, t in enumerate(case.trajectory.turns, 1)]
    system = (
        "An agent failed at a task. Find the first turn that made it fail, and say which kind of mistake it was: "
        f"{', '.join(CLASSES)}. Answer with one line: turn: <number>, class: <word>"
    )
    text = f"Task: {case.trajectory.prompt}\n\n" + "\n".join(lines) + f"\n\nVerdict: {case.trajectory.feedback}"
    return [{"role": "system", "content": system}, {"role": "user", "content": text}]


def _read(text: str, case: Case) -> tuple[tuple[int, str] | None, str]:
    """((turn, class), "") of an answer, or (None, what is wrong with it)."""
    if not (found := ANSWER.search(text)):
        return None, "Not readable. Answer with one line: turn: <number>, class: <word>"
    turn, kind, last = int(found[1]) - 1, found[2].lower(), len(case.trajectory.turns)
    if not 0 <= turn < last:
        return None, f"turn: {turn + 1} is not one of 1 to {last}"
    return ((turn, kind), "") if kind in CLASSES else (None, f"class: {kind} is not one of {', '.join(CLASSES)}")
