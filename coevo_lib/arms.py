"""Arms: which rows each trained arm gets. An arm is a row of the profile's table; no name is parsed.

`rows` says whose work is kept: `expert` (its whole successes under the arm's harness: imitation),
`correction` (one rewritten turn at the failing turn), `random_turn` (the same at a random turn), `oec` (all turns of
the expert from a random turn on: on-policy expert corrections of Lauffer et al., arXiv 2512.14895), `own`
(the student's successes alone). Imitation and corrections are mixed with a few own successes, as in the
paper. All arms of a contrast use one expert (rule 3).

Work on failures is drawn first from the boundary of what the student can do (paper, stage D): instances on which it fails,
and succeeds once one turn is corrected. `choice` says which of several candidates a correction arm keeps.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from coevo_lib.agent import replay
from coevo_lib.correction import candidates, random_turn
from coevo_lib.errors import UserError
from coevo_lib.expert import Expert, ScriptedExpert, play_expert
from coevo_lib.files import stable_seed
from coevo_lib.harness import Harness
from coevo_lib.localization import Failure
from coevo_lib.rollouts import expert_episodes
from coevo_lib.rows import whole_rows
from coevo_lib.stages import UNTRAINED
from coevo_lib.task import Instance, Task
from coevo_lib.trajectory import Trajectory

HARNESSES = ("h0", "hstar")
ON_FAILURES = ("correction", "random_turn", "oec")
FIRST, LIKELIEST = CHOICES = (
    "first",
    "student_likelihood",
)  # the expert's own; the verified one likeliest to the student
Score = Callable[[list[dict]], list[float]]  # the student's mean loss on the trained tokens of each row


@dataclass
class Material:
    """What one task offers for training: its `train` instances, harnesses, and what the student did on them.

    expert: the profile's for this task. boundary: the instances on which the student succeeds once its failing turn is
    corrected.
    """

    task: Task
    instances: dict[str, Instance]
    harnesses: dict[str, Harness]
    rollouts: dict[str, list[Trajectory]]
    failures: dict[str, Failure]
    max_turns: int
    expert: Expert
    boundary: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Quota:
    """Rows of an arm: `rows` of its own kind and `own` successes of the student, in all tasks together."""

    rows: int
    own: int


def arm_rows(
    arm: dict,
    materials: list[Material],
    quota: Quota,
    seed: int,
    score: Score = lambda rows: [0.0] * len(rows),
) -> list[dict]:
    """The training rows of one arm, shuffled by seed; equal shares a task, as far as there are enough.

    Where the arm has another one `matched`, so many of them as carry loss on as much text as that one's rows do.
    `score` is asked where the arm's `choice` is the candidate likeliest to the student.
    """
    share, own = -(-quota.rows // len(materials)), -(-quota.own // len(materials))
    rows: list[dict] = []
    for material in materials:
        main, first = BUILDERS[arm["rows"]](arm, material, score), frozenset()
        if arm["rows"] in ON_FAILURES:
            first = material.boundary
        number = share if arm["rows"] != "own" else share + own
        rows += _draw(main, number, seed, f"{arm['rows']} {material.task.name}", first)
        if arm["rows"] != "own":
            rows += _draw(_own(arm, material, score), own, seed, f"own {material.task.name}")
    if not rows:
        raise UserError(f"profile: arm {arm['name']}: no training rows; raise n_train, or drop the arm")
    random.Random(stable_seed("rows", arm["name"], seed)).shuffle(rows)
    if arm.get("matched"):
        rows = _until(rows, trained_text(arm_rows(arm["matched"], materials, quota, seed, score)))
    return rows


def trained_text(rows: list[dict]) -> int:
    """Characters that carry loss."""
    return sum(len(m["content"]) for row in rows for m, on in zip(row["messages"], row["mask"]) if on)


def _until(rows: list[dict], most: int) -> list[dict]:
    """The first rows, as many as hold at most so much trained text, and at least one."""
    kept: list[dict] = []
    for row in rows:
        if kept and trained_text([*kept, row]) > most:
            break
        kept.append(row)
    return kept


def expert_for(arm: dict, expert: Expert) -> Expert:
    """The profile's expert, a scripted one with the arm's own directness and persistence where it names them."""
    names = [name for name in ("directness", "persistence") if name in arm]
    return replace(expert, **{name: arm[name] for name in names}) if isinstance(expert, ScriptedExpert) else expert


def check_arms(arms: list[dict]) -> None:
    """Refuses an arm whose rows or harness are unknown, naming the field."""
    for arm in arms:
        for field, known in (("rows", (*UNTRAINED, *BUILDERS)), ("harness", HARNESSES), ("choice", CHOICES)):
            if arm.get(field, FIRST) not in known:
                raise UserError(
                    f"profile: arms: {arm['name']}: {field} = {arm[field]!r} is unknown; use one of {', '.join(known)}"
                )
        if arm["rows"] in ON_FAILURES and arm["harness"] != "hstar":
            raise UserError(
                f"profile: arms: {arm['name']}: harness = {arm['harness']!r}, but failures are localised under h* only; "
                f"use harness = 'hstar' with rows = {arm['rows']!r}"
            )


def _draw(rows: list[dict], n: int, seed: int, what: str, first: frozenset[str] = frozenset()) -> list[dict]:
    """`n` of the rows, or all; those whose source is among the `first` before the others."""
    drawn = random.Random(stable_seed("draw", what, seed)).sample(rows, len(rows))
    return sorted(drawn, key=lambda row: row["source"] not in first)[:n]


def _imitation(arm: dict, material: Material, score: Score) -> list[dict]:
    harness = material.harnesses[arm["harness"]]
    episodes = expert_episodes(
        expert_for(arm, material.expert), material.task, list(material.instances.values()), harness, material.max_turns
    )
    return [{**row, "kind": "expert"} for e in episodes if e.trajectory.success for row in whole_rows(e)]


def _own(arm: dict, material: Material, score: Score) -> list[dict]:
    harness, rows = material.harnesses[arm["harness"]], []
    for trajectory in material.rollouts[arm["harness"]]:
        if trajectory.success:
            texts = [turn.text for turn in trajectory.turns]
            episode = replay(
                material.task, material.instances[trajectory.instance], harness, texts, max_turns=material.max_turns
            )
            rows += [{**row, "kind": "own"} for row in whole_rows(episode)]
    return rows


def _corrected(arm: dict, material: Material, score: Score, turn_of: Callable[[Trajectory], int | None]) -> list[dict]:
    harness, choice, found = material.harnesses[arm["harness"]], arm.get("choice", FIRST), []
    for trajectory in material.rollouts[arm["harness"]]:
        failure = material.failures.get(trajectory.instance)
        if failure is None or failure.turn is None:
            continue
        made = candidates(
            expert_for(arm, material.expert),
            material.task,
            material.instances[trajectory.instance],
            harness,
            trajectory,
            failure,
            turn_of(trajectory),
            most=1 if choice == FIRST else 3,
        )
        found.append([{**row, "kind": arm["rows"]} for correction, row in made if correction.verified])
    if choice == LIKELIEST:
        losses = iter(score([row for rows in found for row in rows]))
        found = [sorted(rows, key=lambda row: next(losses)) for rows in found]
    return [rows[0] for rows in found if rows]


def _correction(arm: dict, material: Material, score: Score) -> list[dict]:
    return _corrected(arm, material, score, lambda trajectory: None)


def _oec(arm: dict, material: Material, score: Score) -> list[dict]:
    """The student plays up to a random turn, the expert from there to the end; its turns carry loss."""
    harness, rows, teacher = material.harnesses[arm["harness"]], [], expert_for(arm, material.expert)
    for trajectory in material.rollouts[arm["harness"]]:
        if trajectory.instance not in material.failures:
            continue
        start = random_turn(trajectory, 0)
        texts = [turn.text for turn in trajectory.turns[:start]]
        instance = material.instances[trajectory.instance]
        episode = replay(material.task, instance, harness, texts, max_turns=material.max_turns)
        if play_expert(teacher, episode).success:
            rows += [{**row, "kind": "oec"} for row in whole_rows(episode, start)]
    return rows


def _random_turn(arm: dict, material: Material, score: Score) -> list[dict]:
    return _corrected(arm, material, score, lambda trajectory: random_turn(trajectory, 0))


BUILDERS = {"expert": _imitation, "correction": _correction, "random_turn": _random_turn, "oec": _oec, "own": _own}
