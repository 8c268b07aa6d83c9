"""The search finds what helps, keeps a full record, and shows the proposer nothing of the split that decides."""

import csv
import io
import json

import pytest

from coevo_lib.engines.base import EngineFault
from coevo_lib.engines.scripted import ScriptedEngine
from coevo_lib.errors import UserError
from coevo_lib.harness import Harness, parse_harness
from coevo_lib.meta_agent import MetaAgent
from coevo_lib.search import Budget, Search
from coevo_lib.toolbox import check_harness

BUDGET = Budget(proposals=5, minibatch=6, max_turns=8)
EVERY_ROW = {"iteration", "harness", "elements", "toml", "generated_tokens", "kind", "element", "why", "accepted"}
PROPOSED = EVERY_ROW | {"parent", "minibatch_n", "minibatch_before", "minibatch_after", "newly_failing", "diff"}
SCORED = {"select_successes", "select_n", "select_scores"}


@pytest.fixture
def engine(boxes_student):
    """The scripted student that succeeds exactly where a composite tool is visible."""

    def answer(request):
        system, prompt, *rest = [message["content"] for message in request.messages]
        return boxes_student(system, list(zip(rest[::2], rest[1::2])), prompt)

    return ScriptedEngine(answer)


@pytest.fixture
def search(mock, engine):
    def make(budget=BUDGET, **options):
        return Search(
            mock,
            mock.instances("evolve", 12),
            mock.instances("select", 10),
            options.pop("engine", engine),
            budget,
            **options,
        )

    return make


def test_the_search_finds_the_composite_that_the_student_needs(search, mock):
    found = search()
    best = found.run()
    assert [c.name for c in best.tools.composite] == ["boxes_and_open"]
    assert best == found.best and best != Harness()
    check_harness(best, mock)
    scores = [row["select_successes"] for row in found.lineage if "select_successes" in row]
    assert scores[0] == 0 and max(scores) == 10


def test_the_lineage_records_every_proposal(search):
    found = search()
    found.run()
    seed, *proposed = found.lineage
    assert (
        set(seed) == EVERY_ROW | SCORED
        and seed["kind"] == "seed"
        and seed["elements"] == []
        and seed["harness"] == Harness().id
    )
    assert 1 <= len(proposed) <= BUDGET.proposals
    for place, row in enumerate(proposed, start=1):
        assert set(row) == (PROPOSED | SCORED if row["accepted"] else PROPOSED) and row["iteration"] == place
        assert row["accepted"] == (row["minibatch_after"] > row["minibatch_before"])
        assert parse_harness(row["toml"]).id == row["harness"] and row["diff"]
        assert row["kind"] == "removal" or row["element"] in row["elements"]
        assert row["parent"] in {earlier["harness"] for earlier in found.lineage[:place]}
        assert row["minibatch_n"] == BUDGET.minibatch
        if row["accepted"]:
            assert row["select_n"] == 10 and sum(row["select_scores"]) == row["select_successes"]
    assert any(row["accepted"] for row in proposed)
    json.dumps(found.lineage)


def test_every_generated_token_stands_in_the_lineage(search, engine):
    words = []

    def counting(request):
        words.append(engine.submit(request).result().output_tokens)
        return engine.submit(request).result().text

    found = search(engine=ScriptedEngine(counting))
    found.run()
    assert sum(row["generated_tokens"] for row in found.lineage) == found.tokens == sum(words) > 50


def test_the_curve_never_falls_and_fits_a_table(search):
    found = search()
    found.run()
    rows = found.curve()
    assert [row["proposal"] for row in rows] == list(range(len(found.lineage)))
    best = [row["best_so_far"] for row in rows]
    assert best == sorted(best) and best[0] == 0 and best[-1] == 10
    assert {tuple(row) for row in rows} == {
        ("proposal", "harness", "kind", "element", "accepted", "select_successes", "best_so_far", "select_n")
    }
    writer = csv.DictWriter(io.StringIO(), list(rows[0]))
    writer.writerows(rows)


def test_the_proposer_never_sees_the_split_that_decides(search):
    class Watched(MetaAgent):
        def observe(self, trajectories):
            given.append([(t.split, t.instance) for t in trajectories])
            super().observe(trajectories)

    given = []
    found = search(meta=Watched())
    found.run()
    assert given and {split for batch in given for split, _ in batch} == {"evolve"}
    assert {key for batch in given for _, key in batch} <= {instance.key for instance in found.evolve}
    assert all(len(batch) == BUDGET.minibatch for batch in given)


def test_the_same_search_again_has_the_same_lineage(search):
    first, second = search(), search()
    assert first.run() == second.run()
    assert first.lineage == second.lineage and first.episodes == second.episodes


def test_another_seed_draws_other_minibatches(search):
    class Watched(MetaAgent):
        def observe(self, trajectories):
            given.append([t.instance for t in trajectories])
            super().observe(trajectories)

    drawn = []
    for seed in (0, 1):
        given = []
        search(seed=seed, meta=Watched()).run()
        drawn.append(given)
    assert drawn[0] != drawn[1]


def test_no_more_is_spent_than_the_budget_says(search):
    found = search()
    found.run()
    assert 0 < found.episodes <= BUDGET.rollouts(10)


@pytest.mark.parametrize("budget", [Budget(proposals=0, minibatch=6), Budget(proposals=3, minibatch=13)])
def test_a_budget_too_small_for_one_proposal_is_refused(search, budget):
    with pytest.raises(UserError, match=r"profile: proposals .* minibatch .*n_evolve \(12\).*the budget is too small"):
        search(budget)


def test_a_student_beyond_help_keeps_the_unevolved_harness(search):
    found = search(engine=ScriptedEngine(lambda request: "submit(0)"))
    assert found.run() == Harness(), "a tie goes to the earlier harness"
    assert not any(row["accepted"] for row in found.lineage[1:])


def test_a_student_that_always_succeeds_leaves_nothing_to_propose(search):
    def student(request):
        seen = [message["content"] for message in request.messages[3::2]]
        if len(seen) < 3:
            return f'open("{seen[0].split(", ")[len(seen) - 1]}")' if seen else "boxes()"
        return f"submit({sum(map(int, seen[1:]))})"

    found = search(engine=ScriptedEngine(student))
    assert found.run() == Harness()
    assert len(found.lineage) == 1 and found.lineage[0]["select_successes"] == 10


def test_an_infrastructure_fault_ends_the_search_and_is_no_score(search):
    def lost(request):
        raise EngineFault("the card fell off")

    found = search(engine=ScriptedEngine(lost))
    with pytest.raises(RuntimeError, match="infrastructure fault during search: the card fell off"):
        found.run()
    assert not any("select_successes" in row for row in found.lineage)


def test_an_error_of_the_proposer_is_not_swallowed(search):
    class Broken(MetaAgent):
        def propose(self, harness, trajectories):
            raise ZeroDivisionError("a mistake of ours")

    with pytest.raises(ZeroDivisionError, match="a mistake of ours"):
        search(meta=Broken()).run()


def test_progress_is_reported_in_one_line_a_proposal(search):
    lines = []
    found = search(report=lines.append, seed=3)
    found.run()
    assert len(lines) == len(found.lineage) - 1
    assert all(line.startswith("mock s3 ") and line.endswith(("kept", "dropped")) for line in lines)
