"""Planted failures: a success of the student, damaged in one known turn, is the truth that localisers are scored on.

The damages are in `damages`. The student goes on by itself after the damaged turn; what then fails is kept, with its
turn and class. How often it recovers is counted, since an easily mended damage leaves few failures to score.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from coevo_lib.agent import expert_text, replay
from coevo_lib.damages import DAMAGES, Success
from coevo_lib.engines.base import Engine
from coevo_lib.files import stable_seed
from coevo_lib.localization import Failure
from coevo_lib.rollouts import roll_out
from coevo_lib.trajectory import Trajectory

PLANTED = tuple(damage.__name__ for damage in DAMAGES)
DRAWS = 6  # turns tried for one class in one success
SPARE = 1.3  # plantings played for each failure that is still wanted


@dataclass(frozen=True)
class Planting:
    """One turn of a success and the text that takes its place; `failure_class` is one of PLANTED."""

    success: Success
    failure_class: str
    turn: int
    text: str

    @property
    def original(self) -> str:
        return self.success.texts[self.turn]


@dataclass(frozen=True)
class Planted(Planting):
    """A planting after which the student failed, and what it played."""

    trajectory: Trajectory

    def to_json(self) -> dict:
        """A line of planted.jsonl."""
        names = {"key": self.trajectory.instance, "class": self.failure_class, "turn": self.turn}
        return {**names, "original": self.original, "text": self.text, **self.trajectory.to_json(), "planted": True}


class Outcome(NamedTuple):
    """The failures that plantings led to; the plantings that recovered; those that ended in a fault."""

    planted: list[Planted]
    recovered: list[Planting]
    faults: list[Planting]


def plantings(success: Success, seed: int) -> list[Planting]:
    """One planting of every class that is possible in this success, its turn drawn evenly."""
    made = [_plant(success, damage, seed) for damage in DAMAGES]
    return [planting for planting in made if planting]


def _plant(success: Success, damage: Callable, seed: int) -> Planting | None:
    key, name = success.trajectory.instance, damage.__name__
    rng = random.Random(stable_seed("planting", seed, key, success.trajectory.sample, name))
    for n in rng.sample(success.answered, len(success.answered)):
        made = damage(success, n, rng)
        if made is None:
            continue
        text = made if isinstance(made, str) else expert_text(made, success.harness)
        if success.replay([*success.texts[:n], text]).turns[n].call != success.calls[n]:  # else the harness mends it
            return Planting(success, name, n, text)
    return None


def play_plantings(engine: Engine, plantings: list[Planting], max_turns: int) -> Outcome:
    """Lets the student go on from each damaged turn; keeps the episodes that then fail."""

    def job(made: Planting):
        played = made.success
        texts = [*played.texts[: made.turn], made.text]
        return lambda: replay(played.task, played.instance, played.harness, texts, max_turns=max_turns)

    ends = [episode.trajectory for episode in roll_out(engine, [job(made) for made in plantings])]
    whole = [(made, end) for made, end in zip(plantings, ends) if end.status != "fault"]
    failed = [Planted(**vars(made), trajectory=end) for made, end in whole if not end.success]
    recovered = [made for made, end in whole if end.success]
    return Outcome(failed, recovered, [made for made, end in zip(plantings, ends) if end.status == "fault"])


def plant_failures(
    engine: Engine, successes: list[Success], wanted: int, max_turns: int
) -> tuple[list[Planted], list[dict]]:
    """Plants until every class has `wanted` failures, or until the successes offer nothing new.

    Returns the failures, at most `wanted` a class, and per class {class, possible, played, recovered, faults, kept}.
    """
    open_ones: dict[str, list[Planting]] = {name: [] for name in PLANTED}
    for made in _distinct(plantings(success, seed) for seed in range(DRAWS) for success in successes):
        open_ones[made.failure_class].append(made)
    counts = {name: {"class": name, "possible": len(open_ones[name]), "played": 0} for name in PLANTED}
    for count in counts.values():
        count |= {"recovered": 0, "faults": 0, "kept": 0}
    kept: list[Planted] = []
    while batch := _next_batch(open_ones, counts, wanted):
        outcome = play_plantings(engine, batch, max_turns)
        for made in batch:
            counts[made.failure_class]["played"] += 1
        for name, found in (("recovered", outcome.recovered), ("faults", outcome.faults)):
            for made in found:
                counts[made.failure_class][name] += 1
        for made in outcome.planted:
            if counts[made.failure_class]["kept"] < wanted:
                counts[made.failure_class]["kept"] += 1
                kept.append(made)
    return kept, list(counts.values())


def _distinct(groups) -> list[Planting]:
    """Without those that damage the same turn of the same success to the same text."""
    found = {}
    for made in (made for group in groups for made in group):
        found.setdefault((id(made.success), made.failure_class, made.turn, made.text), made)
    return list(found.values())


def _next_batch(open_ones: dict[str, list[Planting]], counts: dict[str, dict], wanted: int) -> list[Planting]:
    batch = []
    for name, left in open_ones.items():
        n = round(SPARE * (wanted - counts[name]["kept"]))
        batch += left[:n]
        del left[:n]
    return batch


def judge(planted: Sequence[Planted], failures: Sequence[Failure]) -> list[dict]:
    """Rows {method, task, class, planted, found, named}: which turn was damaged, which turn and class a localiser named.

    failures: what it said of each trajectory; `found` is None where it names no turn.
    """
    return [
        {"method": failure.method, "task": made.trajectory.task, "class": made.failure_class,
         "planted": made.turn, "found": failure.turn, "named": failure.failure_class}
        for made, failure in zip(planted, failures, strict=True)
    ]  # fmt: skip


def first_of_each(planted: Sequence[Planted], n: int) -> Iterator[Planted]:
    """The first n of every class, in their order: for localisers that cost too much to see them all."""
    seen: Counter = Counter()
    for made in planted:
        seen[made.failure_class] += 1
        if seen[made.failure_class] <= n:
            yield made
