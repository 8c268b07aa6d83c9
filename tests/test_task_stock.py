"""The stock task: the expert solves it on what it was shown, shortcuts and cheats do not, and the store decides."""

import random
import re
import tomllib
from concurrent.futures import ThreadPoolExecutor

import pytest

from coevo_lib.agent import Episode, replay
from coevo_lib.arithmetic import evaluate, numbers_in
from coevo_lib.calls import Call, parse_call, render_call
from coevo_lib.expert import ScriptedExpert, play_expert, view_of
from coevo_lib.harness import Harness, parse_harness
from coevo_lib.rollouts import expert_episodes, random_episode
from coevo_lib.rows import turn_row
from coevo_lib.task import SPLITS, TASKS_DIR, Style, load_task

COMPOSITE = (
    '[[tools.composite]]\nname = "products_and_stock"\nfirst = "products"\neach = "stock"\ndoc = "all at once"\n'
)
HARNESSES = {
    "h0": Harness(),
    "composite": parse_harness(f"[tools]\n{COMPOSITE}"),
    "hidden": parse_harness(f'[tools]\nhide = ["products", "stock"]\n{COMPOSITE}'),
}
WRITES = ("requisition", "notify")
STEPWISE, DIRECT = ScriptedExpert(directness=0.0), ScriptedExpert(directness=1.0)
LONGEST = 17  # turns step by step: three packs, or two products to fill up


@pytest.fixture(scope="module")
def stock():
    made = load_task("stock")
    made.size = 4  # one size above the study's: more cases side by side
    return made


@pytest.fixture(scope="module")
def instances(stock):
    """Every split, every ordinary template, and both test_only ones."""
    return [instance for split in SPLITS for instance in stock.instances(split, 22, diversity=9)]


@pytest.fixture(scope="module")
def plans(stock, instances):
    """(instance, the stepwise expert's calls), for damaging."""
    episodes = expert_episodes(STEPWISE, stock, instances, Harness(), max_turns=40)
    return [(episode.instance, episode.trajectory.calls) for episode in episodes]


def run(task, instance, calls, harness=None, max_turns=60):
    """The episode after these calls; as in play, nothing counts after its end."""
    episode = Episode(task, instance, harness or Harness(), max_turns=max_turns)
    for call in calls:
        if not episode.done:
            episode.step(render_call(call))
    return episode


def goods(instance):
    """The products of the asked category, and those of the other one."""
    products = instance.data["products"]
    inside = [p for p in products if p["category"] == instance.goal["category"]]
    return inside, [p for p in products if p not in inside]


def comparison(product):
    return f"{product['level']}<{product['threshold']}"


def end_state(task, instance, requisitions, notifications, answer):
    """Whether an episode that only writes and submits succeeds."""
    calls = [Call("requisition", pair) for pair in requisitions] + [Call("notify", (p,)) for p in notifications]
    return run(task, instance, [*calls, Call("submit", (answer,))]).trajectory.success


# ---- the instances


def test_an_instance_has_low_products_a_level_at_its_threshold_and_a_misleading_near_miss(instances):
    kinds = set()
    for instance in instances:
        inside, outside = goods(instance)
        names = [p["name"] for p in inside]
        low = [p for p in inside if p["level"] < p["threshold"]]
        assert len(inside) == 4 and 1 <= len(low) <= 3
        assert any(p["level"] == p["threshold"] for p in inside)
        assert {p["name"] for p in low} == set(instance.data["due"])
        for p in outside:
            [twin] = [q for q in inside if q["name"].rstrip("s") == p["name"].rstrip("s")]
            assert p["name"] not in names
            assert (p["level"] < p["threshold"]) != (twin["level"] < twin["threshold"])
        assert all(p["pack"] != p["threshold"] - p["level"] for p in instance.data["products"])
        assert len({comparison(p) for p in inside}) == 4, "an answer to one comparison says nothing about another"
        assert instance.goal["category"] in instance.prompt
        kinds.add(instance.goal["kind"])
    assert kinds == {"pack", "fill"}
    assert any(p["level"] > p["threshold"] for i in instances for p in goods(i)[0]), "not low need not mean equal"


def test_there_are_enough_templates_and_the_first_ones_are_of_the_plain_kind(stock):
    ordinary = [t for t in stock.templates.values() if not t.get("test_only")]
    assert len(ordinary) >= 8 and len(stock.templates) - len(ordinary) == 2
    assert {t["kind"] for t in ordinary[:3]} == {"pack"} and "fill" in {t["kind"] for t in ordinary}
    assert len({t["text"] for t in stock.templates.values()}) == len(stock.templates)


def test_no_word_of_the_task_occurs_in_a_generic_row(stock, instances):
    lists = tomllib.loads((TASKS_DIR.parent / "preparation.toml").read_text(encoding="utf-8"))
    words = {word for texts in lists.values() for text in texts for word in re.findall(r"[a-z_]+", text.lower())}
    words |= {f"{word}s" for word in words}
    assert {"crate", "crates", "alder", "budgeted"} <= words
    own = {p[key] for i in instances for p in i.data["products"] for key in ("name", "category")}
    own |= {*stock.world.tools()} | {"level", "threshold", "pack", "requisitioned", "notified"}
    assert {word.lower() for word in own} & words == set()


# ---- the expert


@pytest.mark.parametrize("harness", HARNESSES)
@pytest.mark.parametrize("directness", [0.0, 0.5, 1.0])
def test_the_expert_solves_every_instance(stock, instances, directness, harness):
    expert = ScriptedExpert(directness=directness)
    for episode in expert_episodes(expert, stock, instances, HARNESSES[harness], max_turns=LONGEST):
        assert episode.trajectory.success, (episode.instance.key, episode.trajectory.feedback)
        assert all(turn.status == "ok" for turn in episode.turns)
        if harness == "h0":
            assert 8 <= len(episode.turns) and max(len(turn.observation) for turn in episode.turns) < 60


@pytest.mark.parametrize("size", [1, 2, 3, 8, 12])
def test_the_expert_solves_every_size(stock, size):
    for episode in expert_episodes(
        STEPWISE, stock, stock.instances("train", 9, size=size, diversity=9), Harness(), max_turns=60
    ):
        assert episode.trajectory.success
        assert len(goods(episode.instance)[0]) == size and len(episode.turns) >= size + 5


def plan(instance):
    """The stepwise plan, from the data: what is due about a product is done before the next one is read."""
    inside, _ = goods(instance)
    yield Call("products", (instance.goal["category"],))
    for p in inside:
        yield from (Call("stock", (p["name"],)), Call("compare", (comparison(p),)))
        if quantity := instance.data["due"].get(p["name"]):
            if instance.goal["kind"] == "fill":
                yield Call("calc", (f"{p['threshold']}-{p['level']}",))
            yield from (Call("requisition", (p["name"], quantity)), Call("notify", (p["name"],)))


def test_the_stepwise_expert_compares_a_product_and_acts_before_it_reads_the_next(plans):
    for instance, calls in plans:
        steps, due, answer = list(plan(instance)), instance.data["due"], instance.data["answer"]
        quantities = [due[p["name"]] for p in goods(instance)[0] if p["name"] in due]
        if instance.goal["kind"] == "pack" or len(due) > 1:  # else the only quantity was just worked out
            steps.append(Call("calc", ("+".join(map(str, quantities)),)))
        assert calls == [*steps, Call("submit", (answer,))]
    assert max(len(calls) for _, calls in plans) == LONGEST


def test_with_everything_read_at_once_the_stepwise_expert_still_goes_product_by_product(stock, instances):
    for episode in expert_episodes(STEPWISE, stock, instances[:44], HARNESSES["hidden"], max_turns=LONGEST):
        after = [call for call in plan(episode.instance) if call.tool not in ("products", "stock")]
        assert episode.trajectory.calls[1 : len(after) + 1] == after


def test_the_direct_expert_reads_everything_and_decides_in_its_head(stock, instances):
    for name, harness in HARNESSES.items():
        for episode in expert_episodes(DIRECT, stock, instances[:44], harness, max_turns=12):
            tools = [call.tool for call in episode.trajectory.calls]
            reads = ["products", *["stock"] * 4] if name == "h0" else ["products_and_stock"]
            assert tools == [*reads, *WRITES * len(episode.instance.data["due"]), "submit"]


GUARDS = """
[hooks]
use = [
  {hook = "loop_breaker"}, {hook = "ledger", each = "stock"}, {hook = "unread_list", first = "products", each = "stock"},
  {hook = "finish_guard", tools = FINISH, first = "products", each = "stock"},
  {hook = "order_guard", tools = ["submit"], before = "notify"}, {hook = "reminder", every = 2},
  {hook = "grounding_guard", tools = ["stock", "compare", "requisition", "notify", "calc", "submit"]},
]
"""


@pytest.mark.parametrize("expert, finish", [(STEPWISE, ["submit"]), (DIRECT, ["submit", *WRITES])], ids=str)
def test_the_expert_passes_the_guards_that_fit_its_plan(stock, instances, expert, finish):
    guards = GUARDS.replace("FINISH", str(finish))
    if expert is DIRECT:  # what it works out in its head was never shown
        guards = guards.replace(', "requisition", "notify", "calc", "submit"]', "]")
    for episode in expert_episodes(expert, stock, instances[:44], parse_harness(guards), max_turns=LONGEST):
        assert episode.trajectory.success and all(turn.status == "ok" for turn in episode.turns)


def assert_shown(messages, text):
    """Every argument stands in the messages, or is the value of a sum of numbers that do (rule 2)."""
    shown = "\n".join(message["content"] for message in messages[1:])
    numbers = set(numbers_in(shown))
    call = parse_call(text)
    for arg in call.args:
        if call.tool == "compare":
            assert re.search(r"level {}, threshold {},".format(*arg.split("<")), shown), f"{arg} was never shown"
        elif isinstance(arg, str) and not numbers_in(arg):
            assert re.search(rf"\b{arg}\b", shown), f"{arg} was never shown"
        elif isinstance(arg, str):
            assert set(numbers_in(arg)) <= numbers, f"{arg} holds a number never shown"
        elif call.tool == "requisition":
            [(level, threshold, pack)] = set(
                re.findall(rf"{call.args[0]}\"?\)?[:\n ]+level (\d+), threshold (\d+), pack (\d+)", shown)
            )
            assert arg in (int(pack), int(threshold) - int(level))
        else:
            ordered = re.findall(r"^requisitioned (\d+) ", shown, re.M)
            assert arg in numbers or arg == sum(map(int, ordered))


@pytest.mark.parametrize("harness", HARNESSES)
@pytest.mark.parametrize("directness", [0.0, 1.0])
def test_every_argument_of_the_expert_was_shown_before(stock, directness, harness):
    expert, few = ScriptedExpert(directness=directness), stock.instances("test", 22, diversity=9)
    for episode in expert_episodes(expert, stock, few, HARNESSES[harness], max_turns=40):
        for index, turn in enumerate(episode.turns):
            assert_shown(turn_row(episode, index, turn.text)["messages"][:-1], turn.text)


def test_the_check_of_shown_arguments_can_fail(stock):
    [episode] = expert_episodes(STEPWISE, stock, stock.instances("test", 1), Harness(), max_turns=40)
    name = next(iter(episode.instance.data["due"]))
    messages = turn_row(episode, 1, "")["messages"][:-1]
    for text in ('stock("Anvil")', 'calc("1+2")', 'compare("1<2")', f'requisition("{name}", 3)', "submit(77)"):
        with pytest.raises((AssertionError, ValueError)):
            assert_shown(messages, text)


DETOURS = {
    "reads the other category": lambda i: [
        Call("products", (goods(i)[1][0]["category"],)),
        *(Call("stock", (p["name"],)) for p in goods(i)[1]),
    ],
    "reads twice": lambda i: [Call("stock", (goods(i)[0][0]["name"],))] * 2,
    "meets errors": lambda i: [
        *(Call("stock", ("Anvil",)), Call("requisition", ("Anvil", 5))),
        *(Call("requisition", (goods(i)[0][0]["name"], -5)), Call("products", ("Nowhere",))),
    ],
    "computes something": lambda i: [Call("calc", ("2*3",)), Call("calc", (str(i.data["answer"]),))],
    "compares something": lambda i: [
        *(Call("compare", (text,)) for p in goods(i)[0] for text in (comparison(p), f"{p['threshold']}>{p['level']}")),
        *(Call("compare", ("low",)), Call("compare", ("2<=3",))),
    ],
    "acts without reading": lambda i: [
        call for p, q in i.data["due"].items() for call in (Call("notify", (p,)), Call("requisition", (p, q)))
    ],
    "requisitions before notifying": lambda i: [
        Call("products", (i.goal["category"],)),
        *(Call("stock", (p["name"],)) for p in goods(i)[0]),
        *(Call("requisition", pair) for pair in i.data["due"].items()),
    ],
    "acts on the first at once": lambda i: [
        *(Call("products", (i.goal["category"],)), Call("stock", (next(iter(i.data["due"])),))),
        Call("requisition", next(iter(i.data["due"].items()))),
    ],
}


def continued(task, instance, calls, harness, persistence=1.0):
    episode = run(task, instance, calls, harness)
    play_expert(ScriptedExpert(directness=0.5, persistence=persistence), episode)
    return episode


@pytest.mark.parametrize("persistence", [0.0, 1.0])
@pytest.mark.parametrize("detour", DETOURS)
def test_the_expert_goes_on_from_harmless_detours(stock, detour, persistence):
    for instance in stock.instances("train", 9, diversity=9):
        for harness in HARNESSES.values():
            assert continued(stock, instance, DETOURS[detour](instance), harness, persistence).trajectory.success


def test_the_expert_goes_on_from_every_prefix_of_another_order(stock, plans):
    for index, (instance, calls) in enumerate(plans[:40]):
        mixed = reordered(calls, random.Random(index))
        for cut in range(len(mixed)):
            assert continued(stock, instance, mixed[:cut], Harness()).trajectory.success


def test_a_persistent_expert_keeps_the_order_in_which_somebody_works(stock):
    three = [i for i in stock.instances("train", 60) if len(i.data["due"]) == 3]
    assert three
    for instance in three:
        due = list(instance.data["due"].items())
        reads = DETOURS["requisitions before notifying"](instance)[:5]
        by_tool = continued(stock, instance, [*reads, *(Call("requisition", pair) for pair in due[:2])], Harness())
        writes = [call for call in by_tool.trajectory.calls if call.tool in WRITES]
        assert writes[2] == Call("requisition", due[2]) and {call.tool for call in writes[3:]} == {"notify"}
        at_once = continued(stock, instance, [reads[0], Call("stock", (due[0][0],)), Call("requisition", due[0])], None)
        order = [p["name"] for p in goods(instance)[0]]
        if order[0] == due[0][0]:
            assert at_once.trajectory.calls[3:5] == [Call("notify", (due[0][0],)), Call("stock", (order[1],))]
        assert by_tool.trajectory.success and at_once.trajectory.success


def test_a_persistent_expert_does_not_mind_that_everything_was_read_first(stock):
    for instance in stock.instances("train", 20, diversity=9):
        reads = [call for call in plan(instance) if call.tool in ("products", "stock")]
        rest = [call for call in plan(instance) if call.tool not in ("products", "stock")]
        episode = continued(stock, instance, reads, Harness())
        assert episode.trajectory.success and episode.trajectory.calls[5 : 5 + len(rest)] == rest


def test_only_its_own_comparison_counts_and_what_is_written_needs_none(stock):
    for instance in stock.instances("train", 20, diversity=9):
        inside, _ = goods(instance)
        start = [Call("products", (instance.goal["category"],)), Call("stock", (inside[0]["name"],))]
        own, other = Call("compare", (comparison(inside[0]),)), f"{inside[0]['threshold']}>{inside[0]['level']}"
        assert next_call(stock, instance, [*start, Call("compare", (other,))]) == own
        for known in ([*start, own], [own, *start]):
            assert next_call(stock, instance, known).tool != "compare"
        if quantity := instance.data["due"].get(inside[0]["name"]):
            written = [*start, Call("requisition", (inside[0]["name"], quantity))]
            assert next_call(stock, instance, written) == Call("notify", (inside[0]["name"],))


def next_call(task, instance, calls):
    return task.expert(view_of(run(task, instance, calls)), Style(persistent=True))[0]


def test_the_expert_knows_no_way_on_after_a_wrong_write(stock, instances):
    for instance in instances[:44]:
        inside, outside = goods(instance)
        name, quantity = next(iter(instance.data["due"].items()))
        equal = next(p["name"] for p in inside if p["level"] == p["threshold"])
        reads = [Call("products", (instance.goal["category"],)), *(Call("stock", (p["name"],)) for p in inside)]
        for wrong in (
            [Call("requisition", (name, quantity + 1))],
            [Call("requisition", (name, quantity))] * 2,
            [Call("notify", (name,))] * 2,
            [Call("notify", (equal,))],
            [Call("requisition", (equal, 12))],
            [Call("requisition", (outside[0]["name"], outside[0]["pack"]))],
        ):
            at_once = continued(stock, instance, [*reads, *wrong], Harness())
            assert len(at_once.turns) == len(reads + wrong) and not at_once.done
            later = continued(stock, instance, wrong, Harness())  # it goes on until an answer shows that it is wrong
            assert not later.done and later.turns[-1].call in [wrong[-1], *reads]


def test_the_expert_needs_only_what_the_question_is_about(stock):
    """A harness may hide what is not needed; hiding what is, or a tool that is, leaves no way on."""
    fields = parse_harness('[context.fields]\nstock = ["level", "threshold"]')
    for instance in stock.instances("train", 9, diversity=9):
        [episode] = expert_episodes(STEPWISE, stock, [instance], fields, max_turns=40)
        assert bool(episode.trajectory.success) == (instance.goal["kind"] == "fill")
        for name in (*WRITES, "submit", "stock"):
            [episode] = expert_episodes(
                STEPWISE, stock, [instance], parse_harness(f'[tools]\nhide = ["{name}"]'), max_turns=40
            )
            assert not episode.trajectory.success and all(turn.status == "ok" for turn in episode.turns)
        for names in (["calc"], ["compare"], ["calc", "compare"]):
            harness = parse_harness(f"[tools]\nhide = {names}")
            [headwork] = expert_episodes(STEPWISE, stock, [instance], harness, max_turns=40)
            assert headwork.trajectory.success and not {c.tool for c in headwork.trajectory.calls} & {*names}


# ---- the store and the verdict


def test_what_is_written_stands_in_the_store(stock, plans):
    instance, calls = plans[0]
    world = run(stock, instance, calls).world
    assert dict(world.store.execute("SELECT product, quantity FROM requisitions")) == instance.data["due"]
    assert {p for (p,) in world.store.execute("SELECT product FROM notifications")} == set(instance.data["due"])
    query = "SELECT name FROM products WHERE category = ? AND level < threshold"
    assert {p for (p,) in world.store.execute(query, (instance.goal["category"],))} == set(instance.data["due"])


def reordered(calls, rng):
    """The same right call list with its reads, and its writes, in another order."""
    first, *rest = [call for call in calls if call.tool not in ("calc", "submit")]
    reads = [call for call in rest if call.tool == "stock"]
    writes = [call for call in rest if call.tool in WRITES]
    rng.shuffle(reads)
    rng.shuffle(writes)
    return [first, *reads, *writes, calls[-1]]


def detoured(calls, rng, instance):
    """A right call list with harmless reads, sums and refused calls in between."""
    harmless = [call for detour in list(DETOURS)[:5] for call in DETOURS[detour](instance)]
    mixed = list(calls)
    for _ in range(4):
        mixed.insert(rng.randrange(len(mixed)), rng.choice(harmless))
    return mixed


def test_every_right_end_state_is_accepted_by_whatever_route(stock, plans):
    for index, (instance, calls) in enumerate(plans):
        rng = random.Random(index)
        mixed = reordered(calls, rng)
        for route in (mixed, detoured(calls, rng, instance), detoured(mixed, rng, instance), mixed[5:]):
            episode = run(stock, instance, route)
            assert episode.trajectory.success, (route, episode.trajectory.feedback)
    assert 4 * len(plans) >= 50


def damaged(instance, calls):
    """Every way to spoil a right call list by one step, as (what was done, calls)."""
    inside, outside = goods(instance)
    fine = [p for p in inside if p["name"] not in instance.data["due"]]
    *rest, submit = calls
    for index, call in enumerate(rest):
        before, after = rest[:index], rest[index + 1 :]
        if call.tool in WRITES:
            yield "dropped", [*before, *after, submit]
            yield "twice", [*before, call, call, *after, submit]
            for other in [*fine, *outside]:
                yield "wrong product", [*before, Call(call.tool, (other["name"], *call.args[1:])), *after, submit]
        if call.tool == "requisition":
            name, quantity = call.args
            [product] = [p for p in inside if p["name"] == name]
            others = {quantity + 1, quantity - 1, 1, product["level"], product["threshold"], product["pack"]}
            others |= {quantity * 10, product["threshold"] - product["level"]}
            for other in others - {quantity, 0}:
                total = submit.args[0] - quantity + other
                yield "wrong quantity", [*before, Call("requisition", (name, other)), *after, submit]
                yield (
                    "wrong throughout",
                    [
                        *before,
                        Call("requisition", (name, other)),
                        *after,
                        Call("submit", (total,)),
                    ],
                )
            swapped = [c for c in rest if not (c.tool in WRITES and c.args[0] == name)]
            yield "skipped", [*swapped, Call("submit", (submit.args[0] - quantity,))]
            halves = [Call("requisition", (name, part)) for part in (quantity - 1, 1) if part]
            yield (
                "split" if len(halves) == 2 else "twice",
                [*before, *halves, *([call] * (2 - len(halves))), *after, submit],
            )
    for other in [*fine, *outside]:
        more = Call("submit", (submit.args[0] + other["pack"],))
        yield "extra", [*rest, Call("requisition", (other["name"], other["pack"])), submit]
        yield "extra", [*rest, Call("notify", (other["name"],)), submit]
        yield "extra", [*rest, Call("requisition", (other["name"], other["pack"])), more]
    for number in (submit.args[0] + 1, submit.args[0] - 1, 0, -submit.args[0], len(inside), 10 * submit.args[0]):
        yield "wrong number", [*rest, Call("submit", (number,))]
    yield "no answer", rest
    yield "answer first", [submit, *rest]


def test_every_damaged_end_state_is_refused_in_one_sentence(stock, plans):
    seen, sentences = {}, set()
    for instance, calls in plans[::3]:
        for what, spoilt in damaged(instance, calls):
            episode = run(stock, instance, spoilt, max_turns=len(spoilt))
            assert not episode.trajectory.success, (what, spoilt)
            assert episode.done and episode.trajectory.feedback.count(". ") == 0
            assert not any(p["name"] in episode.trajectory.feedback for p in instance.data["products"])
            seen[what] = seen.get(what, 0) + 1
            sentences.add(re.sub(r"-?\d+", "N", episode.trajectory.feedback))
    assert sum(seen.values()) >= 200 and min(seen.values()) >= 20
    assert sentences == {
        "A requisition was made twice.",
        "A requisition was made for a product that is not low or is of another category.",
        "A requisition is missing for a low product.",
        "A requisition has a wrong quantity.",
        "A notification was made twice.",
        "A notification was made for a product that is not low or is of another category.",
        "A notification is missing for a low product.",
        "The submitted answer N is wrong.",
        "No answer was submitted.",
    }


# ---- shortcuts, cheats, errors


def ordered_by(rule):
    """A shortcut's end state: what it would order by its own notion of low, and of how much."""

    def shortcut(instance, inside, outside):
        pairs = rule(instance, inside, outside)
        return pairs, [product for product, _ in pairs], sum(quantity for _, quantity in pairs)

    return shortcut


def amount(instance, p):
    return p["pack"] if instance.goal["kind"] == "pack" else max(1, p["threshold"] - p["level"])


def other_amount(instance, p):
    return p["threshold"] - p["level"] if instance.goal["kind"] == "pack" else p["pack"]


def is_low(p):
    return p["level"] < p["threshold"]


SHORTCUTS = {
    "equal counts as low": lambda i, a, b: [(p["name"], amount(i, p)) for p in a if p["level"] <= p["threshold"]],
    "everything is low": lambda i, a, b: [(p["name"], amount(i, p)) for p in a],
    "only the first": lambda i, a, b: [(p["name"], amount(i, p)) for p in a[:1]],
    "every category": lambda i, a, b: [(p["name"], amount(i, p)) for p in i.data["products"] if is_low(p)],
    "the near miss": lambda i, a, b: [(p["name"], amount(i, p)) for p in b if is_low(p)],
    "the other amount": lambda i, a, b: [(p["name"], other_amount(i, p)) for p in a if is_low(p)],
    "the level": lambda i, a, b: [(p["name"], p["level"]) for p in a if is_low(p)],
    "above, not below": lambda i, a, b: [(p["name"], amount(i, p)) for p in a if p["level"] > p["threshold"]],
}


@pytest.mark.parametrize("name", SHORTCUTS)
def test_a_shortcut_fails(stock, name):
    many = stock.instances("test", 99, diversity=9)
    won = [end_state(stock, i, *ordered_by(SHORTCUTS[name])(i, *goods(i))) for i in many]
    limit = 0.15 if name == "only the first" else 0.05  # it is right where the first is the only low one
    assert sum(won) / len(many) < limit


@pytest.mark.parametrize("diversity", [1, 3, 9])
def test_the_likeliest_answer_is_rare(stock, diversity):
    answers = [i.data["answer"] for i in stock.instances("select", 200, diversity=diversity)]
    assert answers.count(max(answers, key=answers.count)) < 10


@pytest.mark.parametrize("harness", HARNESSES)
def test_idle_and_random_play_fail(stock, harness):
    for instance in stock.instances("select", 5, diversity=9):
        assert not stock.world(instance.data).verdict().success
        for texts in (["I give up."] * 4, ["submit(0)"], [f"submit({instance.data['answer']})"], ['submit("nan")']):
            idle = replay(stock, instance, HARNESSES[harness], texts)
            assert idle.done and not idle.trajectory.success
    played = [random_episode(stock, i, HARNESSES[harness], max_turns=16) for i in stock.instances("select", 60)]
    assert not any(episode.trajectory.success for episode in played)


def test_legal_random_calls_on_shown_items_fail(stock):
    for index, instance in enumerate(stock.instances("select", 60)):
        rng, episode = random.Random(index), Episode(stock, instance, Harness(), max_turns=16)
        episode.step(f'products("{instance.goal["category"]}")')
        names = episode.trajectory.facts[0].value
        while not episode.done:
            numbers = [f"{n:g}" for n in numbers_in("\n".join(turn.observation for turn in episode.turns))] or ["1"]
            name, number = rng.choice(names), rng.choice(numbers)
            options = [f'stock("{name}")', f'requisition("{name}", {number})', f'notify("{name}")', f"submit({number})"]
            episode.step(rng.choice(options[:3] if len(episode.turns) < 12 else options))
        assert not episode.trajectory.success


def test_a_cheat_by_odd_arguments_fails(stock, plans):
    """Odd spellings of a right write are refused, and so never count; odd numbers never pass for right ones."""
    for instance, calls in plans[:30]:
        index = next(i for i, call in enumerate(calls) if call.tool == "requisition")
        name, quantity = calls[index].args
        odd_names = [
            name.lower(),
            name.upper(),
            f" {name}",
            f"{name} ",
            f"{name}\0",
            f"{name}\ud800",
            "%",
            f"{name}' --",
        ]
        odd_numbers = [-quantity, 0, quantity + 0.5, quantity + 0.001, "nan", "inf", "-inf", 1e300, "", "many"]
        for args in [(odd, quantity) for odd in odd_names] + [(name, odd) for odd in odd_numbers] + [(name,), ()]:
            odd = [*calls[:index], Call("requisition", args), *calls[index + 1 :]]
            episode = run(stock, instance, odd)
            assert episode.turns[index].status in ("error", "malformed")
            assert episode.trajectory.feedback == "A requisition is missing for a low product."
        for number in (-quantity, "nan", "inf", "-inf", 1e300, instance.data["answer"] + 0.01):
            assert not run(stock, instance, [*calls[:-1], Call("submit", (number,))]).trajectory.success


def test_a_right_value_in_another_type_still_counts(stock, plans):
    instance, calls = plans[0]
    odd = [Call(c.tool, (c.args[0], str(float(c.args[1])))) if c.tool == "requisition" else c for c in calls]
    assert run(stock, instance, odd).trajectory.success


@pytest.mark.parametrize("text, message", [
    ('products("Nowhere")', "error: category: no category 'Nowhere'"),
    ("products()", "error: products takes 1 argument (category), got 0"),
    ('stock("Anvil")', "error: product: no product 'Anvil'"),
    ("stock(7)", "error: product: no product '7'"),
    ('stock("\\ud800")', "error: product: no product '\\ud800'"),
    ('requisition("Anvil", 5)', "error: product: no product 'Anvil'"),
    ('requisition("NAME", 0)', "error: quantity: 0 is not a whole number from 1 to 999"),
    ('requisition("NAME", 2.5)', "error: quantity: 2.5 is not a whole number from 1 to 999"),
    ('requisition("NAME", 1000)', "error: quantity: 1000 is not a whole number from 1 to 999"),
    ('requisition("NAME", "pack")', "error: quantity: 'pack' is not a number"),
    ('compare("low")', "error: comparison: not a comparison; write two or three numbers or sums with < <= > >= == != between them, once or twice with or"),
    ('requisition("NAME")', "error: requisition takes 2 arguments (product, quantity), got 1"),
    ('notify("Anvil")', "error: product: no product 'Anvil'"),
])  # fmt: skip
def test_a_tool_that_refuses_names_the_argument(stock, text, message):
    [instance] = stock.instances("train", 1)
    text = text.replace("NAME", goods(instance)[0][0]["name"])
    assert replay(stock, instance, Harness(), [text]).turns[0].observation == message


# ---- determinism


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_replay_is_exact(stock, harness):
    for instance in stock.instances("train", 6, diversity=9):
        [planned] = expert_episodes(ScriptedExpert(), stock, [instance], HARNESSES[harness], max_turns=30)
        for episode in (planned, random_episode(stock, instance, HARNESSES[harness], max_turns=30)):
            texts = [turn.text for turn in episode.turns]
            again = replay(stock, instance, HARNESSES[harness], texts, max_turns=30)
            assert again.trajectory.to_json()["turns"] == episode.trajectory.to_json()["turns"]
            assert again.trajectory.success == episode.trajectory.success


def test_an_episode_may_be_played_in_other_threads(stock):
    episodes = [Episode(stock, i, Harness(), max_turns=40) for i in stock.instances("train", 20)]
    for episode in episodes:
        episode.step(f'products("{episode.instance.goal["category"]}")')
    with ThreadPoolExecutor(4) as pool:
        played = list(pool.map(lambda episode: play_expert(STEPWISE, episode), episodes))
    assert all(trajectory.success for trajectory in played)


def test_worlds_share_nothing(stock):
    [instance] = stock.instances("train", 1)
    one, two = stock.world(instance.data), stock.world(instance.data)
    one.notify(next(iter(instance.data["due"])))
    assert [world.store.execute("SELECT count(*) FROM notifications").fetchone()[0] for world in (one, two)] == [1, 0]
    assert evaluate(str(instance.data["answer"])) == sum(instance.data["due"].values())
