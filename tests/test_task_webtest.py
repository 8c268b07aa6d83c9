"""The task webtest: its expert, its traps, and a verdict that runs the written assertions on broken pages."""

import random
import re

import pytest

from coevo_lib.agent import Episode, replay
from coevo_lib.calls import Call, render_call
from coevo_lib.expert import ScriptedExpert, play_expert
from coevo_lib.harness import Harness, parse_harness
from coevo_lib.rollouts import expert_episodes, random_episode
from coevo_lib.rows import turn_row
from coevo_lib.task import SPLITS, load_task

TASK = load_task("webtest")
COMPOSITE = '[tools]\n{}\n[[tools.composite]]\nname = "elements_and_peek"\nfirst = "elements"\neach = "peek"\ndoc = "all at once"\n'
HARNESSES = [
    Harness(),
    parse_harness(COMPOSITE.format("")),
    parse_harness(COMPOSITE.format('hide = ["elements", "peek"]')),
]
SHOWN = re.compile(r"(?:^|\n)(?:(\w+): )?(\w+ \d+), role (\w+)")


def sample(n=8, split=None, **options):
    splits = [split] if split else SPLITS
    return [instance for s in splits for instance in TASK.instances(s, n, **{"diversity": 8} | options)]


def listed(instance, section=None, role="any"):
    """Elements of a section (the asked one unless told) that are visible; read from the data, for tests only."""
    elements = instance.data["sections"][section or instance.goal["section"]]
    return [e for e in elements if not e["hidden"] and role in (e["role"], "any")]


def number(element):
    return int(element["text"].split()[1])


def elsewhere(instance):
    return [e for s in instance.data["sections"] if s != instance.goal["section"] for e in listed(instance, s)]


def scope(instance):
    """The role whose elements are to be asserted."""
    return instance.goal["role"] if instance.goal["kind"] == "role" else "any"


def listing(instance, role):
    return Call("elements", (instance.goal["section"], role))


def right_calls(instance):
    """(reads, writes, end) of an episode done right."""
    roles = dict.fromkeys([scope(instance), instance.goal["role"]])
    reads = [listing(instance, role) for role in roles]
    reads += [Call("peek", (name,)) for name in instance.data["asked"]]
    writes = [Call("expect", item) for item in instance.data["asked"].items()]
    return reads, writes, [Call("submit", (instance.data["answer"],))]


def after(instance, calls, harness=None):
    return replay(TASK, instance, harness or Harness(), [render_call(call) for call in calls], max_turns=80)


@pytest.mark.parametrize("directness", [0.0, 0.5, 1.0])
def test_the_expert_solves_every_instance_under_every_harness(directness):
    expert = ScriptedExpert(directness=directness)
    for harness in HARNESSES:
        for episode in expert_episodes(expert, TASK, sample(), harness, max_turns=40):
            assert episode.trajectory.success, (episode.instance.key, episode.trajectory.feedback)
            assert all(turn.status == "ok" for turn in episode.turns)


def test_the_default_size_takes_eight_to_fourteen_turns_and_a_longer_one_takes_more():
    lengths = {"role": [], "all": []}
    for size in (1, 2, 3, 8, 12):
        played = expert_episodes(
            ScriptedExpert(directness=0.0), TASK, sample(4, "train", size=size), Harness(), max_turns=60
        )
        assert all(episode.trajectory.success for episode in played)
        for kind, turns in lengths.items():
            [length] = {len(episode.turns) for episode in played if episode.instance.goal["kind"] == kind}
            turns.append(length)
    assert all(turns == sorted(set(turns)) for turns in lengths.values())
    assert (lengths["role"][2], lengths["all"][2]) == (9, 12) and TASK.size == 3


def test_the_stepwise_expert_asserts_each_element_as_soon_as_it_is_read():
    for episode in expert_episodes(ScriptedExpert(directness=0.0), TASK, sample(2), Harness(), max_turns=40):
        instance = episode.instance
        asked, role = listed(instance, role=scope(instance)), instance.goal["role"]
        plan = [listing(instance, scope(instance))]
        for e in asked:
            plan += [Call("peek", (e["name"],)), Call("expect", (e["name"], e["text"]))]
        plan += [listing(instance, role)] * (instance.goal["kind"] == "all")
        total = "+".join(str(number(e)) for e in listed(instance, role=role))
        assert episode.trajectory.calls == [*plan, Call("calc", (total,)), Call("submit", (instance.data["answer"],))]


def test_the_direct_expert_reads_everything_first_and_sums_in_its_head():
    for harness, most in zip(HARNESSES, (99, 2, 2)):
        for episode in expert_episodes(ScriptedExpert(directness=1.0), TASK, sample(2), harness, max_turns=40):
            *calls, end = episode.trajectory.calls
            writes = len(episode.instance.data["asked"])
            assert {call.tool for call in calls[-writes:]} == {"expect"} and end.tool == "submit"
            assert not {"expect", "calc"} & {call.tool for call in calls[:-writes]} and len(calls) <= most + writes


@pytest.mark.parametrize("kind", ["role", "all"])
def test_the_expert_passes_the_guards_of_a_harness(kind):
    harness = parse_harness("""[hooks]
use = [{hook = "loop_breaker"}, {hook = "ledger", each = "peek"},
  {hook = "finish_guard", tools = ["submit", "calc"], first = "elements", each = "peek"},
  {hook = "unread_list", first = "elements", each = "peek"},
  {hook = "grounding_guard", tools = ["elements", "calc", "expect"]}, {hook = "pairing_guard", tools = ["expect"]}]""")
    instances = [instance for instance in sample(4) if instance.goal["kind"] == kind]
    for episode in expert_episodes(ScriptedExpert(directness=0.0), TASK, instances, harness, max_turns=40):
        assert episode.trajectory.success and all(turn.status == "ok" for turn in episode.turns)


def test_answers_are_short_and_the_prompt_shows_every_goal_value():
    for episode in expert_episodes(ScriptedExpert(directness=0.0), TASK, sample(4), Harness(), max_turns=40):
        assert all(len(turn.observation) < 60 for turn in episode.turns)
        goal, prompt = episode.instance.goal, episode.instance.prompt
        assert re.search(rf"\b{goal['section']}\b", prompt) and re.search(rf"\b{goal['role']}\b", prompt)
        assert (goal["kind"] == "all") == bool(re.search(r"\bany\b", prompt))


@pytest.mark.parametrize("directness", [0.0, 1.0])
@pytest.mark.parametrize("harness", HARNESSES)
def test_every_argument_of_the_expert_stands_in_the_messages_before_it(directness, harness):
    expert = ScriptedExpert(directness=directness)
    for episode in expert_episodes(expert, TASK, sample(3), harness, max_turns=40):
        found, role = {}, episode.instance.goal["role"]
        assert episode.trajectory.calls[0].args[1] == scope(episode.instance)
        for index, turn in enumerate(episode.turns):
            messages = [m["content"] for m in turn_row(episode, index, turn.text)["messages"][1:-1]]
            if index:
                previous = episode.turns[index - 1].call
                found |= {name or previous.args[0]: rest for name, *rest in SHOWN.findall(messages[-1])}
            total = sum(int(text.split()[1]) for text, shown in found.values() if shown == role)
            if turn.call.tool == "calc":
                assert sum(map(int, turn.call.args[0].split("+"))) == total
            elif turn.call.tool == "submit":
                assert turn.call.args == (total,)
            elif turn.call.tool == "expect":
                assert turn.call.args[1] == found[turn.call.args[0]][0]
            else:
                assert all(re.search(rf"\b{arg}\b", "\n".join(messages)) for arg in turn.call.args), turn.text


def test_a_near_name_a_hidden_element_and_other_roles_stand_in_the_way():
    for instance in sample(diversity=2):
        names = [e["name"] for e in listed(instance)]
        twins = {name[:-1] if name.endswith("s") else f"{name}s" for name in names}
        hidden = [e for e in instance.data["sections"][instance.goal["section"]] if e["hidden"]]
        assert twins & {e["name"] for e in elsewhere(instance)}
        assert [e["role"] for e in hidden] == [instance.goal["role"]] and hidden[0]["name"] in twins
        assert {e["role"] for e in listed(instance)} > {instance.goal["role"]}
        everything = [e for rows in instance.data["sections"].values() for e in rows]
        assert len({e["name"] for e in everything}) == len({number(e) for e in everything}) == len(everything)


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("kind, asserted, summed", [
    ("role", "any", "any"), ("role", "any", "asked"), ("role", "asked", "any"),
    ("all", "any", "any"), ("all", "asked", "asked"), ("all", "asked", "any"),
])  # fmt: skip
def test_a_shortcut_that_lists_the_wrong_role_fails(kind, asserted, summed, size):
    """The obvious one: list any role, assert all that is listed, hand in the sum of all numbers."""
    instances = [instance for instance in sample(40, "test", size=size) if instance.goal["kind"] == kind]
    for instance in instances:
        roles = [instance.goal["role"] if which == "asked" else "any" for which in (asserted, summed)]
        due, counted = (listed(instance, role=role) for role in roles)
        calls = [listing(instance, roles[0]), *(Call("expect", (e["name"], e["text"])) for e in due)]
        assert not after(instance, [*calls, Call("submit", (sum(map(number, counted)),))]).trajectory.success
    assert len(instances) > 10


def test_a_guess_of_the_likeliest_answer_is_below_five_percent():
    for size in (1, 3):
        answers = [instance.data["answer"] for instance in sample(300, "select", size=size)]
        assert max(map(answers.count, answers)) < 0.05 * len(answers)


@pytest.mark.parametrize("text, message", [
    ('elements("Attic", "any")', "error: section: no section 'Attic'"),
    ('elements("Basket", "Link")', "error: role: no role 'Link'; a role is button, link, status or any"),
    ('peek("Nobody")', "error: element: nothing visible is called 'Nobody'"),
    ('expect("Nobody", "euro 12")', "error: element: nothing visible is called 'Nobody'"),
    ('expect("Nobody")', "error: expect takes 2 arguments (element, text), got 1"),
    ("elements()", "error: elements takes 2 arguments (section, role), got 0"),
    ('submit("much")', "error: answer: 'much' is not a number"),
    ('calc("a+b")', "error: expression: not a sum; use numbers and + - * / ( )"),
])  # fmt: skip
def test_a_tool_that_refuses_names_the_argument(played, text, message):
    [instance] = sample(1, "train")
    assert played(TASK, instance, [text]).turns[0].observation == message


def test_hidden_elements_are_not_there_for_the_user():
    for instance in sample(3):
        for section, elements in instance.data["sections"].items():
            names = [e["name"] for e in elements if e["hidden"]]
            calls = [Call("elements", (section, "any"))]
            for name in names:
                calls += [Call("peek", (name,)), Call("expect", (name, "euro 12"))]
            listing, *refused = after(instance, calls[:4]).turns
            assert names and not set(names) & set(listing.facts[0].value)
            assert all("nothing visible" in turn.observation for turn in refused)


def test_the_page_is_html_with_names_from_labels_and_from_attributes():
    instances = sample(4)
    pages = "".join(TASK.world(instance.data).html for instance in instances)
    assert "<div hidden>" in pages and "<label for=" in pages and 'aria-label="' in pages
    for instance in instances:
        for section in instance.data["sections"]:
            for role in ("button", "link", "status", "any"):
                shown = TASK.world(instance.data).elements(section, role)
                assert shown == [e["name"] for e in listed(instance, section, role)]


def test_idle_hasty_and_random_callers_fail():
    for instance in sample(2):
        assert not TASK.world(instance.data).verdict().success
        assert not replay(TASK, instance, Harness(), ["I give up."] * 4).trajectory.success
    for harness in HARNESSES:
        played = [random_episode(TASK, instance, harness, max_turns=16) for instance in sample(60, "select")]
        assert not any(episode.trajectory.success for episode in played)
        assert any(turn.status == "ok" for episode in played for turn in episode.turns)


def test_a_replay_is_exact():
    for harness in HARNESSES:
        for instance in sample(3, "train"):
            [planned] = expert_episodes(ScriptedExpert(), TASK, [instance], harness, max_turns=30)
            for episode in (planned, random_episode(TASK, instance, harness, max_turns=30)):
                again = replay(TASK, instance, harness, [turn.text for turn in episode.turns], max_turns=30)
                assert again.trajectory.to_json()["turns"] == episode.trajectory.to_json()["turns"]
                assert again.trajectory.feedback == episode.trajectory.feedback


# ---- the verdict, tried with damaged and with rearranged call lists


def damaged(instance):
    """(what was done, calls): each ends in a wrong final state, most of them with the right number."""
    reads, writes, end = right_calls(instance)
    answer = instance.data["answer"]
    foreign = [e for e in [*listed(instance), *elsewhere(instance)] if e["name"] not in instance.data["asked"]]
    for i, write in enumerate(writes):
        name, text = write.args
        rest = writes[:i] + writes[i + 1 :]
        word, shown = text.split()
        others = {e["text"] for e in [*listed(instance), *elsewhere(instance)]} - {text}
        yield "dropped", [*rest, *end]
        yield "dropped, and its number too", [*rest, Call("submit", (answer - int(shown),))]
        yield "twice", [*writes, write, *end]
        yield "twice, once wrong", [*writes, Call("expect", (name, f"{word} 5")), *end]
        for wrong in (f"{word} {int(shown) + 1}", f"{word} -{shown}", shown, word, "", " ", text.upper(), f" {text}"):
            yield "wrong text", [*rest, Call("expect", (name, wrong)), *end]
        for wrong in (text.replace(" ", "  "), f"{text}.0", f"{text}, role button", *sorted(others)[:2], int(shown)):
            yield "wrong text", [*rest, Call("expect", (name, wrong)), *end]
        for other in (name.lower(), f" {name}", f"{name} "):
            yield "misspelt", [*rest, Call("expect", (other, text)), *end]
        for other in foreign:
            yield "another in its place", [*rest, Call("expect", (other["name"], other["text"])), *end]
    for other in foreign:
        yield "one too many", [*writes, Call("expect", (other["name"], other["text"])), *end]
    for wrong in (0, -answer, answer + 1, answer - 1, answer / 2, f"{answer}1", "nan", "inf", 1e300):
        yield "wrong number", [*reads, *writes, Call("submit", (wrong,))]
    yield "number first", [*reads, *end, *writes]
    yield "nothing written", [*reads, *end]
    yield "never handed in", [*reads, *writes]


def test_every_damaged_episode_is_refused_with_one_sentence():
    count = 0
    for instance in sample(3):
        for what, calls in damaged(instance):
            texts = [render_call(call) for call in calls]
            episode = Episode(TASK, instance, Harness(), max_turns=len(texts))
            for text in texts:
                if not episode.done:
                    episode.step(text)
            verdict = episode.world.verdict()
            assert not verdict.success, (what, texts)
            assert verdict.feedback.rstrip(".").count(". ") == 0 and verdict.feedback.endswith(".")
            count += 1
    assert count >= 1000


def rearranged(instance, rng):
    """A right episode by another route: other order, needless reads, and calls that a tool refuses."""
    reads, writes, end = right_calls(instance)
    roles = ("button", "link", "status", "any")
    spare = [Call("elements", (section, role)) for section in instance.data["sections"] for role in roles]
    spare += [Call("peek", (e["name"],)) for e in [*listed(instance), *elsewhere(instance)]] + reads
    spare += [
        Call("peek", ("Nobody",)),
        Call("elements", (instance.goal["section"], "heading")),
        Call("calc", ("7*6",)),
        Call("expect", ("Nobody", "euro 12")),
        Call("calc", ("x",)),
    ]
    calls = [*writes, *(rng.choice(spare) for _ in range(rng.randint(0, 6)))]
    rng.shuffle(calls)
    return [*calls, *end]


def test_every_other_right_route_is_accepted():
    rng = random.Random(0)
    for instance in sample(6):
        for _ in range(3):
            calls = rearranged(instance, rng)
            episode = after(instance, calls)
            assert episode.trajectory.success, (calls, episode.trajectory.feedback)


def test_each_assertion_catches_what_no_other_one_catches():
    """The mutants alone, without the check for too many assertions, tell a full set from one that lacks any."""
    for instance in sample(2):
        world = TASK.world(instance.data)
        mutants = TASK.world.verdict.__globals__["mutants"]
        for name, text in instance.data["asked"].items():
            broken = list(mutants(instance.data["sections"], name))
            assert len({*broken, world.html}) == 5
            world.assertions = [item for item in instance.data["asked"].items() if item[0] != name]
            assert all(world._passes(page) for page in [world.html, *broken])
            world.assertions = [(name, text)]
            assert world._passes(world.html) and not any(map(world._passes, broken))


# ---- the expert in an episode that somebody else began


@pytest.mark.parametrize("persistence", [0.0, 1.0])
def test_the_expert_recovers_from_harmless_detours(persistence):
    rng = random.Random(1)
    for harness in HARNESSES:
        for instance in sample(4):
            *calls, _ = rearranged(instance, rng)
            episode = after(instance, calls[: rng.randint(1, len(calls))], harness)
            if episode.done:
                continue  # too many refused calls in a row
            play_expert(ScriptedExpert(persistence=persistence), episode)
            assert episode.trajectory.success, (calls, episode.trajectory.feedback)


def test_the_expert_continues_in_the_order_that_the_student_chose():
    """Who read several elements first has them asserted, then goes step by step; who has the sum keeps it."""
    persistent, direct = ScriptedExpert(directness=1.0), ScriptedExpert(directness=1.0, persistence=0.0)
    for instance in sample(4):
        reads, writes, end = right_calls(instance)
        first = listing(instance, scope(instance))
        order = [e["name"] for e in listed(instance, role=scope(instance))]
        writes.sort(key=lambda write: order.index(write.args[0]))
        peeks = [Call("peek", write.args[:1]) for write in writes]
        episode = after(instance, [first, *peeks[:2]])
        assert direct.next(episode)[0] == peeks[2]
        play_expert(persistent, episode)
        calls = episode.trajectory.calls[3:]
        assert calls[:4] == [*writes[:2], peeks[2], writes[2]] and episode.trajectory.success
        episode = after(instance, [first, peeks[1], writes[1], peeks[0]])
        assert persistent.next(episode)[0] == writes[0]
        total = "+".join(str(number(e)) for e in listed(instance, role=instance.goal["role"]))
        episode = after(instance, [*reads, Call("calc", (total,)), *writes])
        assert persistent.next(episode)[0] == end[0]


@pytest.mark.parametrize("persistence", [0.0, 1.0])
def test_a_wrong_list_does_no_harm_until_it_is_asserted(persistence):
    """Who listed and read another role lists what is asked for, and asserts just that."""
    for directness in (0.0, 1.0):
        expert = ScriptedExpert(directness=directness, persistence=persistence)
        for instance in sample(2):
            wrong = "any" if instance.goal["kind"] == "role" else "status"
            for n in (0, 1, 9):
                peeks = [Call("peek", (e["name"],)) for e in listed(instance, role=wrong)]
                episode = after(instance, [listing(instance, wrong), *peeks[:n]])
                assert expert.next(episode)[0] == listing(instance, scope(instance))
                assert play_expert(expert, episode).success


@pytest.mark.parametrize("persistence", [0.0, 1.0])
def test_the_expert_knows_no_way_on_after_a_wrong_assertion(persistence):
    expert = ScriptedExpert(persistence=persistence)
    for instance in sample(4):
        reads, writes, _ = right_calls(instance)
        foreign = next(e for e in elsewhere(instance))
        others = [e for e in listed(instance) if e["name"] not in instance.data["asked"]]
        for wrong in (
            *([Call("expect", (e["name"], e["text"]))] for e in others),
            [writes[0], writes[0]],
            [Call("expect", (writes[0].args[0], "euro 5"))],
            [Call("expect", (foreign["name"], foreign["text"]))],
        ):
            assert expert.next(after(instance, [*reads, *wrong])) is None
            episode = after(instance, wrong)
            play_expert(expert, episode)
            assert not episode.world.finished, "it finds out while it reads"


@pytest.mark.parametrize("text", [
    '[tools]\nhide = ["expect"]', '[tools]\nhide = ["submit"]', '[tools]\nhide = ["peek"]', '[tools]\nhide = ["elements"]',
])  # fmt: skip
def test_the_expert_knows_no_way_on_where_the_harness_hides_what_it_needs(text):
    for episode in expert_episodes(ScriptedExpert(), TASK, sample(1), parse_harness(text), max_turns=30):
        assert not episode.world.finished
        assert all(turn.status == "ok" for turn in episode.turns)


@pytest.mark.parametrize("text", [
    '[tools]\nhide = ["calc"]',
    '[context.fields]\npeek = ["euro", "likes", "votes", "clicks", "stars", "credits", "minutes", "pieces"]',
])  # fmt: skip
def test_the_expert_does_without_a_calculator_and_without_the_role_of_a_single_element(text):
    for directness in (0.0, 1.0):
        expert = ScriptedExpert(directness=directness)
        for episode in expert_episodes(expert, TASK, sample(2), parse_harness(text), max_turns=30):
            assert episode.trajectory.success


def test_no_word_of_the_task_occurs_in_the_rows_that_prepare_the_student():
    from coevo_lib import student
    from coevo_lib.preparation import generic_rows

    text = "\n".join(m["content"] for row in generic_rows(student.GENERIC_ROWS, student.SEED) for m in row["messages"])
    words = set(re.findall(r"[a-z_]+", text.lower()))
    names = TASK.world.verdict.__globals__
    twins = [f"{name}s" for name in names["NAMES"]]
    ours = {
        "any",
        *TASK.world.tools(),
        *names["SECTIONS"],
        *names["NAMES"],
        *twins,
        *names["WORDS"],
        *names["ROLES"].values(),
    }
    assert {word.lower() for word in ours} & words == set()
