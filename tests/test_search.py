"""The search finds what helps, keeps a full record, and shows the proposer nothing of the split that decides."""

import csv
import io
import json

import pytest

from coevo_lib.chat_meta_agent import ChatMetaAgent
from coevo_lib.engines.base import EngineFault
from coevo_lib.engines.scripted import ScriptedEngine
from coevo_lib.errors import UserError
from coevo_lib.harness import Harness, parse_harness
from coevo_lib.meta_agent import MetaAgent
from coevo_lib.search import SIMPLIFICATION, Budget, Search
from coevo_lib.toolbox import check_harness

BUDGET = Budget(proposals=5, minibatch=6, max_turns=8)
EVERY_ROW = {
    "iteration",
    "harness",
    "elements",
    "toml",
    "generated_tokens",
    "kind",
    "element",
    "why",
    "accepted",
    "chosen",
    "proposer_tokens",
}
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
    seed, *proposed = [row for row in found.lineage if row["kind"] != SIMPLIFICATION]
    assert (
        set(seed) == EVERY_ROW | SCORED | {"select_flips"}
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
    assert [row["proposal"] for row in rows] == [r["iteration"] for r in found.lineage if r["kind"] != SIMPLIFICATION]
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
    assert all(line.startswith("mock s3 ") and line.endswith(("kept", "dropped", "out", "stays")) for line in lines)


def test_h_star_holds_nothing_that_select_can_do_without(search, mock):
    found = search()
    best = found.run()
    tried = [row for row in found.lineage if row["kind"] == SIMPLIFICATION]
    assert tried and [row["chosen"] for row in found.lineage].count(True) == 1
    assert {c.name for c in best.tools.composite} == {"boxes_and_open"}, "without it the student fails"
    needed = {row["element"] for row in tried if not row["accepted"]}
    assert needed == set(best.elements()) - {"tools.hide:boxes", "tools.hide:open"}
    for row in tried:
        assert row["accepted"] == (row["select_successes"] == 10) and "are enough" in row["why"]


@pytest.mark.parametrize(("flips", "n", "band"), [(0, 12, 0.0), (5, 10, 5**0.5), (10, 40, 40**0.5)])
def test_the_noise_band_is_one_deviation_of_what_a_second_play_changes(search, flips, n, band):
    found = search()
    found.lineage = [{"select_flips": flips}]
    assert found.noise_band(n) == pytest.approx(band)


def reads_all(request):
    """The calls of a student that opens every box, whatever the harness."""
    seen = [message["content"] for message in request.messages[3::2]]
    boxes = seen[0].split(", ") if seen else []
    if not seen:
        return "boxes()"
    return f'open("{boxes[len(seen) - 1]}")' if len(seen) <= len(boxes) else f"submit({sum(map(int, seen[1:]))})"


def test_a_second_play_of_h0_says_how_much_is_noise(search, engine):
    """It succeeds in its second play only: all ten instances flip, so that a gain has to exceed the root of six."""

    def student(request):
        return reads_all(request) if request.sample == 1 else engine.submit(request).result().text

    found = search(engine=ScriptedEngine(student))
    found.run()
    assert found.lineage[0]["select_flips"] == 10
    assert found.noise_band(BUDGET.minibatch) == pytest.approx(6**0.5)
    gains = [
        (row["minibatch_after"] - row["minibatch_before"], row["accepted"])
        for row in found.lineage
        if "minibatch_n" in row
    ]
    assert gains and all(accepted == (gain > 6**0.5) for gain, accepted in gains)


def test_instances_lost_by_an_edit_are_named(search):
    """Half of the sums, the even ones, the student gets right under h0, and none with any other system text."""
    h0 = []

    def student(request):
        h0.append(request.messages[0]["content"])
        if any("refused" in message["content"] for message in request.messages):
            return "submit(0)"
        made = reads_all(request)
        right = h0[-1] == h0[0] and (not made.startswith("submit") or int(made[7:-1]) % 2 == 0)
        return made if right else "submit(0)"

    found = search(engine=ScriptedEngine(student))
    found.run()
    rows = [row for row in found.lineage if "newly_failing" in row]
    assert rows and any(row["newly_failing"] for row in rows)
    for row in rows:
        assert set(row["newly_failing"]) <= {i.key for i in found.evolve}
        assert len(row["newly_failing"]) >= row["minibatch_before"] - row["minibatch_after"]


def test_an_answer_of_a_chat_model_that_is_no_edit_counts_as_a_failed_proposal(search, mock):
    def check(harness):
        check_harness(harness, mock)

    meta = ChatMetaAgent(ScriptedEngine(lambda request: "I would rather not."), "boxes(): names", check)
    found = search(meta=meta)
    assert found.run() == Harness()
    failed = found.lineage[1:]
    assert len(failed) == BUDGET.proposals and {row["kind"] for row in failed} == {"failed proposal"}
    assert all("no JSON" in row["why"] or "no field" in row["why"] for row in failed)
