"""The offline meta-agent: remembers what was played on `evolve`, proposes one typed harness edit at a time.

What it can learn from traces is in `traces`, what it can propose in `operators`; whether an edit is kept is
decided in `search`. A chat model can take its place (`chat_meta_agent`).
"""

import random
from collections import Counter
from dataclasses import dataclass, field

from coevo_lib.edits import Edit
from coevo_lib.files import stable_seed
from coevo_lib.harness import Harness
from coevo_lib.operators import edits_for
from coevo_lib.traces import Traces
from coevo_lib.trajectory import Trajectory


@dataclass
class MetaAgent:
    """Proposes one edit at a time and never the same harness twice. `seen` is its memory of traces."""

    seen: list[Trajectory] = field(default_factory=list)
    tokens: int = 0  # generated to propose: none, where rules do it
    dropped: Counter = field(default_factory=Counter)  # sort of edit -> how many were tried in vain
    tried: set[str] = field(default_factory=lambda: {Harness().id})

    def observe(self, trajectories: list[Trajectory]) -> None:
        self.seen += trajectories

    def propose(self, harness: Harness, trajectories: list[Trajectory]) -> Edit | None:
        """The most urgent edit not yet tried, judged by these trajectories under `harness`; None if none is left.

        Where none of them failed, by all that was played under this harness before.
        """
        self.observe(trajectories)
        if all(t.success for t in trajectories):
            trajectories = [t for t in self.seen if t.harness == harness.id]
        for edit in self._ordered(edits_for(harness, Traces(self.seen, trajectories))):
            if edit.harness.id not in self.tried and edit.harness.id != harness.id:
                self.tried.add(edit.harness.id)
                return edit
        return None

    def learn(self, edit: Edit, before: int, after: int, n: int, accepted: bool) -> None:
        """What became of an edit: one that was dropped halves the weight of all others of its sort."""
        self.dropped[_sort(edit)] += not accepted

    def _ordered(self, edits: list[Edit]) -> list[Edit]:
        return sorted(edits, key=lambda edit: -edit.weight / 2 ** self.dropped[_sort(edit)])


def _sort(edit: Edit) -> str:
    """Edits of one sort: one hook of the catalogue, or one kind of other edit."""
    return edit.element if edit.kind == "hook" else edit.kind


class RandomEdits(MetaAgent):
    """The control of the meta-agent: the same operators, an edit drawn evenly, whatever the traces speak for."""

    def __init__(self, seed: int = 0):
        super().__init__()
        self._random = random.Random(stable_seed("random edits", seed))

    def _ordered(self, edits: list[Edit]) -> list[Edit]:
        return self._random.sample(edits, len(edits))
