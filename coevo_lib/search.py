"""Harness search: the `gepa` library drives pool, sampling and budget; adapter and record are ours.

A candidate is `dict[str, str]`, section -> TOML text. The proposer sees traces of `evolve` only; the
`select` split, which it never sees, decides h* (ties: the earlier one). gepa's own state is not kept: a
run is deterministic, and the reply cache makes running it again free.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from coevo_lib.edits import Edit
from coevo_lib.engines.base import Engine
from coevo_lib.errors import UserError
from coevo_lib.harness import Harness, diff, from_sections, to_sections
from coevo_lib.meta_agent import MetaAgent
from coevo_lib.rollouts import roll_out, student_jobs
from coevo_lib.task import Instance, Task


@dataclass(frozen=True)
class Budget:
    """What a search may spend. `rollouts` counts episodes, seeds and repeats included."""

    proposals: int = 10
    minibatch: int = 16
    max_turns: int = 16

    def rollouts(self, n_select: int) -> int:
        """The most episodes that this budget can take."""
        return n_select * (self.proposals + 1) + 2 * self.minibatch * self.proposals


@dataclass
class Search:
    """One search of one task: run it with `run`, read `best`, `lineage` and `curve`."""

    task: Task
    evolve: list[Instance]
    select: list[Instance]
    engine: Engine
    budget: Budget
    seed: int = 0
    meta: MetaAgent = field(default_factory=MetaAgent)
    report: Callable[[str], None] = lambda line: None

    def __post_init__(self):
        if self.budget.proposals < 1 or self.budget.minibatch > len(self.evolve):
            raise UserError(
                f"profile: proposals ({self.budget.proposals}) must be 1 or more, minibatch ({self.budget.minibatch}) "
                f"at most n_evolve ({len(self.evolve)}): the budget is too small for one full proposal"
            )
        self.lineage: list[dict] = []
        self.episodes = 0
        self.tokens = 0  # generated so far
        self._counted = 0  # of these, how many stand in the record
        self._edit: Edit | None = None
        self._exhausted = False
        self._error: Exception | None = None

    # ---- what gepa calls

    def evaluate(self, batch: list[Instance], candidate: dict[str, str], capture_traces: bool = False):
        """gepa's evaluation: plays the batch greedily; an infrastructure fault ends the search, it is no score."""
        from gepa.core.adapter import EvaluationBatch

        harness = from_sections(candidate)
        jobs = student_jobs(self.task, batch, harness, self.budget.max_turns)
        played = [episode.trajectory for episode in roll_out(self.engine, jobs)]
        self.episodes += len(played)
        self.tokens += sum(t.tokens for t in played)
        faults = [t.error for t in played if t.status == "fault"]
        if faults:
            raise RuntimeError(f"infrastructure fault during search: {faults[0]}")
        return EvaluationBatch(played, [float(t.success) for t in played], played if capture_traces else None)

    def make_reflective_dataset(self, candidate, eval_batch, components_to_update):
        """gepa copies each record as a mapping, so a trajectory travels inside one."""
        return {"traces": [{"trajectory": trajectory} for trajectory in eval_batch.trajectories]}

    def propose_new_texts(self, candidate, reflective_dataset, components_to_update) -> dict[str, str]:
        """gepa swallows what is raised in here, so an error is kept for `_stop` to raise."""
        self._edit = None
        try:
            harness = from_sections(candidate)
            self._edit = self.meta.propose(harness, [row["trajectory"] for row in reflective_dataset["traces"]])
        except Exception as error:
            self._error = error
        if self._edit is None:
            self._exhausted = True
            return {}
        old, new = to_sections(harness), to_sections(self._edit.harness)
        return {name: text for name, text in new.items() if text != old[name]}

    def _stop(self, state) -> bool:
        if self._error:
            raise self._error
        return state.i + 1 >= self.budget.proposals or self._exhausted

    def should_accept(self, proposal, state) -> bool:
        """gepa's gate: the same instances, strictly more successes than under the parent."""
        before, after = proposal.subsample_scores_before, proposal.subsample_scores_after
        accepted = bool(self._edit) and sum(after) > sum(before)
        if self._edit:
            parent = from_sections(state.program_candidates[proposal.parent_program_ids[0]])
            self._record(parent, before, after, accepted)
        return accepted

    def on_valset_evaluated(self, event) -> None:
        scores = list(event["scores_by_val_id"].values())
        harness = from_sections(event["candidate"])
        if not self.lineage:
            self._row(harness, kind="seed", element="", why="h0", accepted=True)
        row = next(r for r in reversed(self.lineage) if r["harness"] == harness.id)
        row |= {
            "select_successes": int(sum(scores)),
            "select_n": len(scores),
            "select_scores": [int(s) for s in scores],
        }
        row["generated_tokens"] += self._spent()

    # ---- the record

    def _row(self, harness: Harness, **fields) -> dict:
        row = {
            "iteration": len(self.lineage),
            "harness": harness.id,
            "elements": harness.elements(),
            "toml": harness.to_toml(),
            "generated_tokens": self._spent(),
        } | fields
        self.lineage.append(row)
        return row

    def _spent(self) -> int:
        """Tokens generated since this was asked last."""
        spent, self._counted = self.tokens - self._counted, self.tokens
        return spent

    def _record(self, parent: Harness, before: list[float], after: list[float], accepted: bool) -> None:
        edit = self._edit
        lost = sum(b > a for b, a in zip(before, after))
        self._row(
            edit.harness,
            parent=parent.id,
            kind=edit.kind,
            element=edit.element,
            why=edit.why,
            accepted=accepted,
            minibatch_n=len(before),
            minibatch_before=int(sum(before)),
            minibatch_after=int(sum(after)),
            newly_failing=lost,
            diff=diff(parent, edit.harness),
        )
        verdict = "kept" if accepted else "dropped"
        self.report(
            f"{self.task.name} s{self.seed} {len(self.lineage) - 1}: {edit.element} "
            f"{int(sum(before))}->{int(sum(after))}/{len(before)} {verdict}"
        )

    def run(self) -> Harness:
        """Searches from h0 and returns h*."""
        import gepa

        started = time.time()
        gepa.optimize(
            seed_candidate=to_sections(Harness()),
            trainset=self.evolve,
            valset=self.select,
            adapter=self,
            candidate_selection_strategy="current_best",
            skip_perfect_score=False,
            module_selector="all",
            reflection_minibatch_size=self.budget.minibatch,
            acceptance_criterion=self,
            seed=self.seed,
            stop_callbacks=[self._stop],
            callbacks=[self],
            logger=_Silent(),
            raise_on_exception=True,
            track_best_outputs=False,
        )
        self.lineage[-1]["generated_tokens"] += self._spent()  # a last batch that led to no proposal
        self.seconds = time.time() - started
        return self.best

    @property
    def best(self) -> Harness:
        """The harness with the most successes on `select`; ties go to the earlier one."""
        from coevo_lib.harness import parse_harness

        scored = [row for row in self.lineage if "select_successes" in row]
        return parse_harness(max(scored, key=lambda row: row["select_successes"])["toml"])

    def curve(self) -> list[dict]:
        """After each proposal: episodes are counted, and the best select score so far."""
        rows, best = [], 0
        for row in self.lineage:
            best = max(best, row.get("select_successes", 0))
            rows.append(
                {
                    "proposal": row["iteration"],
                    "harness": row["harness"],
                    "kind": row["kind"],
                    "element": row["element"],
                    "accepted": row["accepted"],
                    "select_successes": row.get("select_successes", ""),
                    "best_so_far": best,
                    "select_n": len(self.select),
                }
            )
        return rows


class _Silent:
    def log(self, message: str) -> None:
        """gepa's own log is not shown; `lineage` says the same."""
