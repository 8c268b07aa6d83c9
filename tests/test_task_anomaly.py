"""The anomaly task: the expert solves it, nothing cheaper does, and the verdict sees every wrong end state."""

import random
import re
import subprocess
import sys
import tomllib
from collections import Counter

import pytest

from coevo_lib import preparation
from coevo_lib.agent import Episode, replay
from coevo_lib.arithmetic import evaluate, numbers_in
from coevo_lib.calls import Call, parse_call, render_call
from coevo_lib.expert import ScriptedExpert, play_expert
from coevo_lib.harness import Harness, parse_harness
from coevo_lib.rollouts import expert_episodes, random_episode
from coevo_lib.rows import turn_row
from coevo_lib.task import SPLITS, TASKS_DIR, DecidingWorld, load_task
from coevo_lib.tasks import anomaly

STEPWISE, DIRECT = ScriptedExpert(directness=0.0), ScriptedExpert(directness=1.0)
BOTH = """
[tools]
hide = [HIDE]
[[tools.composite]]
name = "machines_and_readings"
first = "machines"
each = "readings"
doc = "all at once"
"""
HARNESSES = {
    "h0": Harness(),
    "composite": parse_harness(BOTH.replace("HIDE", "")),
    "hidden": parse_harness(BOTH.replace("HIDE", '"machines", "readings"')),
}
BROAD = 20  # every template


@pytest.fixture(scope="module")
def task():
    made = load_task("anomaly")
    made.size = 3  # one size above the study's: more cases side by side
    return made


@pytest.fixture(scope="module")
def one(task):
    """An instance with one quiet machine and two that need an alarm."""
    return next(i for i in task.instances("train", 40, diversity=1) if len(i.data["alarms"]) == 2)


def sample(task, n=10, splits=SPLITS, **options):
    return [instance for split in splits for instance in task.instances(split, n, diversity=BROAD, **options)]


def run(task, instance, calls, harness=HARNESSES["h0"]):
    """Plays calls, or their texts, as the loop would: nothing is taken after the end."""
    episode = Episode(task, instance, harness, max_turns=60)
    for call in calls:
        if not episode.done:
            episode.step(call if isinstance(call, str) else render_call(call))
    if not episode.done:
        episode.trajectory.success = episode.world.verdict().success
    return episode


def right_calls(task, instance):
    [episode] = expert_episodes(STEPWISE, task, [instance], Harness(), max_turns=60)
    assert episode.trajectory.success
    return episode.trajectory.calls


def parts(instance):
    """(machines of the hall, those without an alarm, machines of the other hall)."""
    halls, hall = instance.data["halls"], instance.goal["hall"]
    [other] = [names for name, names in halls.items() if name != hall]
    return halls[hall], [m for m in halls[hall] if m not in instance.data["alarms"]], other


def seen(instance, start=None, end=None):
    """(machine, value, is it in range) of the hall's readings between two hours, by default those asked for."""
    start = instance.goal["start"] if start is None else start
    end = instance.goal["end"] if end is None else end
    found = []
    for machine, hour, value in instance.data["readings"]:
        low, high = instance.data["ranges"][machine]
        if machine in parts(instance)[0] and start <= hour <= end:
            found.append((machine, value, low <= value <= high))
    return found


def guess(instance, readings):
    """The calls of somebody who takes `readings` for the truth."""
    total = sum(value for _, value, inside in readings if instance.goal["kind"] == "all" or not inside)
    return [Call("alarm", (m,)) for m in sorted({m for m, _, ok in readings if not ok})] + [Call("submit", (total,))]


# ---- the expert


@pytest.mark.parametrize("name", HARNESSES)
@pytest.mark.parametrize("directness", [0.0, 0.5, 1.0])
def test_the_expert_solves_every_instance(task, name, directness):
    for episode in expert_episodes(ScriptedExpert(directness), task, sample(task), HARNESSES[name], max_turns=16):
        assert episode.trajectory.success, episode.instance.key
        assert all(turn.status == "ok" for turn in episode.turns)


@pytest.mark.parametrize("size", [1, 2, 5, 8, 12])
def test_the_expert_solves_every_size(task, size):
    for harness in HARNESSES.values():
        instances = sample(task, 3, ("train", "test"), size=size)
        assert all(len(parts(instance)[0]) == size for instance in instances)
        for episode in expert_episodes(STEPWISE, task, instances, harness, max_turns=60):
            assert episode.trajectory.success


def test_a_stepwise_episode_has_eleven_to_sixteen_turns_and_short_answers(task):
    for episode in expert_episodes(STEPWISE, task, sample(task, 30), Harness(), max_turns=20):
        assert 11 <= len(episode.turns) <= 16
        assert all(len(turn.observation) <= 60 for turn in episode.turns)
        assert (
            len(run(task, episode.instance, [f'readings("{parts(episode.instance)[0][0]}")']).turns[0].observation)
            <= 60
        )


@pytest.mark.parametrize("name", HARNESSES)
def test_the_direct_expert_takes_fewer_turns(task, name):
    for instance in sample(task, 3):
        [slow], [fast] = (
            expert_episodes(e, task, [instance], HARNESSES[name], max_turns=40) for e in (STEPWISE, DIRECT)
        )
        assert len(fast.turns) < len(slow.turns)


def asks(low, value, high):
    return Call("compare", (f"{value}<{low} or {value}>{high}",))


def blocks(instance):
    """Machine -> what a stepwise expert does about it once it was read: comparisons, the alarm right after a yes."""
    done = {machine: [] for machine in parts(instance)[0]}
    for machine, value, inside in seen(instance):
        (low, high), alarm = instance.data["ranges"][machine], Call("alarm", (machine,))
        if instance.goal["kind"] == "outside" or alarm not in done[machine]:
            raised = inside or alarm in done[machine]
            done[machine] += [asks(low, value, high), *([] if raised else [alarm])]
    return done


def without_repeats(calls):
    return list(dict.fromkeys(calls))


@pytest.mark.parametrize("name", HARNESSES)
def test_the_stepwise_expert_decides_about_a_machine_before_it_reads_the_next(task, name):
    for instance in sample(task, 8):
        hall, start, end = (instance.goal[key] for key in ("hall", "start", "end"))
        steps = blocks(instance)
        if name == "hidden":
            calls = [Call("machines_and_readings", (hall,)), *(call for block in steps.values() for call in block)]
        else:
            each = [[Call("readings", (machine,)), *block] for machine, block in steps.items()]
            calls = [Call("machines", (hall,)), *(call for block in each for call in block)]
        [episode] = expert_episodes(STEPWISE, task, [instance], HARNESSES[name], max_turns=20)
        wanted = without_repeats([Call("window", (start, end)), *calls])
        assert episode.trajectory.calls[:-2] == wanted
        assert [call.tool for call in episode.trajectory.calls[-2:]] == ["calc", "submit"]


def test_where_all_readings_are_summed_a_machine_is_compared_until_the_first_no(task):
    skipped = 0
    for instance in sample(task, 20):
        n = sum(call.tool == "compare" for call in right_calls(task, instance))
        readings = {(m, v) for m, v, _ in seen(instance)}
        ranges = {(*instance.data["ranges"][m], v) for m, v in readings}
        assert n <= len(ranges)
        assert n == len(ranges) or instance.goal["kind"] == "all"
        skipped += n < len(ranges)
    assert skipped > 10


@pytest.mark.parametrize("name", HARNESSES)
def test_the_direct_expert_reads_everything_first_and_decides_in_its_head(task, name):
    for instance in sample(task, 4):
        [episode] = expert_episodes(DIRECT, task, [instance], HARNESSES[name], max_turns=20)
        tools = [call.tool for call in episode.trajectory.calls]
        assert not {"compare", "calc"} & set(tools)
        assert set(tools[tools.index("alarm") :]) == {"alarm", "submit"}


@pytest.mark.parametrize("hide", [["compare"], ["compare", "calc"]])
def test_without_the_tool_that_compares_the_expert_decides_in_its_head(task, hide):
    for episode in expert_episodes(STEPWISE, task, sample(task, 4), parse_harness(f"[tools]\nhide = {hide}"), 20):
        assert episode.trajectory.success
        assert not set(hide) & {call.tool for call in episode.trajectory.calls}


@pytest.mark.parametrize("expert", [STEPWISE, DIRECT])
@pytest.mark.parametrize("name", HARNESSES)
def test_every_argument_of_the_expert_rests_on_the_messages_before_it(task, name, expert):
    for episode in expert_episodes(expert, task, sample(task, 8), HARNESSES[name], max_turns=40):
        for index, turn in enumerate(episode.turns):
            messages = turn_row(episode, index, turn.text)["messages"][1:-1]
            check_grounded(messages, parse_call(turn.text))


def check_grounded(messages, call):
    shown = "\n".join(message["content"] for message in messages)
    if call.tool == "submit":
        pattern = r"low (\d+), high (\d+)((?:, got \d+)+)"
        records = [(int(low), int(high), numbers_in(got)) for low, high, got in re.findall(pattern, shown)]
        outside = sum(v for low, high, got in records for v in got if not low <= v <= high)
        assert call.args[0] in (outside, sum(v for _, _, got in records for v in got))
        return
    for arg in call.args:
        if isinstance(arg, str) and not numbers_in(arg):
            assert re.search(rf"\b{re.escape(arg)}\b", shown), f"{arg} was never shown"
        else:
            assert set(numbers_in(str(arg))) <= set(numbers_in(shown)), f"{arg} was never shown"


def test_the_grounding_check_can_fail(task, one):
    messages = turn_row(run(task, one, []), 0, "")["messages"][1:-1]
    for call in (
        Call("alarm", (one.data["alarms"][0],)),
        Call("calc", ("1000+1",)),
        Call("compare", ("1000<=1001<=1002",)),
        Call("submit", (one.data["answer"],)),
    ):
        with pytest.raises(AssertionError):
            check_grounded(messages, call)


def detours(instance):
    """Odd but harmless beginnings of a student."""
    (first, *_), _, other = parts(instance)
    hall, start, end = (instance.goal[key] for key in ("hall", "start", "end"))
    asked, loud = f"window({start}, {end})", instance.data["alarms"][0]
    yield [f'machines("{hall}")', f'readings("{first}")']
    yield [f'machines("{hall}")', *(f'readings("{m}")' for m in parts(instance)[0])]
    yield [asked, "window(0, 23)", f'machines("{hall}")', f'readings("{first}")']
    yield [asked, f'machines("{hall}")', f'readings("{first}")', "window(0, 2)", f'readings("{first}")', asked]
    yield [f'alarm("{loud}")']
    yield [asked, f'machines("{hall}")', f'readings("{loud}")', f'alarm("{loud}")']
    yield ['machines("Nowhere")', "Let me see.", f'readings("{other[0]}")', 'calc("2+2")']
    yield [f"window({end}, {start})", "window(25, 26)", "hello()", f"window({start})", 'alarm("Nobody")']
    yield [f'calc("{instance.data["answer"]}")', asked, asked]
    names, compares = parts(instance)[0], [call for block in blocks(instance).values() for call in block[:1]]
    reads = [asked, f'machines("{hall}")', *(f'readings("{m}")' for m in names)]
    yield [*reads, *(f'alarm("{m}")' for m in instance.data["alarms"])]
    yield [*reads[:3], render_call(compares[0]), *reads[3:], render_call(compares[-1])]
    yield [*map(render_call, compares), 'compare("1<2")', 'compare("many")']
    yield [*reads, *(render_call(call).replace("<", " < ") for call in compares), f'alarm("{loud}")']
    yield [f'machines("{hall}")', f'readings("{loud}")', f'alarm("{loud}")', *map(render_call, compares), asked]


@pytest.mark.parametrize("persistence", [0.0, 1.0])
@pytest.mark.parametrize("directness", [0.0, 1.0])
def test_the_expert_recovers_from_a_harmless_detour(task, directness, persistence):
    for instance in sample(task, 2, ("train", "test")):
        for texts in detours(instance):
            for name in ("h0", "composite"):
                episode = run(task, instance, texts, HARNESSES[name])
                assert play_expert(ScriptedExpert(directness, persistence), episode).success, texts


def test_the_expert_goes_on_with_a_list_that_was_begun(task, one):
    (first, second, third), _, _ = parts(one)
    steps = blocks(one)
    window = f"window({one.goal['start']}, {one.goal['end']})"
    texts = [window, f'machines("{one.goal["hall"]}")', f'readings("{second}")']
    episode = run(task, one, texts, HARNESSES["composite"])
    play_expert(DIRECT, episode)
    wanted = [*steps[second], Call("readings", (first,)), *steps[first], Call("readings", (third,)), *steps[third]]
    assert episode.trajectory.calls[3:-2] == wanted
    assert episode.trajectory.success


def begun(task, instance, *more):
    """A student's episode that has set the window, listed the machines and read all of them."""
    reads = [call for call in right_calls(task, instance) if call.tool in ("window", "machines", "readings")]
    return run(task, instance, [*reads, *more]), len(reads) + len(more)


def test_where_somebody_has_read_several_machines_each_is_decided_in_turn(task, one):
    episode, done = begun(task, one)
    assert play_expert(DIRECT, episode).success
    assert episode.trajectory.calls[done:-2] == [call for block in blocks(one).values() for call in block]


def test_a_machine_with_its_alarm_is_compared_no_more(task, one):
    for loud in one.data["alarms"]:
        episode, done = begun(task, one, Call("alarm", (loud,)))
        assert play_expert(DIRECT, episode).success
        left = [call for machine, block in blocks(one).items() if machine != loud for call in block]
        assert episode.trajectory.calls[done:-2] == left


def test_a_comparison_is_made_once_and_in_the_own_words_of_the_expert(task, one):
    calls = [call for block in blocks(one).values() for call in block]
    compares = [call for call in calls if call.tool == "compare"]
    for asked in compares:
        episode, done = begun(task, one, asked)
        assert play_expert(DIRECT, episode).success
        assert Counter(episode.trajectory.calls[done:-2]) == Counter(call for call in calls if call != asked)
        episode, done = begun(task, one, Call("compare", (asked.args[0].replace("<", " < "),)))
        assert play_expert(DIRECT, episode).success
        assert episode.trajectory.calls[done:-2] == calls


def test_one_yes_is_enough_for_an_alarm_where_all_readings_are_summed(task):
    """Also where somebody compared the last reading first."""
    tried = 0
    for instance in (i for i in sample(task, 100, ("train",)) if i.goal["kind"] == "all"):
        for machine, block in blocks(instance).items():
            low, high = instance.data["ranges"][machine]
            values = [(value, inside) for m, value, inside in seen(instance) if m == machine]
            if [inside for _, inside in values] == [True, False]:
                asked = asks(low, values[1][0], high)
                episode, done = begun(task, instance, asked)
                assert play_expert(DIRECT, episode).success
                assert block[0] not in episode.trajectory.calls[done:]
                assert Call("alarm", (machine,)) in episode.trajectory.calls[done:]
                tried += 1
    assert tried > 3


def test_the_expert_reads_a_machine_once_in_each_window(task, one):
    texts = [render_call(call) for call in right_calls(task, one)]
    episode = run(task, one, [*texts[:4], "window(0, 3)", texts[0]])
    play_expert(STEPWISE, episode)
    assert [turn.text for turn in episode.turns[6:]] == texts[4:]


def test_the_expert_knows_no_way_after_a_wrong_alarm(task):
    for instance in sample(task, 4):
        loud, (quiet, *_), (other, *_) = instance.data["alarms"][0], parts(instance)[1], parts(instance)[2]
        for names in ([quiet], [other], [loud, loud]):
            episode = run(task, instance, [Call("alarm", (name,)) for name in names])
            trajectory = play_expert(STEPWISE, episode)
            assert not episode.done and not trajectory.success
            assert not episode.turns or trajectory.calls[-1].tool != "submit"


@pytest.mark.parametrize("text", [
    '[tools]\nhide = ["window"]', '[tools]\nhide = ["alarm"]', '[tools]\nhide = ["readings"]', '[tools]\nhide = ["submit"]',
    '[context.fields]\nreadings = ["got"]', '[context.fields]\nreadings = ["low", "high"]',
])  # fmt: skip
def test_the_expert_knows_no_way_where_the_harness_hides_what_it_needs(task, text):
    for episode in expert_episodes(STEPWISE, task, sample(task, 2), parse_harness(text), max_turns=20):
        assert not episode.done and all(turn.status == "ok" for turn in episode.turns)


# ---- what is cheaper fails


def test_the_readings_of_the_whole_day_mislead(task):
    for instance in sample(task, 60, ("select", "test")):
        whole = seen(instance, 0, 23)
        assert {m for m, _, inside in whole if not inside} == set(parts(instance)[0])
        assert parts(instance)[1], "one machine is out of range only outside the window"
        assert not run(task, instance, guess(instance, whole)).trajectory.success
        assert not run(
            task, instance, [*guess(instance, seen(instance))[:-1], guess(instance, whole)[-1]]
        ).trajectory.success
        assert run(task, instance, guess(instance, seen(instance))).trajectory.success


def test_other_shortcuts_fail(task):
    """All machines, the other number, boundary values as outside, the other hall: below 5% each."""
    instances, wins = sample(task, 100, ("test",)), dict.fromkeys(("all", "swapped", "none", "hall"), 0)
    for instance in instances:
        readings, right = seen(instance), guess(instance, seen(instance))
        tries = {
            "all": [*(Call("alarm", (m,)) for m in parts(instance)[0]), right[-1]],
            "swapped": [*right[:-1], Call("submit", (sum(v for _, v, ok in readings if ok),))],
            "none": right[-1:],
            "hall": [Call("alarm", (m,)) for m in parts(instance)[2]] + right[-1:],
        }
        for name, calls in tries.items():
            wins[name] += run(task, instance, calls).trajectory.success
    assert set(wins.values()) == {0}


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_a_machine_shows_one_or_two_readings_and_the_sum_has_two_terms_at_least(task, size):
    shown = Counter()
    for instance in sample(task, 40, ("train", "test"), size=size):
        readings = seen(instance)
        counts = Counter(machine for machine, _, _ in readings)
        assert set(counts) == set(parts(instance)[0])
        shown.update(counts.values())
        assert sum(instance.goal["kind"] == "all" or not inside for _, _, inside in readings) >= 2
    assert set(shown) == ({2} if size == 1 else {1, 2})


@pytest.mark.parametrize("size", [1, 3, 8])
def test_the_likeliest_number_is_below_five_percent(task, size):
    for diversity in (1, BROAD):
        answers = [i.data["answer"] for i in task.instances("select", 200, size=size, diversity=diversity)]
        assert max(map(answers.count, answers)) < 10


def test_doing_nothing_fails(task):
    for instance in sample(task, 4):
        assert not task.world(instance.data).verdict().success
        assert not run(task, instance, ["I give up."] * 4).trajectory.success
        assert not run(task, instance, ["submit(0)"]).trajectory.success


def test_random_calls_fail_under_every_harness(task):
    for harness in HARNESSES.values():
        played = [random_episode(task, i, harness, max_turns=16) for i in task.instances("select", 100)]
        assert sum(episode.trajectory.success for episode in played) < 5
        assert any(turn.status == "ok" for episode in played for turn in episode.turns)


def test_legal_calls_on_shown_items_fail_at_random_too(task):
    rng, wins = random.Random(5), 0
    for instance in task.instances("select", 60):
        episode, _ = begun(task, instance)
        numbers = [f"{n:g}" for turn in episode.turns[2:] for n in numbers_in(turn.observation)]
        texts = [f'alarm("{m}")' for m in parts(instance)[0] if rng.random() < 0.5]
        total = evaluate("+".join(rng.sample(numbers, rng.randint(2, 5))))
        for text in (*texts, f"submit({total})"):
            episode.step(text)
        wins += episode.trajectory.success
    assert wins < 3


# ---- the verdict


def damaged(task, instance, rng):
    """Wrong call lists, one wrong thing each, as (what is wrong, calls)."""
    calls = right_calls(task, instance)
    alarms = [place for place, call in enumerate(calls) if call.tool == "alarm"]
    place, (*before, submit), answer = rng.choice(alarms), calls, instance.data["answer"]
    _, quiet, other = parts(instance)
    terms = calls[-2].args[0].split("+")
    short = evaluate("+".join(terms[1:]))
    yield "no submit", before
    yield "no window, whole day", [c for c in guess(instance, seen(instance, 0, 23))]
    yield "hasty", [submit, *before]
    yield "no alarms", [c for c in calls if c.tool != "alarm"]
    yield "dropped alarm", calls[:place] + calls[place + 1 :]
    yield "duplicated alarm", calls[: place + 1] + calls[place:]
    for wrong in (rng.choice(quiet), rng.choice(other)):
        yield "wrong alarm", [*calls[:place], Call("alarm", (wrong,)), *calls[place + 1 :]]
        yield "extra alarm", [*before, Call("alarm", (wrong,)), submit]
    yield "odd case", [*calls[:place], Call("alarm", (calls[place].args[0].upper(),)), *calls[place + 1 :]]
    yield "spaces", [*calls[:place], Call("alarm", (f" {calls[place].args[0]} ",)), *calls[place + 1 :]]
    together = ", ".join([*instance.data["alarms"], "more"])
    yield "several in one", [*(c for c in before if c.tool != "alarm"), Call("alarm", (together,)), submit]
    for wrong in (answer + 1, answer - 1, -answer, answer / 10, answer + 0.01, short, answer + int(terms[0]), 0):
        yield "wrong number", [*before, Call("submit", (wrong,))]
    for wrong in ("nan", "inf", f"{answer} or so", ""):
        yield "no number", [*before, Call("submit", (wrong,))]


def test_every_damaged_call_list_is_refused(task):
    rng, refused = random.Random(7), 0
    for instance in sample(task, 4):
        for what, calls in damaged(task, instance, rng):
            assert not run(task, instance, calls).trajectory.success, (instance.key, what)
            refused += 1
    assert refused >= 200


def detoured(calls, instance, rng):
    """The right writes by another route: another order, harmless reads, errors in between."""
    writes = [call for call in calls if call.tool == "alarm"]
    noise = [
        'readings("Nothing")', "window(9, 3)", "window(0, 23)", "nonsense", 'calc("1/0")', 'calc("1+1")', 'alarm("Nobody")',
        f'machines("{instance.goal["hall"]}")', f'readings("{parts(instance)[2][0]}")', *(render_call(c) for c in calls[:-1] if c.tool != "alarm"),
    ]  # fmt: skip
    rng.shuffle(writes)
    texts = [render_call(call) for call in writes]
    for text in rng.sample(noise, 5):
        texts.insert(rng.randint(0, len(texts)), text)
    answer = instance.data["answer"]
    return [
        *texts,
        rng.choice([f"submit({answer})", f"submit({answer}.0)", f'submit("{answer}")', f"submit(answer={answer})"]),
    ]


def test_every_other_right_route_is_accepted(task):
    rng, accepted = random.Random(8), 0
    for instance in sample(task, 5):
        calls = right_calls(task, instance)
        for _ in range(3):
            episode = run(task, instance, detoured(calls, instance, rng))
            assert episode.trajectory.success, [turn.text for turn in episode.turns]
            accepted += 1
    assert accepted >= 50


def test_the_feedback_says_in_one_sentence_what_is_wrong(task, one):
    loud, other = one.data["alarms"]
    [quiet], answer = parts(one)[1], one.data["answer"]
    expected = {
        (): "No answer was submitted.",
        (f"submit({answer})",): "A machine that left its range during the window has no alarm.",
        (f'alarm("{loud}")', f'alarm("{quiet}")', f"submit({answer})"):
            "An alarm was raised for a machine that stayed in its range during the window.",
        (f'alarm("{loud}")', f'alarm("{other}")', f'alarm("{loud}")', f"submit({answer})"): "An alarm was raised twice for one machine.",
        (f'alarm("{loud}")', f'alarm("{other}")', "submit(1)"): "The submitted answer 1 is wrong.",
        (f'alarm("{loud}")', f'alarm("{other}")', f"submit({answer})"): f"The submitted answer {answer} is right.",
    }  # fmt: skip
    for texts, feedback in expected.items():
        assert run(task, one, texts).world.verdict().feedback == feedback


# ---- the tools


@pytest.mark.parametrize("text, message", [
    ('machines("Nowhere")', "error: hall: no hall 'Nowhere'"),
    ("machines()", "error: machines takes 1 argument (hall), got 0"),
    ('readings("Nobody")', "error: machine: no machine 'Nobody'"),
    ('alarm("Nobody")', "error: machine: no machine 'Nobody'"),
    ("alarm(3)", "error: machine: no machine '3'"),
    ("window(24, 25)", "error: starts: 24 is no hour; hours go from 0 to 23"),
    ("window(-1, 5)", "error: starts: -1 is no hour; hours go from 0 to 23"),
    ("window(3, 30)", "error: ends: 30 is no hour; hours go from 0 to 23"),
    ("window(9, 3)", "error: ends: 3 is earlier than 9, where the window starts"),
    ("window(9)", "error: window takes 2 arguments (starts, ends), got 1"),
    ('window("noon", 13)', "error: starts: 'noon' is not a number"),
    ("window(1e999, 13)", "error: starts: inf is not a number"),
    ('submit("much")', "error: answer: 'much' is not a number"),
    ("compare()", "error: compare takes 1 argument (comparison), got 0"),
    ('compare("low<=15<=high")', "error: comparison: not a sum; use numbers and + - * / ( )"),
])  # fmt: skip
def test_a_tool_that_refuses_names_the_argument(task, one, text, message):
    episode = run(task, one, [text])
    assert episode.turns[0].observation == message
    assert episode.world.alarms == [] and episode.world.hours == (0, 23)


def test_the_window_decides_which_readings_are_shown(task, one):
    name, *_ = parts(one)[0]
    low, high = one.data["ranges"][name]
    rows = [(hour, value) for machine, hour, value in one.data["readings"] if machine == name]
    for start, end in (
        (0, 23),
        (one.goal["start"], one.goal["end"]),
        (rows[0][0], rows[0][0]),
        (rows[1][0], rows[-1][0]),
    ):
        told, shown = (
            turn.observation for turn in run(task, one, [f"window({start}, {end})", f'readings("{name}")']).turns
        )
        assert told == f"hours {start} to {end}"
        assert shown == ", ".join([f"low {low}", f"high {high}", *(f"got {v}" for h, v in rows if start <= h <= end)])
    assert numbers_in(run(task, one, [f'readings("{name}")']).turns[0].observation)[2:] == [v for _, v in rows]


def test_a_value_on_the_boundary_is_in_range(task):
    edge = [
        (instance, m)
        for instance in sample(task, 40, ("train",))
        for m, value, inside in seen(instance)
        if value in instance.data["ranges"][m] and inside
    ]
    assert len(edge) > 10
    assert any(m not in instance.data["alarms"] for instance, m in edge)


def test_a_replay_is_exact(task):
    for harness in HARNESSES.values():
        for instance in sample(task, 2):
            [planned] = expert_episodes(ScriptedExpert(), task, [instance], harness, max_turns=30)
            for episode in (planned, random_episode(task, instance, harness, max_turns=30)):
                texts = [turn.text for turn in episode.turns]
                again = replay(task, instance, harness, texts, max_turns=30).trajectory.to_json()
                assert {**again, "author": ""} == {
                    **episode.trajectory.to_json(),
                    "author": "",
                    "model": again["model"],
                }


def test_worlds_of_one_instance_do_not_share_state(task, one):
    before = repr(one.data)
    run(task, one, right_calls(task, one))
    assert repr(one.data) == before and task.world(one.data).alarms == []


# ---- texts and words


def test_every_prompt_shows_what_is_asked(task):
    for instance in sample(task, 30, ("train", "test")):
        for key in ("hall", "start", "end", "kind"):
            assert re.search(rf"\b{instance.goal[key]}\b", instance.prompt), instance.prompt
    templates = task.templates.values()
    plain = [t for t in templates if not t.get("test_only")]
    assert len(plain) >= 8 and len(templates) - len(plain) == 2
    assert {t["kind"] for t in plain} == {"outside", "all"}
    assert len({t["text"] for t in templates}) == len(templates)


def test_no_word_of_the_task_is_one_of_the_generic_rows(task):
    text = (TASKS_DIR.parent / "preparation.toml").read_text(encoding="utf-8")
    listed = {word.lower() for words in tomllib.loads(text).values() for word in words}
    rows = "\n".join(m["content"] for row in preparation.generic_rows(400) for m in row["messages"])
    used = listed | set(re.findall(r"[a-z_]+", rows.lower()))
    tools = task.world.tools()
    words = {*tools, *(argument for kinds in tools.values() for argument in kinds)} - {
        *DecidingWorld.tools(),
        *(argument for kinds in DecidingWorld.tools().values() for argument in kinds),
    }
    words |= {name.lower() for name in (*anomaly.HALLS, *anomaly.MACHINES, "low", "high", "got")}
    assert words & used == set()
    assert len(set(anomaly.MACHINES)) == len(anomaly.MACHINES) >= 20


def test_importing_the_task_does_not_import_pandas():
    code = "import sys, coevo_lib.tasks.anomaly; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
