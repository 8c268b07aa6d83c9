"""budget: the expert settles every wish from what it saw, and no other end state or shortcut passes for a success."""

import random
import re
import tomllib
from pathlib import Path

import pytest

from coevo_lib import preparation
from coevo_lib.agent import Episode, replay
from coevo_lib.arithmetic import numbers_in
from coevo_lib.calls import Call, render_call
from coevo_lib.expert import ScriptedExpert, play_expert
from coevo_lib.harness import Harness, parse_harness
from coevo_lib.rollouts import expert_episodes, random_episode
from coevo_lib.task import SPLITS, load_task
from coevo_lib.tasks import budget
from coevo_lib.toolbox import show_facts

COMPOSITE = '[[tools.composite]]\nname = "read_it"\nfirst = "managers"\neach = "wish"\ndoc = "all at once"\n'
HARNESSES = [
    Harness(),
    parse_harness(f"[tools]\n{COMPOSITE}"),
    parse_harness(f'[tools]\nhide = ["managers", "wish"]\n{COMPOSITE}'),
]
GUARDED = """
[hooks]
use = [
  {hook = "loop_breaker"}, {hook = "unread_list", first = "managers", each = "decide"},
  {hook = "ledger", each = "wish"}, {hook = "order_guard", tools = ["decide"], before = "price"},
  {hook = "finish_guard", tools = EARLY, first = "managers", each = "wish"},
  {hook = "finish_guard", tools = ["submit"], first = "managers", each = "decide"}, {hook = "reminder", every = 2},
  {hook = "grounding_guard", tools = ["calc", "compare", "decide", "price", "wish"]},
]
"""
ALL = 12  # more than there are templates


@pytest.fixture(scope="module")
def task():
    made = load_task("budget")
    made.size = 3  # one size above the study's: more cases side by side
    return made


def due_of(instance, name, price=None):
    wish = instance.data["wishes"][name]
    return wish["quantity"] * instance.data["catalogue"][wish["product"]][price or instance.goal["price"]]


def budget_of(instance, name):
    return instance.data["wishes"][name]["budget"]


def total_of(instance, decisions, price=None):
    return sum(due_of(instance, n, price) for n, d in decisions.items() if d == instance.goal["kind"])


def other(decision):
    return "reject" if decision == "approve" else "approve"


def messages(decisions):
    return [Call("decide", pair) for pair in decisions.items()]


def succeeds(task, instance, decisions, total):
    return ends(task, instance, [*messages(decisions), Call("submit", (total,))]).trajectory.success


def ends(task, instance, calls):
    return replay(task, instance, Harness(), [render_call(call) for call in calls], max_turns=len(calls) + 1)


# ---- the expert


@pytest.mark.parametrize("directness", [0.0, 0.5, 1.0])
def test_the_expert_solves_every_instance_under_every_harness(task, directness):
    for harness in HARNESSES:
        for split in SPLITS:
            instances = task.instances(split, 12, diversity=ALL)
            for episode in expert_episodes(ScriptedExpert(directness=directness), task, instances, harness, 16):
                assert episode.trajectory.success, (episode.instance.key, harness.elements())
                assert all(turn.status == "ok" for turn in episode.turns)


@pytest.mark.parametrize("directness", [0.0, 1.0])
def test_the_expert_passes_every_guard_of_a_harness_and_chance_does_not(task, directness):
    # Step by step, a manager is told before the next wish is read.
    early = ["submit", "calc", "decide"] if directness else ["submit", "calc"]
    harness = parse_harness(GUARDED.replace("EARLY", str(early)))
    for size in (1, 3, 8):
        instances = task.instances("test", 12, size=size, diversity=ALL)
        for episode in expert_episodes(ScriptedExpert(directness=directness), task, instances, harness, 40):
            assert episode.trajectory.success and all(turn.status == "ok" for turn in episode.turns)
    assert not any(
        random_episode(task, i, harness, max_turns=16).trajectory.success for i in task.instances("select", 30)
    )


def test_step_by_step_takes_up_to_14_turns_and_batched_fewer(task):
    def lengths(directness, harness):
        episodes = expert_episodes(
            ScriptedExpert(directness=directness), task, task.instances("train", 20), harness, 20
        )
        return {len(episode.turns) for episode in episodes}

    assert lengths(0.0, HARNESSES[0]) == {14} and lengths(0.0, HARNESSES[2]) == {11}
    assert lengths(1.0, HARNESSES[0]) == {10} and lengths(1.0, HARNESSES[1]) == {7}


def plan(instance):
    """The stepwise plan, from the data: a manager is told before the next wish is read."""
    yield Call("managers", (instance.goal["department"],))
    wishes, priced = instance.data["wishes"], set()
    for name in instance.data["departments"][instance.goal["department"]]:
        yield Call("wish", (name,))
        if wishes[name]["product"] not in priced:
            yield Call("price", (wishes[name]["product"],))
        priced.add(wishes[name]["product"])
        yield Call("compare", (f"{product_of(instance, name)}<={budget_of(instance, name)}",))
        yield Call("decide", (name, instance.data["decisions"][name]))
    counted = [n for n, decision in instance.data["decisions"].items() if decision == instance.goal["kind"]]
    yield Call("calc", ("+".join(product_of(instance, name) for name in counted),))
    yield Call("submit", (instance.data["answer"],))


def product_of(instance, name):
    wish = instance.data["wishes"][name]
    return f"{wish['quantity']}*{instance.data['catalogue'][wish['product']][instance.goal['price']]}"


def test_the_stepwise_expert_compares_and_decides_before_it_reads_the_next_wish(task):
    instances = task.instances("test", 24, diversity=ALL)
    for episode in expert_episodes(ScriptedExpert(directness=0.0), task, instances, Harness(), 20):
        assert episode.trajectory.calls == list(plan(episode.instance))
    for episode in expert_episodes(ScriptedExpert(directness=0.0), task, instances, HARNESSES[2], 20):
        rest = [call for call in plan(episode.instance) if call.tool not in ("managers", "wish")]
        assert episode.trajectory.calls[1:] == rest


def test_the_direct_expert_reads_every_wish_and_decides_in_its_head(task):
    for harness, reads in ((HARNESSES[0], ["managers", *["wish"] * 3]), (HARNESSES[1], ["read_it"])):
        instances = task.instances("test", 24, diversity=ALL)
        for episode in expert_episodes(ScriptedExpert(directness=1.0), task, instances, harness, 20):
            tools = [call.tool for call in episode.trajectory.calls]
            assert tools[: len(reads)] == reads and tools[-1] == "submit"
            assert {*tools[len(reads) : -1]} == {"price", "decide"}


def test_every_size_is_solved_and_a_longer_instance_takes_more_turns(task):
    lengths = []
    for size in (1, 2, 3, 5, 8, 12):
        for instance in task.instances("select", 5, size=size, diversity=4):
            episode = Episode(task, instance, Harness(), max_turns=60)
            assert play_expert(ScriptedExpert(directness=0.0), episode).success
        lengths.append(len(episode.turns))
    assert lengths == sorted(set(lengths))


def read_from(messages, goal):
    """Manager -> (due, decision), worked out from nothing but the text of the messages."""
    prompt, *rest = [message["content"] for message in messages[1:]]
    seen = list(zip(rest[::2], rest[1::2]))
    counts = re.search(r"\b(shop|contract) price", prompt)[1]
    prices = {text[7:-2]: re.search(rf"\b{counts} (\d+)", said)[1] for text, said in seen if text.startswith("price(")}
    wishes = {text[6:-2]: said for text, said in seen if text.startswith("wish(")}
    wishes |= dict(re.findall(r"^(\w+): (wants .*)$", "\n".join(said for _, said in seen), re.M))
    found = {}
    for name, said in wishes.items():
        quantity, product, limit = re.fullmatch(r"wants (\d+) (\w+), budget (\d+)", said).groups()
        if product in prices:
            due = int(quantity) * int(prices[product])
            found[name] = due, "approve" if due <= int(limit) else "reject"
    return found


def assert_grounded(episode):
    for index, turn in enumerate(episode.turns):
        before = replay(episode.task, episode.instance, episode.harness, [t.text for t in episode.turns[:index]])
        said = before.messages()
        shown = "\n".join(message["content"] for message in said[1:])
        if turn.call.tool == "decide":
            assert read_from(said, episode.instance.goal)[turn.call.args[0]][1] == turn.call.args[1]
        elif turn.call.tool == "submit":
            asked = re.findall(r"approve|reject", re.split(r"[.:?] ", said[1]["content"])[-1])
            dues = [due for due, decision in read_from(said, episode.instance.goal).values() if decision in asked]
            assert len(asked) == 1 and turn.call.args == (sum(dues),)
        else:
            for arg in turn.call.args:
                words = numbers_in(arg) if turn.call.tool in ("calc", "compare") else []
                assert words or re.search(rf"\b{arg}\b", shown), f"{arg} was never shown"
                assert set(words) <= set(numbers_in(shown)), f"a number of {arg} was never shown"


@pytest.mark.parametrize("directness", [0.0, 1.0])
def test_every_argument_of_the_expert_rests_on_the_messages_before_it(task, directness):
    for harness in HARNESSES:
        instances = task.instances("test", 12, diversity=ALL)
        for episode in expert_episodes(ScriptedExpert(directness=directness), task, instances, harness, 20):
            assert_grounded(episode)


def test_the_grounding_check_itself_catches_what_was_not_shown(task):
    [instance] = task.instances("train", 1)
    name = next(iter(instance.data["decisions"]))
    for text in (f'wish("{name}")', 'calc("71*83")', 'compare("71*83<=97")'):
        with pytest.raises(AssertionError, match="never shown"):
            assert_grounded(replay(task, instance, Harness(), [text]))
    with pytest.raises(KeyError):
        assert_grounded(replay(task, instance, Harness(), [f'decide("{name}", "approve")']))


def detour(task, instance, rng, steps):
    """A student who reads, calculates, errs and sends right decisions, in any order; it never submits."""
    left = list(instance.data["decisions"].items())
    rng.shuffle(left)
    episode = Episode(task, instance, Harness(), max_turns=80)
    for _ in range(steps):
        options = [
            Call("managers", (rng.choice(list(instance.data["departments"])),)),
            Call("wish", (rng.choice(list(instance.data["wishes"])),)),
            Call("price", (rng.choice(list(instance.data["catalogue"])),)),
            Call("calc", (f"{rng.randint(2, 8)}*{rng.randint(11, 29)}",)),
            Call("compare", (f"{rng.randint(2, 8)}*{rng.randint(11, 29)}<={rng.randint(20, 200)}",)),
            Call("wish", ("Nobody",)),
            Call("decide", (rng.choice(list(instance.data["wishes"])), "maybe")),
        ]
        if left and rng.random() < 0.3:
            options = [Call("decide", left.pop())]
        episode.step(render_call(rng.choice(options)))
    return episode


EXPERTS = [ScriptedExpert(directness=d, persistence=p) for d in (0.0, 1.0) for p in (0.0, 1.0)]


@pytest.mark.parametrize("expert", EXPERTS, ids=str)
def test_the_expert_finishes_what_a_student_began_in_any_harmless_way(task, expert):
    rng = random.Random(3)
    for instance in task.instances("train", 25, diversity=ALL):
        episode = detour(task, instance, rng, rng.randint(1, 12))
        begun = len(episode.turns)
        if episode.done:
            continue  # six troubles in a row end an episode
        assert play_expert(expert, episode).success, [turn.text for turn in episode.turns]
        assert all(turn.status == "ok" for turn in episode.turns[begun:])
        repeats = [c for c in (t.call for t in episode.turns[begun:]) if c in [t.call for t in episode.turns[:begun]]]
        assert all(call.tool == "calc" for call in repeats)


def test_a_persistent_expert_goes_on_one_by_one_and_a_direct_one_reads_first(task):
    for instance in task.instances("train", 12):
        whole = list(plan(instance))
        second = [i for i, call in enumerate(whole) if call.tool == "wish"][1] + 1
        for persistence, directness in ((1.0, 1.0), (0.0, 0.0)):
            episode = continued(task, instance, whole[:second], directness, persistence)
            assert episode.trajectory.success and episode.trajectory.calls == whole
        direct = continued(task, instance, whole[:second], 1.0, 0.0)
        assert direct.trajectory.success and direct.trajectory.calls[second].tool == "wish"
        assert not {call.tool for call in direct.trajectory.calls[second:]} & {"compare", "calc"}


def test_a_persistent_expert_does_not_mind_what_was_read_or_told_before(task):
    for instance in task.instances("train", 12, diversity=ALL):
        whole = list(plan(instance))
        reads = [call for call in whole if call.tool in ("managers", "wish")]
        rest = [call for call in whole if call not in reads]
        assert continued(task, instance, reads).trajectory.calls == [*reads, *rest]
        told = [*reads, *messages(instance.data["decisions"])]  # nothing is left to compare
        after = continued(task, instance, told).trajectory.calls[len(told) :]
        assert after == [call for call in rest if call.tool not in ("compare", "decide")]


def test_only_its_own_comparison_counts(task):
    for instance in task.instances("train", 12, diversity=ALL):
        whole = list(plan(instance))
        own = next(i for i, call in enumerate(whole) if call.tool == "compare")
        left, right = whole[own].args[0].split("<=")
        for other in (f"{right}>={left}", f"{right}<{left}", f"{left}<{right}"):
            calls = [*whole[:own], Call("compare", (other,))]
            assert continued(task, instance, calls).trajectory.calls == [*calls, *whole[own:]]
        early = continued(task, instance, [whole[own], *whole[:own]]).trajectory
        assert early.success and early.calls[own + 1 :] == whole[own + 1 :]


def continued(task, instance, calls, directness=0.0, persistence=1.0):
    episode = replay(task, instance, Harness(), [render_call(call) for call in calls], max_turns=40)
    play_expert(ScriptedExpert(directness=directness, persistence=persistence), episode)
    return episode


@pytest.mark.parametrize("expert", EXPERTS, ids=str)
def test_the_expert_gives_up_once_a_message_is_wrong(task, expert):
    for instance in task.instances("train", 8, diversity=4):
        decisions = instance.data["decisions"]
        name, stranger = next(iter(decisions)), next(n for n in instance.data["wishes"] if n not in decisions)
        wrong = Call("decide", (name, other(decisions[name])))
        doubled, extra = [Call("decide", (name, decisions[name]))] * 2, Call("decide", (stranger, "approve"))
        reads = [
            Call("managers", (instance.goal["department"],)),
            Call("wish", (name,)),
            Call("price", (instance.data["wishes"][name]["product"],)),
        ]
        for calls in ([*reads, wrong], doubled, [reads[0], extra]):
            assert expert.next(ends(task, instance, calls)) is None
        for calls in ([wrong], [extra]):  # not yet known to be wrong
            episode = replay(task, instance, Harness(), [render_call(call) for call in calls], max_turns=40)
            assert expert.next(episode) is not None
            assert not play_expert(expert, episode).success and not episode.world.finished


@pytest.mark.parametrize("toml", [
    '[context.fields]\nwish = ["budget"]', '[context.fields]\nprice = ["nothing"]\nwish = ["wants", "budget"]',
    '[tools]\nhide = ["price"]', '[tools]\nhide = ["wish"]', '[tools]\nhide = ["decide"]', '[tools]\nhide = ["submit"]',
])  # fmt: skip
def test_the_expert_gives_up_where_the_harness_hides_what_it_needs(task, toml):
    for episode in expert_episodes(ScriptedExpert(), task, task.instances("train", 4), parse_harness(toml), 30):
        assert not episode.done and all(turn.status == "ok" for turn in episode.turns)


def test_the_expert_needs_only_the_price_that_counts_and_neither_calculates_nor_compares_if_it_cannot(task):
    instances = task.instances("train", 12)
    hidden = [f"[tools]\nhide = {names}" for names in (["calc"], ["compare"], ["calc", "compare"])]
    for toml in ('[context.fields]\nprice = ["contract"]', *hidden):
        for episode in expert_episodes(ScriptedExpert(directness=0.0), task, instances, parse_harness(toml), 30):
            assert episode.trajectory.success == (toml in hidden or episode.instance.goal["price"] == "contract")


# ---- shortcuts, idleness, chance


def by_price(instance, price):
    names = instance.data["decisions"]
    return {n: "approve" if due_of(instance, n, price) <= budget_of(instance, n) else "reject" for n in names}


def other_price(instance):
    price = "shop" if instance.goal["price"] == "contract" else "contract"
    return by_price(instance, price), total_of(instance, by_price(instance, price), price)


def other_price_for_the_decisions_only(instance):
    return other_price(instance)[0], instance.data["answer"]


def the_same_for_all(instance):
    decisions = dict.fromkeys(instance.data["decisions"], instance.goal["kind"])
    return decisions, total_of(instance, decisions)


def total_of_all(instance):
    return instance.data["decisions"], sum(due_of(instance, n) for n in instance.data["decisions"])


def budgets_for_dues(instance):
    decisions = instance.data["decisions"]
    return decisions, sum(budget_of(instance, n) for n, d in decisions.items() if d == instance.goal["kind"])


def the_other_total(instance):
    decisions = instance.data["decisions"]
    return decisions, sum(due_of(instance, n) for n, d in decisions.items() if d != instance.goal["kind"])


def without_quantity(instance):
    decisions = dict.fromkeys(instance.data["decisions"], "approve")
    for name in decisions:
        wish = instance.data["wishes"][name]
        if instance.data["catalogue"][wish["product"]][instance.goal["price"]] > wish["budget"]:
            decisions[name] = "reject"
    return decisions, total_of(instance, decisions)


SHORTCUTS = [
    other_price, other_price_for_the_decisions_only, the_same_for_all, total_of_all, budgets_for_dues, the_other_total,
    without_quantity,
]  # fmt: skip


@pytest.mark.parametrize("shortcut", SHORTCUTS, ids=lambda f: f.__name__)
def test_a_shortcut_fails(task, shortcut):
    instances = task.instances("test", 120, diversity=ALL)
    assert sum(succeeds(task, instance, *shortcut(instance)) for instance in instances) < 6


def test_exactly_on_budget_is_within_it(task):
    met = 0
    for instance in task.instances("test", 100, diversity=ALL):
        decisions = instance.data["decisions"]
        exact = [name for name in decisions if due_of(instance, name) == budget_of(instance, name)]
        assert all(decisions[name] == "approve" for name in exact)
        strict = {**decisions, **dict.fromkeys(exact, "reject")}
        assert succeeds(task, instance, strict, total_of(instance, strict)) == (not exact)
        met += bool(exact)
    assert met > 20


def test_both_decisions_both_prices_and_both_kinds_are_common(task):
    instances = task.instances("test", 120, diversity=ALL)
    sent = [decision for instance in instances for decision in instance.data["decisions"].values()]
    assert 0.4 < sent.count("approve") / len(sent) < 0.6
    for key in ("price", "kind"):
        values = [instance.goal[key] for instance in instances]
        assert all(values.count(value) > 30 for value in values)


def test_a_guess_of_the_likeliest_answer_is_below_five_percent(task):
    answers = [instance.data["answer"] for instance in task.instances("select", 200)]
    assert max(answers.count(answer) for answer in answers) < 10


def test_doing_nothing_fails(task):
    for split in SPLITS:
        for instance in task.instances(split, 3):
            assert not task.world(instance.data).verdict().success
            idle = replay(task, instance, Harness(), ["I give up."] * 4)
            assert idle.done and not idle.trajectory.success
            assert not ends(task, instance, [Call("submit", (instance.data["answer"],))]).trajectory.success
            unfinished = ends(task, instance, messages(instance.data["decisions"]))
            assert not unfinished.world.verdict().success


def test_random_calls_fail_under_every_harness(task):
    for harness in HARNESSES:
        played = [random_episode(task, instance, harness, max_turns=16) for instance in task.instances("select", 60)]
        assert not any(episode.trajectory.success for episode in played)
        assert any(turn.status == "ok" for episode in played for turn in episode.turns)


@pytest.mark.parametrize(("size", "most"), [(2, 0.15), (3, 0.05), (4, 0.05)])
def test_decisions_and_sums_at_random_from_what_was_read_mostly_fail(task, size, most):
    """No blind guess: it has read everything. With two managers, as in the study, one in four decides rightly."""
    rng, right, instances = random.Random(5), 0, task.instances("select", 200, size=size)
    for instance in instances:
        decisions = {name: rng.choice(budget.DECISIONS) for name in instance.data["decisions"]}
        right += succeeds(task, instance, decisions, due_of(instance, rng.choice(list(decisions))))
    assert right < most * len(instances)


# ---- the verdict: every damaged end state is refused, every other way to the right one is accepted


def damaged(instance, rng):
    """Call lists that go wrong in one place each."""
    decisions, answer = instance.data["decisions"], instance.data["answer"]
    writes, submit = messages(decisions), Call("submit", (answer,))
    strangers = [name for name in instance.data["wishes"] if name not in decisions]
    for place, (name, decision) in enumerate(decisions.items()):
        rest = writes[:place] + writes[place + 1 :]
        yield [*rest, submit]
        yield [*rest, Call("submit", (answer - due_of(instance, name),))]
        yield [*rest, Call("decide", (name, other(decision))), submit]
        yield [*writes, writes[place], submit]
        yield [Call("decide", (name, other(decision))), *writes, submit]
        yield [*rest, Call("decide", (rng.choice(strangers), decision)), submit]
        yield [*rest, submit, writes[place]]
    for stranger in strangers:
        yield [*writes, Call("decide", (stranger, rng.choice(budget.DECISIONS))), submit]
    for wrong in (
        answer + 1,
        answer - 1,
        -answer,
        0,
        answer * 2,
        other_price(instance)[1],
        the_other_total(instance)[1],
    ):
        yield [*writes, Call("submit", (wrong,))]
    yield [submit, *writes]
    yield [*writes, Call("submit", ("nan",))]


def test_every_damaged_end_state_is_refused(task):
    rng, refused = random.Random(1), 0
    for instance in task.instances("test", 24, diversity=ALL):
        for calls in damaged(instance, rng):
            if calls[-1].args == (instance.data["answer"],) and calls[:-1] == messages(instance.data["decisions"]):
                continue  # the other price or kind came to the same total, so nothing is damaged
            episode = ends(task, instance, calls)
            assert not episode.world.verdict().success, calls
            feedback = episode.world.verdict().feedback
            assert feedback.endswith(".") and not any(name in feedback for name in instance.data["wishes"])
            refused += 1
    assert refused >= 200


def test_every_other_way_to_the_right_end_state_is_accepted(task):
    rng, accepted = random.Random(2), 0
    for instance in task.instances("test", 60, diversity=ALL):
        episode = detour(task, instance, rng, rng.randint(0, 10))
        if episode.done:
            continue
        told = {turn.call.args[0] for turn in episode.turns if turn.call.tool == "decide" and turn.status == "ok"}
        rest = [call for call in messages(instance.data["decisions"]) if call.args[0] not in told]
        rng.shuffle(rest)
        for call in [*rest, Call("submit", (instance.data["answer"],))]:
            episode.step(render_call(call))
        assert episode.trajectory.success, [turn.text for turn in episode.turns]
        accepted += 1
    assert accepted >= 50


@pytest.mark.parametrize("manager, decision", [
    ("{name}", "Approve"), ("{name}", " reject"), ("{name}", ""), ("{name}", "approve, reject"), ("{name}", 1),
    ("{lower}", "approve"), ("{name} ", "reject"), ("", "approve"), (0, "approve"), ("approve", "{name}"),
])  # fmt: skip
def test_a_decision_in_another_form_is_an_error_and_sends_nothing(task, manager, decision):
    [instance] = task.instances("train", 1)
    name = next(iter(instance.data["decisions"]))
    fill = [a.format(name=name, lower=name.lower()) if isinstance(a, str) else a for a in (manager, decision)]
    episode = ends(task, instance, [Call("decide", tuple(fill))])
    assert episode.turns[0].status == "error" and episode.world.sent == []


# ---- tools, templates, words


@pytest.mark.parametrize("text, message", [
    ('managers("Nowhere")', "error: department: no department 'Nowhere'"),
    ('wish("Nobody")', "error: manager: no manager called 'Nobody'"),
    ('price("chairs")', "error: product: no product 'chairs' in the catalogue"),
    ('decide("Nobody", "approve")', "error: manager: no manager called 'Nobody'"),
    ('compare("{name}")', "error: comparison: not a comparison; write two or three numbers or sums with < <= > >= == != between them, once or twice with or"),
    ('decide("{name}", "yes")', "error: decision: 'yes' is neither approve nor reject"),
    ('decide("{name}")', "error: decide takes 2 arguments (manager, decision), got 1"),
    ('submit("much")', "error: answer: 'much' is not a number"),
])  # fmt: skip
def test_a_tool_that_refuses_names_the_argument(task, text, message):
    [instance] = task.instances("train", 1)
    text = text.format(name=next(iter(instance.data["decisions"])))
    assert replay(task, instance, Harness(), [text]).turns[0].observation == message


def test_answers_are_short(task):
    for size in (3, 8):
        for episode in expert_episodes(ScriptedExpert(), task, task.instances("train", 4, size=size), Harness(), 60):
            for turn in episode.turns:
                assert len(show_facts(turn.facts)) < 60


def test_a_replay_is_exact(task):
    for harness in HARNESSES:
        for instance in task.instances("train", 4):
            [planned] = expert_episodes(ScriptedExpert(), task, [instance], harness, 30)
            for episode in (planned, random_episode(task, instance, harness, max_turns=30)):
                again = replay(task, instance, harness, [turn.text for turn in episode.turns], max_turns=30)
                assert again.trajectory.to_json()["turns"] == episode.trajectory.to_json()["turns"]
                assert again.trajectory.success == episode.trajectory.success


def test_the_templates_show_what_is_needed(task):
    ordinary = [t for t in task.templates.values() if not t.get("test_only")]
    assert len(ordinary) >= 8 and len(task.templates) - len(ordinary) == 2
    assert {t["kind"] for t in ordinary[:3]} == {"approve", "reject"}
    for template in task.templates.values():
        assert "{department}" in template["text"] and "{price} price" in template["text"]
        asked = re.findall("approve|reject", re.split(r"[.:?] ", template["text"])[-1])
        assert asked == [template["kind"]] and all(word in template["text"] for word in budget.DECISIONS)


def test_no_word_of_the_task_is_a_word_of_the_generic_rows(task):
    text = Path(preparation.__file__).with_suffix(".toml").read_text(encoding="utf-8")
    lists = {k: v for k, v in tomllib.loads(text).items() if not k.startswith(("systems", "notes", "refused", "docs"))}
    words = {word.lower() for values in lists.values() for word in values}
    words |= {w for row in preparation.generic_rows(100) for m in row["messages"] for w in tokens(m["content"])}
    own = {*task.world.tools(), *budget.PRICES, *budget.DECISIONS, "budget"}
    own |= {word.lower() for word in (*budget.DEPARTMENTS, *budget.MANAGERS, *budget.PRODUCTS)}
    assert own & words == set()
    for pool in (budget.DEPARTMENTS, budget.MANAGERS, budget.PRODUCTS):
        assert len(set(pool)) == len(pool) >= 20


def tokens(text):
    return re.findall(r"[a-z_]+", text.lower())
