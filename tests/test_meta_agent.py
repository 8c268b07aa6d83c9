"""The meta-agent learns what the tools are to each other from traces, and proposes only valid harnesses."""

from dataclasses import replace

import pytest

from coevo_lib.agent import replay
from coevo_lib.expert import ScriptedExpert
from coevo_lib.harness import Harness, parse_harness
from coevo_lib.meta_agent import MetaAgent
from coevo_lib.rollouts import expert_episodes, random_episode
from coevo_lib.task import load_task
from coevo_lib.toolbox import check_harness
from coevo_lib.traces import Traces

RENAMED = {"boxes": "stacks", "open": "weigh", "calc": "reckon", "submit": "deliver"}
CODE = '''
import random

from coevo_lib.calls import Call
from coevo_lib.expert import read_all
from coevo_lib.task import AnswerWorld, Task, ToolError, World, tool


class Stacks(World):
    def start(self):
        self.hidden = AnswerWorld(self.data)

    @tool
    def stacks(self) -> list[str]:
        """names"""
        return list(self.data["boxes"])

    @tool
    def weigh(self, box: str) -> int:
        """weight"""
        if box not in self.data["boxes"]:
            raise ToolError(f"box: no box {box!r}")
        return self.data["boxes"][box]

    @tool
    def reckon(self, expression: str) -> float:
        """sum"""
        return self.hidden.calc(expression)

    @tool
    def deliver(self, answer: float) -> str:
        """end"""
        told = self.hidden.submit(answer)
        self.finished = True
        return told.replace("submit", "deliver")

    def verdict(self):
        return self.hidden.verdict()


class Mock(Task):
    name = "mock"
    world = Stacks
    size = 2

    def draw(self, rng, size, template):
        colors = rng.sample(["red", "blue", "green", "white", "black", "pink", "gold", "gray"], size)
        boxes = {color: rng.randint(11, 49) for color in colors}
        return {"kind": "coins"}, {"boxes": boxes, "answer": sum(boxes.values())}
'''
TEMPLATES = '[templates.total]\ntext = "How many coins?"\n[templates.sum]\ntext = "Add up the coins."\n'


def texts_of(index, boxes):
    """A student with many faults and one virtue: every fourth episode is a clean success."""
    first, second = boxes
    a, b = boxes[first], boxes[second]
    read = ["boxes()", f'open("{first}")', f'open("{second}")']
    return [
        [*read, f'calc("{a}+{b}")', f"submit({a + b})"],
        ["boxes()", f'open("{first}")', f"submit({a})"],
        [*read, f'open("{first}")', "Let me think.", 'open("none")', f'calc("{a}+73")', f"submit({a + 73})"],
        ["submit(3)"],
    ][index % 4]


def renamed(text, names):
    for old, new in names.items():
        text = text.replace(old, new)
    return text


def trajectories(task, names=(), harness=None, n=16):
    names = dict(names)
    played = []
    for index, instance in enumerate(task.instances("evolve", n, diversity=2)):
        texts = [renamed(text, names) for text in texts_of(index, instance.data["boxes"])]
        played.append(replay(task, instance, harness or Harness(), texts, max_turns=16).trajectory)
    assert sum(t.success for t in played) == n // 4
    return played


def all_proposals(meta, harness, traces):
    """Every edit that the meta-agent makes of one parent, until it has none left."""
    found = []
    while edit := meta.propose(harness, traces):
        found.append(edit)
        assert len(found) < 60
    return found


def test_relations_between_tools_are_learned_from_traces(mock):
    played = trajectories(mock)
    traces = Traces(played, played)
    assert traces.pairs == [("boxes", "open")]
    assert traces.finishers == ["submit"] and traces.computers == ["calc"]
    assert traces.always == ["boxes", "open", "calc", "submit"]
    assert (len(traces.failures), len(traces.successes)) == (12, 4)


def test_a_relation_seen_less_than_three_times_is_not_learned(mock):
    few = trajectories(mock)[1:2]
    assert Traces(few, few).pairs == [] and Traces(few * 3, few).pairs == [("boxes", "open")]


@pytest.mark.parametrize("name, uses, pairs, due", [
    ("stock", {("products", "stock"), ("products", "requisition"), ("products", "notify")}, {("products", "stock"), ("products", "notify")},
     {("products", "stock")}),
    ("budget", {("managers", "wish"), ("managers", "decide")}, {("managers", "wish")}, {("managers", "wish"), ("managers", "decide")}),
    ("refactor", {("places", "code"), ("places", "edit")}, {("places", "code")}, {("places", "code"), ("places", "edit")}),
])  # fmt: skip
def test_what_reads_an_item_what_writes_it_and_what_every_success_does_are_told_apart(tasks, name, uses, pairs, due):
    task = tasks[name]
    expert = ScriptedExpert(directness=0.0)
    played = [e.trajectory for e in expert_episodes(expert, task, task.instances("evolve", 8), Harness(), 40)]
    traces = Traces(played, played)
    assert ({*traces.uses}, {*traces.pairs}, {*traces.due}) == (uses, pairs, due)


def test_a_page_number_is_an_item_like_a_name(shopadmin):
    played = [
        e.trajectory
        for e in expert_episodes(ScriptedExpert(), shopadmin, shopadmin.instances("evolve", 6), Harness(), 20)
    ]
    traces = Traces(played, played)
    assert traces.pairs[0] == ("pages", "page") and traces.finishers == ["submit"] and traces.computers == ["calc"]
    assert traces.always[:2] == ["filter", "pages"]


def test_tools_of_other_names_lead_to_the_same_proposals_with_those_names(mock, tmp_path):
    """No name is known beforehand: a task whose tools are all called otherwise is evolved in the same way."""
    (tmp_path / "mock.py").write_text(CODE)
    (tmp_path / "mock.toml").write_text(TEMPLATES)
    other = load_task(str(tmp_path / "mock.py"))
    assert [i.data for i in other.instances("evolve", 9, diversity=2)] == [
        i.data for i in mock.instances("evolve", 9, diversity=2)
    ]

    def plain(edit, names):
        sections = edit.harness.model_dump()
        for demo in sections["demos"]["item"]:
            del demo["prompt"]  # the tasks' own words
        return [
            edit.kind,
            renamed(edit.element, names),
            renamed(edit.why, names),
            edit.weight,
            renamed(repr(sections), names),
        ]

    first = all_proposals(MetaAgent(), Harness(), trajectories(mock))
    second = all_proposals(MetaAgent(), Harness(), trajectories(other, RENAMED))
    assert [plain(edit, RENAMED) for edit in first] == [plain(edit, {}) for edit in second]
    assert len(first) >= 10 and any(new in repr(plain(edit, {})) for edit in second for new in RENAMED.values())


def test_no_harness_is_proposed_twice_and_in_the_end_there_is_none(mock):
    meta = MetaAgent()
    found = all_proposals(meta, Harness(), trajectories(mock))
    ids = [edit.harness.id for edit in found]
    assert len(ids) == len(set(ids)) >= 10 and Harness().id not in ids
    assert meta.propose(Harness(), trajectories(mock)) is None
    assert {edit.kind for edit in found} >= {
        "composite tool",
        "hook",
        "demonstration",
        "recipe",
        "call format",
        "tool wording",
    }


def test_the_most_urgent_proposal_comes_first(mock):
    weights = [edit.weight for edit in all_proposals(MetaAgent(), Harness(), trajectories(mock))]
    assert weights == sorted(weights, reverse=True) and len(set(weights)) > 3


def test_every_proposal_is_a_valid_harness_of_the_task(mock):
    """Also those that build on an earlier proposal, as a search would."""
    for edit in all_proposals(MetaAgent(), Harness(), trajectories(mock)):
        traces = trajectories(mock, harness=edit.harness) if playable(mock, edit) else trajectories(mock)
        for further in [edit, *all_proposals(MetaAgent(), edit.harness, traces)]:
            assert parse_harness(further.harness.to_toml()) == further.harness
            check_harness(further.harness, mock)
            assert further.kind and further.why and further.weight >= 0
            goes_back = further.kind == "removal" or further.harness.format.call == "python" != edit.harness.format.call
            assert goes_back or further.element in further.harness.elements()


def playable(task, edit):
    """Whether the students of these tests can play under the edit: some hide tools or change the form."""
    [instance] = task.instances("evolve", 1, diversity=2)
    return replay(task, instance, edit.harness, texts_of(0, instance.data["boxes"])).trajectory.success


def test_writing_for_an_item_what_was_shown_for_another_is_guarded_where_no_success_does_it(tasks):
    task, harness = tasks["stock"], Harness()
    instances = task.instances("evolve", 8)
    played = [e.trajectory for e in expert_episodes(ScriptedExpert(directness=0.0), task, instances[:4], harness, 30)]
    for instance in instances[4:]:
        products = [p["name"] for p in instance.data["products"] if p["category"] == instance.goal["category"]]
        wrong = [f'products("{instance.goal["category"]}")', f'requisition("{products[0]}", 977)', "submit(977)"]
        played.append(replay(task, instance, harness, wrong, max_turns=20).trajectory)
    guards = [e.harness for e in all_proposals(MetaAgent(), harness, played) if e.element == "hooks:pairing_guard"]
    assert guards and all(guard.hooks.use[0].tools == ["requisition"] for guard in guards)
    allowed = [replace(t, success=True) for t in played]
    assert not [e for e in all_proposals(MetaAgent(), harness, [*allowed[4:], *played[4:]]) if "pairing" in e.element]


@pytest.mark.parametrize("name", ["attendance", "shopadmin", "stock", "webtest", "refactor"])
def test_every_proposal_from_the_real_tasks_traces_fits_them(tasks, name):
    task, harness = tasks[name], Harness()
    instances = task.instances("evolve", 12)
    played = [random_episode(task, i, harness, 12).trajectory for i in instances[:8]]
    played += [e.trajectory for e in expert_episodes(ScriptedExpert(directness=0.0), task, instances[8:], harness, 20)]
    found = all_proposals(MetaAgent(), harness, played)
    assert len(found) >= 5
    for edit in found:
        check_harness(parse_harness(edit.harness.to_toml()), task)


def test_rules_and_tools_hold_no_word_of_an_instance(mock):
    """Rule 1: what was seen in one instance may stand in a demonstration or an example call, never in a rule."""
    played = trajectories(mock)
    words = {box for i in mock.instances("evolve", 16, diversity=2) for box in i.data["boxes"]}
    for edit in all_proposals(MetaAgent(), Harness(), played):
        sections = edit.harness.model_dump()
        text = repr([sections["hooks"], sections["tools"]["composite"], sections["tools"]["hide"], sections["system"]])
        assert not [word for word in words if word in text]


def test_demonstrations_are_the_students_own_successes(mock):
    """Rule 5."""
    played = trajectories(mock)
    [edit] = [edit for edit in all_proposals(MetaAgent(), Harness(), played) if edit.kind == "demonstration"]
    [demo] = edit.harness.demos.item
    assert (demo.prompt, demo.calls) in [(t.prompt, [turn.text for turn in t.turns]) for t in played if t.success]


def test_a_long_winded_success_is_no_obstacle(mock):
    played = trajectories(mock)
    played[0].turns[0].text = f"{'I will look into the boxes now. ' * 20}\nboxes()"
    played = [t for index, t in enumerate(played) if not t.success or index == 0]
    assert all_proposals(MetaAgent(), Harness(), played)


def test_without_failures_nothing_is_proposed(mock):
    successes = [t for t in trajectories(mock) if t.success]
    assert MetaAgent().propose(Harness(), successes) is None


def test_a_batch_without_failures_does_not_end_the_search_while_earlier_failures_are_known(mock):
    meta, played = MetaAgent(), trajectories(mock)
    first = meta.propose(Harness(), played)
    successes = [t for t in played if t.success]
    second = meta.propose(Harness(), successes)
    assert first and second and first.harness.id != second.harness.id
    assert meta.propose(second.harness, trajectories(mock, harness=second.harness)[:0]) is None


def test_an_infrastructure_fault_is_no_failure(mock):
    played = [t for t in trajectories(mock) if not t.success]
    for trajectory in played:
        trajectory.status = "fault"
    assert MetaAgent().propose(Harness(), played) is None


def test_what_an_earlier_batch_taught_is_remembered(mock):
    meta, played = MetaAgent(), trajectories(mock)
    meta.observe(played)
    hasty = [t for t in played if len(t.turns) == 1]
    assert any(edit.kind == "composite tool" for edit in all_proposals(meta, Harness(), hasty))
    assert not any(edit.kind == "composite tool" for edit in all_proposals(MetaAgent(), Harness(), hasty))


def test_a_proposal_changes_its_parent_and_keeps_the_rest(mock):
    parent = parse_harness('system.recipe = ["my own step"]\nhooks.use = [{hook = "reminder", every = 7}]')
    for edit in all_proposals(MetaAgent(), parent, trajectories(mock)):
        assert edit.harness.system.recipe == ["my own step"]
        if edit.element != "hooks:reminder":
            assert edit.harness.hooks.use[0] == parent.hooks.use[0]
