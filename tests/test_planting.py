"""Planted failures: what is damaged is what the class says, only what fails is kept, and localisers are scored on it."""

from collections import Counter

import pytest

from coevo_lib.agent import expert_text
from coevo_lib.arithmetic import evaluate, numbers_in
from coevo_lib.calls import Call, CallSyntaxError, parse_call
from coevo_lib.damages import Success
from coevo_lib.engines.base import EngineFault
from coevo_lib.engines.scripted import ScriptedEngine
from coevo_lib.expert import ScriptedExpert
from coevo_lib.harness import Harness, parse_harness
from coevo_lib.localization import Failure, localize
from coevo_lib.planting import PLANTED, judge, plant_failures, plantings, play_plantings
from coevo_lib.rollouts import expert_episodes
from coevo_lib.trajectory import Trajectory

TASKS = ("attendance", "budget", "stock", "anomaly", "webtest", "shopadmin", "refactor")
STEPWISE = ScriptedExpert(directness=0.0)


@pytest.fixture(scope="module")
def successes(tasks):
    """Task name -> the stepwise expert's episodes, in place of a student's successes."""
    return {
        name: expert_episodes(STEPWISE, tasks[name], tasks[name].instances("train", 8), Harness(), 40) for name in TASKS
    }


@pytest.fixture(scope="module")
def planted(tasks, successes):
    """(episode, planting) of all successes."""
    return [(e, made) for name in TASKS for e in successes[name] for made in plant(e)]


def plant(episode, seed=0):
    return plantings(as_success(episode), seed)


def as_success(episode):
    return Success(episode.task, episode.instance, episode.harness, episode.trajectory)


def play_on(student, *pairs, max_turns=24):
    """What comes of (episode, planting) pairs, when a function of a request goes on in the student's place."""
    return play_plantings(ScriptedEngine(student), [made for _, made in pairs], max_turns)


def give_up(request):
    return "submit(0)"


def of_class(planted, name):
    return [(e, made) for e, made in planted if made.failure_class == name]


def shown_before(episode, turn):
    return "\n".join([episode.instance.prompt, *(t.observation for t in episode.turns[:turn])])


def changed_argument(made):
    """(old, new) of a planting that changes one argument and nothing else."""
    old, new = parse_call(made.original), parse_call(made.text)
    assert old.tool == new.tool and len(old.args) == len(new.args)
    [pair] = [(a, b) for a, b in zip(old.args, new.args) if a != b]
    return pair


# ---- what is planted


# With two managers most sums have one term; with three places all are read before the sum, and no term is theirs alone.
RARE = {("budget", "dropped_item"), ("refactor", "skipped_read")}


def test_every_class_is_possible_and_most_are_possible_in_every_task(planted):
    found = Counter((e.task.name, made.failure_class) for e, made in planted)
    filters = {name for name, kind in found if kind == "ignored_filter"}
    assert filters == {"anomaly", "shopadmin"}
    missing = {(name, kind) for name in TASKS for kind in PLANTED if not found[name, kind] and kind != "ignored_filter"}
    assert missing <= RARE


def test_the_original_stands_at_its_turn_and_the_planted_text_differs(planted):
    for episode, made in planted:
        assert made.success.instance == episode.instance and made.failure_class in PLANTED
        assert made.original == episode.turns[made.turn].text != made.text


def test_a_damaged_call_would_not_have_been_right_at_another_time(planted):
    for episode, made in planted:
        if made.failure_class not in ("skipped_read", "repeated_call", "ignored_filter", "malformed_call"):
            assert parse_call(made.text) not in episode.trajectory.calls, made


def test_a_wrong_argument_was_shown_before(planted):
    for episode, made in of_class(planted, "wrong_argument"):
        old, new = changed_argument(made)
        shown = shown_before(episode, made.turn)
        assert type(old) is type(new)
        assert str(new) in shown or set(numbers_in(str(new))) <= set(numbers_in(shown)) | set(numbers_in(str(old))), (
            made
        )


def test_a_hallucinated_value_is_shown_nowhere(planted):
    for episode, made in of_class(planted, "hallucinated_value"):
        old, new = changed_argument(made)
        shown = shown_before(episode, len(episode.turns))
        strange = set(numbers_in(str(new))) - set(numbers_in(shown))
        assert isinstance(old, str) == isinstance(new, str) and (strange or f"{new}" not in shown), made


def test_a_skipped_reading_is_never_made_and_its_numbers_are_not_used(planted):
    for episode, made in of_class(planted, "skipped_read"):
        call, later = parse_call(made.original), parse_call(made.text)
        assert later.tool != call.tool
        assert not any(c.tool == call.tool for c in episode.trajectory.calls[made.turn + 1 :] if later.tool == "calc")
        if later.tool == "calc":
            sums = [c for c in episode.trajectory.calls if c.tool == "calc"]
            assert any(len(numbers_in(c.args[0])) > len(numbers_in(later.args[0])) for c in sums)
        else:
            assert later in episode.trajectory.calls[made.turn + 1 :]


def test_a_premature_finish_is_the_last_tool_with_another_number_that_was_shown(planted):
    for episode, made in of_class(planted, "premature_finish"):
        call, last = parse_call(made.text), episode.trajectory.calls[-1]
        assert call.tool == last.tool and made.turn < len(episode.turns) - 1
        assert call.args != last.args and call.args[0] in numbers_in(shown_before(episode, made.turn))


def test_a_wrong_tool_gets_the_same_arguments_and_takes_their_kinds(planted):
    for episode, made in of_class(planted, "wrong_tool"):
        old, new = parse_call(made.original), parse_call(made.text)
        signature = episode.toolbox.signature
        assert old.args == new.args and old.tool != new.tool != "submit"
        assert list(signature(old.tool).values()) == list(signature(new.tool).values())


def test_a_repeated_call_was_made_before(planted):
    for episode, made in of_class(planted, "repeated_call"):
        assert parse_call(made.text) in episode.trajectory.calls[: made.turn]


def test_an_ignored_filter_is_a_call_before_the_listing_and_the_next_call_comes(planted):
    for episode, made in of_class(planted, "ignored_filter"):
        assert parse_call(made.original).tool == {"shopadmin": "filter", "anomaly": "window"}[episode.task.name]
        assert made.text == episode.turns[made.turn + 1].text


def test_a_dropped_item_leaves_a_sum_of_one_term_less(planted):
    for _, made in of_class(planted, "dropped_item"):
        old, new = changed_argument(made)
        assert old.count("+") == new.count("+") + 1 and evaluate(old) != evaluate(new)
        assert not Counter(numbers_in(new)) - Counter(numbers_in(old))


def test_a_malformed_call_holds_no_call(planted):
    assert len({made.text.split("(")[0].split()[0] for _, made in of_class(planted, "malformed_call")}) > 3
    for _, made in of_class(planted, "malformed_call"):
        with pytest.raises(CallSyntaxError):
            parse_call(made.text)


def test_a_term_may_be_a_product_or_stand_in_brackets(successes):
    sums = {made.original: made.text for s in range(9) for e in successes["attendance"] + successes["shopadmin"]
            for made in plant(e, s) if made.failure_class == "dropped_item"}  # fmt: skip
    assert any("*" in text for text in sums)
    assert any(text.startswith('calc("(') for text in sums)
    assert all(evaluate(parse_call(text).args[0]) < evaluate(parse_call(old).args[0]) for old, text in sums.items())


def test_equal_seeds_plant_the_same_and_other_seeds_other_turns(successes):
    [episode, *_] = successes["stock"]
    success = as_success(episode)
    assert plantings(success, 3) == plantings(success, 3)
    turns = {made.turn for seed in range(8) for made in plant(episode, seed) if made.failure_class == "malformed_call"}
    assert len(turns) > 2


def test_turns_that_were_not_answered_are_not_damaged(mock, played):
    [instance] = mock.instances("train", 1)
    [expert] = expert_episodes(STEPWISE, mock, [instance], Harness(), 12)
    texts = [turn.text for turn in expert.turns]
    episode = played(mock, instance, [texts[0], "hm", 'open("nothing")', *texts[1:]])
    assert episode.trajectory.success
    assert not {made.turn for seed in range(9) for made in plant(episode, seed)} & {1, 2}


def test_composites_and_the_other_call_format_are_planted_too(attendance, with_composite):
    harness = with_composite(attendance, hidden=True, more='[format]\ncall = "json"\n')
    [episode] = expert_episodes(STEPWISE, attendance, attendance.instances("train", 1), harness, 20)
    assert episode.trajectory.success
    made = {planting.failure_class: planting for seed in range(4) for planting in plant(episode, seed)}
    assert {"wrong_argument", "hallucinated_value", "premature_finish", "wrong_tool", "dropped_item"} <= made.keys()
    assert parse_call(made["dropped_item"].text, "json").tool == "calc"
    with pytest.raises(CallSyntaxError):
        parse_call(made["malformed_call"].text, "json")


def test_what_the_harness_mends_is_not_planted(attendance):
    harness = parse_harness('hooks.use = [{hook = "argument_repair"}]')
    [episode] = expert_episodes(STEPWISE, attendance, attendance.instances("train", 1), harness, 20)
    success = as_success(episode)
    made = [planting for seed in range(12) for planting in plant(episode, seed)]
    for planting in made:
        texts = [*success.texts[: planting.turn], planting.text]
        assert success.replay(texts).turns[-1].call != episode.turns[planting.turn].call
    assert any(planting.failure_class == "malformed_call" for planting in made)


# ---- what the student makes of it


def test_the_damage_stands_at_its_turn_and_the_student_goes_on_from_there(planted):
    pairs = [(e, made) for e, made in planted if e.task.name == "budget"]
    outcome = play_on(give_up, *[pair for pair in pairs if pair[0] is pairs[0][0]])
    assert (outcome.recovered, outcome.faults) == ([], []) and len(outcome.planted) >= 7
    for made in outcome.planted:
        texts = [turn.text for turn in made.trajectory.turns]
        assert texts[: made.turn] == [turn.text for turn in pairs[0][0].turns[: made.turn]]
        assert texts[made.turn] == made.text
        assert texts[made.turn + 1 :] == ([] if made.text.startswith("submit(") else ["submit(0)"])
        assert made.trajectory.model == "scripted" and made.trajectory.author == "student"


def test_an_episode_that_recovers_is_not_kept(planted):
    episode, made = of_class(planted, "malformed_call")[0]
    rest = [turn.text for turn in episode.turns[made.turn :]]

    def recover(request):
        return rest[(len(request.messages) - 2) // 2 - made.turn - 1]

    outcome = play_on(recover, (episode, made))
    assert outcome == ([], [made], [])


def test_a_fault_is_counted_and_is_no_failure(planted):
    def broken(request):
        raise EngineFault("no answer")

    episode, _ = planted[0]
    pairs = [
        (e, made) for e, made in planted if e is episode and made.failure_class in ("wrong_tool", "malformed_call")
    ]
    assert play_on(broken, *pairs) == ([], [], [made for _, made in pairs])


def test_planting_goes_on_until_each_class_has_as_many_failures_as_wanted(successes):
    pool = [as_success(e) for e in successes["shopadmin"]]
    planted, counts = plant_failures(ScriptedEngine(give_up), pool, 3, 24)
    assert [count["class"] for count in counts] == list(PLANTED)
    found = Counter(made.failure_class for made in planted)
    for count in counts:
        assert count["kept"] == found[count["class"]] == min(3, count["possible"])
        assert count["kept"] <= count["played"] <= 5 and count["recovered"] == count["faults"] == 0
    assert len({(id(m.success), m.failure_class, m.turn, m.text) for m in planted}) == len(planted)


def test_planting_ends_when_the_successes_offer_nothing_new(successes):
    [episode, *_] = successes["stock"]
    planted, counts = plant_failures(ScriptedEngine(give_up), [as_success(episode)], 1000, 24)
    assert all(count["kept"] == count["played"] == count["possible"] < 40 for count in counts)
    assert plant_failures(ScriptedEngine(give_up), [], 5, 24)[0] == []


def test_a_planted_failure_says_in_its_line_what_was_planted_where(successes):
    planted, _ = plant_failures(ScriptedEngine(give_up), [as_success(successes["budget"][0])], 1, 24)
    for made in planted:
        line = made.to_json()
        assert (line["turn"], line["class"], line["text"]) == (made.turn, made.failure_class, made.text)
        assert line["turns"][made.turn]["text"] == made.text != line["original"]
        assert Trajectory.from_json(line) == made.trajectory


# ---- scores


@pytest.fixture(scope="module")
def failures(planted):
    """The planted failures of two instances a task, where the student gives up after the damage."""
    kept = []
    for name in TASKS:
        pairs = [
            (e, made)
            for e, made in planted
            if e.task.name == name and made.success.instance.key.endswith(("/0000", "/0001"))
        ]
        kept += play_on(give_up, *pairs).planted
    return kept


def test_a_judgement_puts_the_turn_that_is_named_beside_the_planted_one(failures):
    def late(made):
        turn = None if made.failure_class == "wrong_tool" else made.turn + 1
        return Failure(made.trajectory.instance, turn, "other", "", method="late")

    rows = judge(failures, [late(made) for made in failures])
    assert len(rows) == len(failures) and {row["class"] for row in rows} == set(PLANTED)
    for row, made in zip(rows, failures):
        assert (row["method"], row["task"], row["planted"]) == ("late", made.trajectory.task, made.turn)
        assert row["found"] == (None if row["class"] == "wrong_tool" else made.turn + 1)


def test_the_oracle_finds_where_a_student_that_gives_up_was_derailed(failures):
    named = [localize(m.success.task, m.success.instance, Harness(), m.trajectory) for m in failures]
    rows = judge(failures, named)
    assert {row["method"] for row in rows} == {"oracle"}
    assert all(abs(row["found"] - row["planted"]) <= 1 for row in rows)
    # A call that comes too early but is needed anyway brings the end nearer: the turn after it is blamed.
    early = ("skipped_read", "ignored_filter")
    assert all(row["found"] == row["planted"] for row in rows if row["class"] not in early)


def test_the_planted_text_of_a_call_is_what_the_student_would_write(planted):
    for _, made in planted:
        if made.failure_class != "malformed_call":
            call = parse_call(made.text)
            assert isinstance(call, Call) and expert_text(call, Harness()) == made.text
