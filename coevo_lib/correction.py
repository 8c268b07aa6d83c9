"""On-policy expert correction: the expert rewrites one turn of the student's own failed rollout.

Every candidate is re-executed (the paper does not): its call must be answered in the replayed world, and
the expert, going on from there, must reach success. Whether the student itself then succeeds is played and
recorded too. The corrected turn alone will carry loss (rule 8); the turns before it are the student's.
"""

from dataclasses import asdict, dataclass

from coevo_lib.agent import Episode, expert_text, replay
from coevo_lib.engines.base import Engine
from coevo_lib.expert import FAR, LOST, Expert
from coevo_lib.files import stable_seed
from coevo_lib.harness import Harness
from coevo_lib.localization import Failure
from coevo_lib.rollouts import roll_out
from coevo_lib.rows import turn_row
from coevo_lib.task import Instance, Task
from coevo_lib.trajectory import OK, Trajectory


@dataclass(frozen=True)
class Correction:
    """One rewritten turn. `text` is trained on; `sentence` is the expert's strategy, kept for reading.

    executes: the call was answered. calls_left: what the expert then still needs, None where there is no way.
    student_succeeds: the student's own continuation; None where it was not played.
    """

    instance: str
    turn: int
    failure_class: str
    original: str
    text: str
    sentence: str
    executes: bool
    calls_left: int | None
    student_succeeds: bool | None = None

    @property
    def verified(self) -> bool:
        return self.executes and self.calls_left is not None


def candidates(
    expert: Expert,
    task: Task,
    instance: Instance,
    harness: Harness,
    trajectory: Trajectory,
    failure: Failure,
    turn: int | None = None,
    most: int = 3,
) -> list[tuple[Correction, dict]]:
    """Up to `most` different (correction, row) for the failing turn, or for another `turn`; the expert's own choice first.

    None where there is no turn to correct. `row` is {messages, mask, source}, see `rows`.
    """
    turn = failure.turn if turn is None else turn
    if turn is None:
        return []
    texts, failed = [t.text for t in trajectory.turns], f"{trajectory.turns[turn].text.strip()}: {trajectory.feedback}"
    episode, made = replay(task, instance, harness, texts[:turn], max_turns=len(texts) + FAR), []
    for call, why in expert.candidates(episode, most, failed):
        text = expert_text(call, harness)
        tried = replay(task, instance, harness, [*texts[:turn], text], max_turns=len(texts) + FAR)
        left = expert.calls_left(task, instance, harness, [*texts[:turn], text])
        found = Correction(
            instance.key,
            turn,
            failure.failure_class,
            texts[turn],
            text,
            why,
            executes=tried.turns[-1].status == OK,
            calls_left=None if left == LOST else left,
        )
        made.append((found, turn_row(episode, turn, text)))
    return made


def correct(*arguments, **options) -> tuple[Correction, dict] | None:
    """The expert's own correction: the first of `candidates`, which takes the same arguments; None where there is none."""
    return next(iter(candidates(*arguments, **options, most=1)), None)


def random_turn(trajectory: Trajectory, seed: int) -> int:
    """A turn drawn evenly from the whole trajectory: the control that ignores the localiser."""
    return stable_seed("random turn", seed, trajectory.instance) % len(trajectory.turns)


def continue_student(
    engine: Engine,
    task: Task,
    harness: Harness,
    corrections: list[Correction],
    trajectories: dict[str, Trajectory],
    instances: dict[str, Instance],
    max_turns: int,
) -> list[bool]:
    """Whether the student, going on from each corrected turn, succeeds."""

    def job(made: Correction):
        texts = [t.text for t in trajectories[made.instance].turns[: made.turn]] + [made.text]
        return lambda: replay(task, instances[made.instance], harness, texts, max_turns=max_turns)

    played: list[Episode] = roll_out(engine, [job(made) for made in corrections])
    return [episode.trajectory.success for episode in played]


def to_json(made: Correction, row: dict, others: list[Correction]) -> dict:
    """A line of corrections.jsonl; `others`: the candidates that an arm may choose instead."""
    names = ("text", "sentence", "executes", "calls_left", "verified")
    tried = [{name: getattr(other, name) for name in names} for other in (made, *others)]
    return {**asdict(made), "verified": made.verified, "candidates": tried, **row}
