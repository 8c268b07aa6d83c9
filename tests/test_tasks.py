"""The shipped tasks: the expert solves them, nothing cheaper does, and what the expert does rests on what it saw."""

import random

import pytest

from coevo_lib.agent import Episode, replay
from coevo_lib.arithmetic import numbers_in
from coevo_lib.calls import Call, render_call
from coevo_lib.expert import ScriptedExpert, play_expert
from coevo_lib.harness import Harness, parse_harness
from coevo_lib.rollouts import expert_episodes, random_episode
from coevo_lib.rows import turn_row
from coevo_lib.task import SPLITS

NAMES = ("attendance", "shopadmin", "mock")
GUARDED = """
[hooks]
use = [
  {hook = "loop_breaker"}, {hook = "ledger", each = "EACH"}, {hook = "unread_list", first = "FIRST", each = "EACH"},
  {hook = "finish_guard", tools = ["submit", "calc"], first = "FIRST", each = "EACH"}, {hook = "reminder", every = 2},
  {hook = "grounding_guard", tools = ["calc"]}, {hook = "coverage_guard", tools = ["calc"], each = "EACH", share = 0.3},
]
"""


@pytest.fixture(params=NAMES)
def task(request, tasks):
    return tasks[request.param]


def sample(task, n=12):
    return [instance for split in SPLITS for instance in task.instances(split, n)]


@pytest.mark.parametrize("directness", [0.0, 0.5, 1.0])
def test_the_expert_solves_every_instance_under_every_harness(task, harnesses, directness):
    for harness in harnesses(task):
        for episode in expert_episodes(
            ScriptedExpert(directness=directness), task, sample(task), harness, max_turns=40
        ):
            assert episode.trajectory.success, (episode.instance.key, harness.elements())
            assert all(turn.status == "ok" for turn in episode.turns)


def test_the_expert_passes_every_guard_of_a_harness(task, with_composite):
    first, each = [name for name in task.world.tools() if name != "filter"][:2]
    harness = parse_harness(GUARDED.replace("FIRST", first).replace("EACH", each))
    for episode in expert_episodes(ScriptedExpert(directness=0.0), task, sample(task, 6), harness, max_turns=40):
        assert episode.trajectory.success


def test_a_longer_instance_takes_more_turns(task):
    lengths = []
    for size in (1, 2, 4):
        [instance] = task.instances("train", 1, size=size)
        episode = Episode(task, instance, Harness(), max_turns=60)
        assert play_expert(ScriptedExpert(directness=0.0), episode).success
        lengths.append(len(episode.turns))
    assert lengths == sorted(set(lengths))


@pytest.mark.parametrize("directness", [0.0, 1.0])
def test_every_argument_of_the_expert_stands_in_the_messages_before_it(task, harnesses, directness, assert_grounded):
    for harness in harnesses(task):
        for episode in expert_episodes(
            ScriptedExpert(directness=directness), task, sample(task, 8), harness, max_turns=40
        ):
            for index, turn in enumerate(episode.turns):
                messages = turn_row(episode, index, turn.text)["messages"][:-1]
                assert_grounded(task.name, messages, turn.text)


@pytest.mark.parametrize("keep", [1, 3, 4])
def test_the_expert_forgets_what_the_context_rule_removes(mock, assert_grounded, keep):
    harness = parse_harness(f"context.keep = {keep}")
    for episode in expert_episodes(
        ScriptedExpert(directness=0.0), mock, mock.instances("train", 3), harness, max_turns=12
    ):
        for index, turn in enumerate(episode.turns):
            assert_grounded("mock", turn_row(episode, index, turn.text)["messages"][:-1], turn.text)


def test_the_grounding_check_itself_catches_what_was_not_shown(mock, assert_grounded):
    """Guards the test above: it has to be able to fail."""
    [instance] = mock.instances("train", 1)
    [episode] = expert_episodes(ScriptedExpert(directness=0.0), mock, [instance], Harness(), max_turns=40)
    box = next(iter(instance.data["boxes"]))
    with pytest.raises(AssertionError, match="never shown"):
        assert_grounded("mock", turn_row(episode, 0, "")["messages"][:-1], f'open("{box}")')
    with pytest.raises(AssertionError, match="never shown"):
        assert_grounded("mock", turn_row(episode, 2, "")["messages"][:-1], 'calc("1000+1")')
    with pytest.raises(AssertionError):
        assert_grounded("mock", turn_row(episode, 2, "")["messages"][:-1], f"submit({instance.data['answer']})")


def test_doing_nothing_fails(task):
    for instance in sample(task, 4):
        assert not task.world(instance.data).verdict().success
        idle = replay(task, instance, Harness(), ["I give up."] * 4, max_turns=16)
        assert idle.done and not idle.trajectory.success
        hasty = replay(task, instance, Harness(), ["submit(0)"], max_turns=16)
        assert hasty.trajectory.status == "finished" and not hasty.trajectory.success


def test_random_calls_fail_under_every_harness(task, harnesses):
    for harness in harnesses(task):
        played = [random_episode(task, instance, harness, max_turns=16) for instance in task.instances("select", 100)]
        assert sum(episode.trajectory.success for episode in played) < 10, harness.elements()
        assert any(turn.status == "ok" for episode in played for turn in episode.turns)


def legal_random_episode(task, instance, harness, seed):
    """A stricter caller than the library's: all its calls are legal, on items that it was shown."""
    rng, episode = random.Random(f"{seed} {instance.key}"), Episode(task, instance, harness, max_turns=16)
    goal = [str(value) for value in instance.goal.values() if str(value) in instance.prompt]
    while not episode.done:
        listed = [str(item) for fact in episode.trajectory.facts if isinstance(fact.value, list) for item in fact.value]
        numbers = [f"{n:g}" for n in numbers_in("\n".join(turn.observation for turn in episode.turns))]
        options = [render_call(Call("calc", ("+".join(rng.choices(numbers, k=rng.randint(2, 9))),)))] if numbers else []
        options += [f"submit({rng.choice(numbers)})"] if numbers else []
        for name in {*episode.toolbox.visible} - {"calc", "submit"}:
            kinds = list(episode.toolbox.signature(name).values())
            values = [item for item in [*goal, *listed] if kinds == [str] or item.isdigit()]
            options += (
                [render_call(Call(name, tuple(kind(rng.choice(values)) for kind in kinds)))]
                if values or not kinds
                else []
            )
        episode.step(rng.choice(options))
    return episode


@pytest.mark.parametrize("name", ["attendance", "shopadmin"])
def test_legal_calls_on_shown_items_fail_at_random_too(tasks, name, harnesses):
    task = tasks[name]
    for harness in harnesses(task):
        played = [legal_random_episode(task, instance, harness, 0) for instance in task.instances("select", 60)]
        assert sum(episode.trajectory.success for episode in played) < 6
        first, each = [tool for tool in task.world.tools() if tool != "filter"][:2]
        assert any(fact.call.tool == each for episode in played for fact in episode.trajectory.facts), (
            "some got as far as reading"
        )


@pytest.mark.parametrize("name", ["attendance", "shopadmin"])
def test_a_guess_of_the_likeliest_answer_is_below_five_percent(tasks, name):
    instances = tasks[name].instances("select", 200)
    answers = [instance.data["answer"] for instance in instances]
    likeliest = max(answers, key=answers.count)
    assert answers.count(likeliest) < 10


def test_a_replay_is_exact(task, harnesses):
    for harness in harnesses(task):
        for instance in task.instances("train", 6):
            [planned] = expert_episodes(ScriptedExpert(), task, [instance], harness, max_turns=30)
            for episode in (planned, random_episode(task, instance, harness, max_turns=30)):
                texts = [turn.text for turn in episode.turns]
                again = replay(task, instance, harness, texts, max_turns=30)
                assert again.trajectory.to_json()["turns"] == episode.trajectory.to_json()["turns"]
                assert (again.trajectory.success, again.trajectory.status) == (
                    episode.trajectory.success,
                    episode.trajectory.status,
                )


@pytest.mark.parametrize("name, text, message", [
    ("attendance", 'staff("Nowhere")', "error: team: no team 'Nowhere'"),
    ("attendance", 'hours("Nobody")', "error: name: nobody called 'Nobody'"),
    ("attendance", 'hours()', "error: hours takes 1 argument (name), got 0"),
    ("attendance", 'calc("a+b")', "error: expression: not a sum; use numbers and + - * / ( )"),
    ("attendance", 'calc("1/0")', "error: expression: division by zero"),
    ("attendance", 'submit("much")', "error: answer: 'much' is not a number"),
    ("shopadmin", 'filter("lost")', "error: status: no status 'lost'; there are all, complete, pending, canceled, refunded, shipped"),
    ("shopadmin", "page(99)", "error: number: no page 99"),
    ("shopadmin", "page(-1)", "error: number: no page -1"),
    ("shopadmin", 'page("first")', "error: number: 'first' is not a number"),
    ("mock", 'open("plaid")', "error: box: no box 'plaid'"),
    ("mock", 'boxes("red")', "error: boxes takes 0 arguments (), got 1"),
])  # fmt: skip
def test_a_tool_that_refuses_names_the_argument(tasks, played, name, text, message):
    [instance] = tasks[name].instances("train", 1)
    assert played(tasks[name], instance, [text]).turns[0].observation == message


def test_planned_hours_are_not_the_answer(attendance, played):
    """The first number of each record is the tempting one."""
    right = 0
    instances = attendance.instances("test", 120)
    for instance in instances:
        records = [instance.data["records"][name] for name in instance.data["teams"][instance.goal["team"]]]
        assert all(record["planned"] != record["worked"] for record in records)
        total = sum(r["planned"] * (r["rate"] if instance.goal["kind"] == "pay" else 1) for r in records)
        right += played(attendance, instance, [f"submit({total})"]).trajectory.success
    assert right / len(instances) < 0.05


def test_unfiltered_orders_are_not_the_answer(shopadmin, played):
    """The list opens with orders of every status."""
    right = 0
    instances = shopadmin.instances("test", 120)
    for instance in instances:
        amounts = [order["amount"] for order in instance.data["orders"]]
        total = sum(amounts) / (len(amounts) if instance.goal["kind"] == "average" else 1)
        right += played(shopadmin, instance, [f"submit({total})"]).trajectory.success
    assert right / len(instances) < 0.05


def test_one_person_or_page_too_few_is_not_enough(task):
    """Leaving out the last reading step of the expert's plan changes the sum."""
    for instance in task.instances("test", 20):
        [episode] = expert_episodes(ScriptedExpert(directness=0.0), task, [instance], Harness(), max_turns=40)
        *reads, calc, submit = episode.trajectory.calls
        terms = calc.args[0].split("+")
        short = "+".join(terms[:-1]).lstrip("(")
        texts = [render_call(call) for call in reads[:-1]] + [render_call(Call("calc", (short,)))]
        partial = replay(task, instance, Harness(), texts)
        partial.step(f"submit({partial.turns[-1].observation})")
        assert partial.world.finished and not partial.trajectory.success


def test_the_filter_decides_what_the_pages_show(shopadmin, played):
    [instance] = shopadmin.instances("train", 1)
    status = instance.goal["status"]
    episode = played(shopadmin, instance, ["pages()", f'filter("{status}")', "pages()", "page(1)"])
    open_pages, told, pages, page = [turn.observation for turn in episode.turns]
    wanted = [o for o in instance.data["orders"] if o["status"] == status]
    assert told == f"{status}: {len(wanted)} orders"
    assert len(open_pages) > len(pages)
    assert page == ", ".join(f"#{o['id']} paid {o['amount']}" for o in wanted[:3])


def test_the_expert_needs_only_the_fields_that_the_question_is_about(tasks):
    """A harness may hide the other fields of a record; hiding a needed one leaves the expert without a way."""
    task = tasks["attendance"]
    expert = ScriptedExpert(directness=0.5)
    hours = [i for i in task.instances("train", 12) if i.goal["kind"] == "hours"]
    pay = [i for i in task.instances("train", 12) if i.goal["kind"] == "pay"]
    harness = parse_harness('[context.fields]\nhours = ["worked"]')
    assert all(e.trajectory.success for e in expert_episodes(expert, task, hours, harness, max_turns=40))
    assert pay and not any(e.trajectory.success for e in expert_episodes(expert, task, pay, harness, max_turns=40))
