"""The offline meta-agent: remembers what was played on `evolve`, proposes one typed harness edit at a time.

What it can learn from traces is in `traces`, what it can propose in `operators`; whether an edit is kept is
decided in `search`. A chat model can take its place: anything with `propose` will do.
"""

from dataclasses import dataclass, field

from coevo_lib.edits import Edit
from coevo_lib.harness import Harness
from coevo_lib.operators import edits_for
from coevo_lib.traces import Traces
from coevo_lib.trajectory import Trajectory


@dataclass
class MetaAgent:
    """Proposes one edit at a time and never the same harness twice. `seen` is its memory of traces."""

    seen: list[Trajectory] = field(default_factory=list)
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
        edits = sorted(edits_for(harness, Traces(self.seen, trajectories)), key=lambda edit: -edit.weight)
        for edit in edits:
            if edit.harness.id not in self.tried and edit.harness.id != harness.id:
                self.tried.add(edit.harness.id)
                return edit
        return None
