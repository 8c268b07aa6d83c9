"""Harness search: the `gepa` library drives pool, sampling and budget; adapter and record are ours.

A candidate is `dict[str, str]`, section -> TOML text. The proposer sees traces of `evolve` only; the
`select` split, which it never sees, decides h* (ties: the earlier one), and then takes out of it what it does not
need. gepa's own state is not kept: the reply cache makes running a search again free.

Noise. The same harness, played twice, does not succeed on the same instances: greedy replies depend a little on how
requests are batched. The share that flips is measured once a search; a gain has to exceed what it explains.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from coevo_lib.chat_meta_agent import ChatMetaAgent, FailedProposal
from coevo_lib.edits import Edit
from coevo_lib.engines.base import Engine
from coevo_lib.errors import UserError
from coevo_lib.harness import Harness, diff, from_sections, parse_harness, to_sections
from coevo_lib.meta_agent import MetaAgent
from coevo_lib.rollouts import roll_out, student_jobs
from coevo_lib.simplification import reductions
from coevo_lib.task import Instance, Task
from coevo_lib.trajectory import Trajectory

SIMPLIFICATION = "simplification"  # kind of a row that is no proposal: h* without one of its elements


@dataclass(frozen=True)
class Budget:
    """What a search may spend."""

    proposals: int = 10
    minibatch: int = 16
    max_turns: int = 16

    def rollouts(self, n_select: int) -> int:
        """The most episodes that a search can take: h0 twice, the proposals, the simplification of h*."""
        return n_select * (2 + 2 * self.proposals) + 2 * self.minibatch * self.proposals


@dataclass
class Search:
    """One search of one task: run it with `run`, read `best`, `lineage` and `curve`."""

    task: Task
    evolve: list[Instance]
    select: list[Instance]
    engine: Engine
    budget: Budget
    seed: int = 0
    meta: MetaAgent | ChatMetaAgent = field(default_factory=MetaAgent)
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
        """gepa's evaluation: plays the batch greedily."""
        from gepa.core.adapter import EvaluationBatch

        played = self._play(batch, from_sections(candidate))
        return EvaluationBatch(played, [float(t.success) for t in played], played if capture_traces else None)

    def _play(self, batch: list[Instance], harness: Harness, sample: int = 0) -> list[Trajectory]:
        """The batch, played greedily; an infrastructure fault ends the search, it is no score."""
        jobs = student_jobs(self.task, batch, harness, self.budget.max_turns, samples=[sample])
        played = [episode.trajectory for episode in roll_out(self.engine, jobs)]
        self.episodes += len(played)
        self.tokens += sum(t.tokens for t in played)
        faults = [t.error for t in played if t.status == "fault"]
        if faults:
            raise RuntimeError(f"infrastructure fault during search: {faults[0]}")
        return played

    def make_reflective_dataset(self, candidate, eval_batch, components_to_update):
        """gepa copies each record as a mapping, so a trajectory travels inside one."""
        return {"traces": [{"trajectory": trajectory} for trajectory in eval_batch.trajectories]}

    def propose_new_texts(self, candidate, reflective_dataset, components_to_update) -> dict[str, str]:
        """gepa swallows what is raised in here, so an error is kept for `_stop` to raise."""
        self._edit = None
        try:
            harness = from_sections(candidate)
            self._edit = self.meta.propose(harness, [row["trajectory"] for row in reflective_dataset["traces"]])
            self._exhausted = self._edit is None
        except FailedProposal as error:
            fields = {"parent": harness.id, "why": str(error), "diff": "", "newly_failing": [], **_minibatch([], [])}
            self._row(harness, kind="failed proposal", element="", accepted=False, **fields)
            self._tell("no valid edit", self.lineage[-1], "", "dropped")
        except Exception as error:
            self._error = error
        if self._edit is None:
            return {}
        old, new = to_sections(harness), to_sections(self._edit.harness)
        return {name: text for name, text in new.items() if text != old[name]}

    def _stop(self, state) -> bool:
        if self._error:
            raise self._error
        return state.i + 1 >= self.budget.proposals or self._exhausted

    def should_accept(self, proposal, state) -> bool:
        """gepa's gate: on the same instances, more successes than under the parent, by more than the noise."""
        before, after = proposal.subsample_scores_before, proposal.subsample_scores_after
        accepted = bool(self._edit) and sum(after) - sum(before) > self.noise_band(len(before))
        if self._edit:
            parent = from_sections(state.program_candidates[proposal.parent_program_ids[0]])
            lost = [i for i, b, a in zip(proposal.subsample_indices, before, after) if b > a]
            self._record(parent, before, after, [self.evolve[i].key for i in lost], accepted)
        return accepted

    def on_valset_evaluated(self, event) -> None:
        scores = list(event["scores_by_val_id"].values())
        harness = from_sections(event["candidate"])
        if not self.lineage:
            self._row(harness, kind="seed", element="", why="h0", accepted=True, select_flips=self._flips(scores))
        row = next(r for r in reversed(self.lineage) if r["harness"] == harness.id)
        row |= _scores(scores)
        row["generated_tokens"] += self._spent()

    # ---- the record

    def _row(self, harness: Harness, **fields) -> dict:
        row = {
            "iteration": len(self.lineage),
            "harness": harness.id,
            "elements": harness.elements(),
            "toml": harness.to_toml(),
            "generated_tokens": self._spent(),
            "proposer_tokens": self.meta.tokens - sum(row["proposer_tokens"] for row in self.lineage),
        } | fields
        self.lineage.append(row)
        return row

    def _spent(self) -> int:
        """Tokens generated since this was asked last."""
        spent, self._counted = self.tokens - self._counted, self.tokens
        return spent

    def _record(
        self, parent: Harness, before: list[float], after: list[float], lost: list[str], accepted: bool
    ) -> None:
        edit = self._edit
        self._row(
            edit.harness,
            parent=parent.id,
            kind=edit.kind,
            element=edit.element,
            why=edit.why,
            accepted=accepted,
            newly_failing=lost,  # keys of instances
            diff=diff(parent, edit.harness),
            **_minibatch(before, after),
        )
        self.meta.learn(edit, int(sum(before)), int(sum(after)), len(before), accepted)
        what = f"{edit.element} {int(sum(before))}->{int(sum(after))}/{len(before)}"
        self._tell(what, self.lineage[-1], "kept", "dropped")

    def _tell(self, what: str, row: dict, yes: str, no: str) -> None:
        self.report(f"{self.task.name} s{self.seed} {row['iteration']}: {what} {yes if row['accepted'] else no}")

    # ---- noise

    def noise_band(self, n: int) -> float:
        """One standard deviation of the change in successes on n instances when nothing but the batching changes."""
        return math.sqrt(n * self.lineage[0]["select_flips"] / len(self.select))

    def _flips(self, scores: list[float]) -> int:
        """On how many instances of `select` a second play of h0 ends otherwise than the first."""
        return sum(first != second for first, second in zip(scores, self._again))

    # ---- the whole

    def run(self) -> Harness:
        """Searches from h0 and returns h*."""
        import gepa

        started = time.time()
        self._again = [float(t.success) for t in self._play(self.select, Harness(), sample=1)]
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
        chosen = self._simplify(max(self._proposed(), key=lambda row: row["select_successes"]))
        for row in self.lineage:
            row["chosen"] = row is chosen
        self.seconds = time.time() - started
        return self.best

    def _proposed(self) -> list[dict]:
        """The rows of h0 and of accepted proposals, which `select` has scored, in their order."""
        return [row for row in self.lineage if "select_successes" in row]

    def _simplify(self, found: dict) -> dict:
        """Takes elements out of h* one by one, while `select` stays within the noise of what h* reached."""
        least = found["select_successes"] - self.noise_band(len(self.select))
        chosen, tried = found, set()
        for _ in range(self.budget.proposals):
            harness = parse_harness(chosen["toml"])
            left = [(part, less) for part, less in reductions(harness, self.task) if part.key not in tried]
            if not left:
                break
            part, less = left[0]
            tried.add(part.key)
            row = self._trial(less, part.name, harness)
            row["accepted"] = row["select_successes"] >= least
            row["why"] = f"without it {row['select_successes']} of {row['select_n']}; {least:.1f} are enough"
            self._tell(f"without {part.name} {row['select_successes']}/{row['select_n']}", row, "out", "stays")
            chosen = row if row["accepted"] else chosen
        return chosen

    def _trial(self, harness: Harness, element: str, parent: Harness) -> dict:
        """The row of a harness that is tried on `select` at once."""
        scores = [t.success for t in self._play(self.select, harness)]
        fields = {"parent": parent.id, "diff": diff(parent, harness), **_scores(scores)}
        return self._row(harness, kind=SIMPLIFICATION, element=element, why="", accepted=False, **fields)

    @property
    def best(self) -> Harness:
        """h*: the harness with the most successes on `select`, ties to the earlier one, then simplified."""
        return parse_harness(next(row for row in self.lineage if row["chosen"])["toml"])

    def curve(self) -> list[dict]:
        """After each proposal: its select score if it was accepted, and the best one so far."""
        rows, best = [], 0
        for row in self.lineage:
            if row["kind"] == SIMPLIFICATION:
                continue
            best = max(best, row.get("select_successes", 0))
            names = ("harness", "kind", "element", "accepted")
            score = {
                "select_successes": row.get("select_successes", ""),
                "best_so_far": best,
                "select_n": len(self.select),
            }
            rows.append({"proposal": row["iteration"], **{name: row[name] for name in names}, **score})
        return rows


def _scores(scores: list) -> dict:
    """The fields of a row that `select` has scored."""
    plain = [int(score) for score in scores]
    return {"select_successes": sum(plain), "select_n": len(plain), "select_scores": plain}


def _minibatch(before: list, after: list) -> dict:
    """The fields of a row that the gate has seen: successes under parent and child."""
    return {"minibatch_n": len(before), "minibatch_before": int(sum(before)), "minibatch_after": int(sum(after))}


class _Silent:
    def log(self, message: str) -> None:
        """gepa's own log is not shown; `lineage` says the same."""
