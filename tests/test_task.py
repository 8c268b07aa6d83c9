"""A task file is checked when it is loaded, and its instances are the same on every machine."""

import hashlib
import json
import os
import subprocess
import sys

import pytest

from coevo_lib.calls import Call
from coevo_lib.errors import UserError
from coevo_lib.harness import Harness
from coevo_lib.task import SPLITS, AnswerWorld, ToolError, View, load_task, split_of
from coevo_lib.trajectory import Fact

CODE = '''
from coevo_lib.task import AnswerWorld, Task, ToolError, Verdict, World, tool


class Jars(AnswerWorld):
    @tool
    def peek(self, jar: str) -> int:
        """marbles in one jar"""
        return self.data["answer"]


class Toy(Task):
    name = "toy"
    world = Jars

    def draw(self, rng, size, template):
        return {"jar": "big"}, {"answer": rng.randint(10, 10**6)}
'''
TEMPLATES = '[templates.one]\ntext = "How many marbles are in the {jar} jar?"\n'


@pytest.fixture
def write_task(tmp_path):
    """Writes a task file, with replacements in its code, and its templates; returns the file's path."""

    def make(*changes, templates=TEMPLATES):
        code = CODE
        for old, new in changes:
            assert old in code
            code = code.replace(old, new)
        path = tmp_path / "toy.py"
        path.write_text(code)
        if templates is not None:
            path.with_suffix(".toml").write_text(templates)
        return path

    return make


def test_a_task_outside_the_package_is_loaded_by_its_path(write_task, played):
    task = load_task(str(write_task()))
    [instance] = task.instances("evolve", 1)
    assert instance.prompt == "How many marbles are in the big jar?"
    episode = played(task, instance, ['peek("big")', f"submit({instance.data['answer']})"])
    assert episode.trajectory.success and episode.turns[0].observation == str(instance.data["answer"])


@pytest.mark.parametrize("changes, message", [
    ([('name = "toy"', 'name = "other"')], r"toy\.py: Toy\.name must be 'toy'"),
    ([('name = "toy"', "pass")], r"toy\.py: Toy\.name must be 'toy'"),
    ([("world = Jars", "pass")], r"toy\.py: Toy\.world must be a subclass of World"),
    ([("world = Jars", "world = int")], r"toy\.py: Toy\.world must be a subclass of World"),
    ([("def draw", "def drew")], r"toy\.py: Toy\.draw is missing; write draw\(self, rng, size, template\)"),
    ([('"""marbles in one jar"""', "pass")], r"toy\.py: tool peek has no docstring; write one line"),
    ([("jar: str", "jar")], r"toy\.py: tool peek: argument jar must be annotated str, int or float"),
    ([("jar: str", "jar: list")], r"toy\.py: tool peek: argument jar must be annotated str, int or float"),
    ([("class Toy(Task)", "class Toy")], r"toy\.py: defines 0 subclasses of Task; define exactly one"),
    ([("class Toy(Task)", "class Two(Task): pass\n\n\nclass Toy(Task)")], r"toy\.py: defines 2 subclasses of Task; define exactly one"),
])  # fmt: skip
def test_a_part_that_is_missing_or_wrong_is_named_with_its_fix(write_task, changes, message):
    with pytest.raises(UserError, match=message):
        load_task(str(write_task(*changes)))


def test_a_task_without_templates_beside_it_names_the_file_to_write(write_task):
    with pytest.raises(UserError, match=r"toy\.toml: missing; write the prompt templates of the task there"):
        load_task(str(write_task(templates=None)))


@pytest.mark.parametrize(
    "templates", ["", "[template.one]\ntext = 'x'", "[templates.one]\ntekst = 'x'", "not toml at all"]
)
def test_a_mistake_in_the_templates_names_the_file(write_task, templates):
    with pytest.raises(UserError, match=r"toy\.toml"):
        load_task(str(write_task(templates=templates))).instances("evolve", 1)


def test_a_world_without_a_verdict_is_refused(write_task):
    with pytest.raises(UserError, match=r"verdict"):
        load_task(str(write_task(("class Jars(AnswerWorld)", "class Jars(World)"))))


def test_a_task_may_postpone_its_annotations(write_task):
    path = write_task(("\nfrom coevo_lib.task", "from __future__ import annotations\nfrom coevo_lib.task"))
    assert load_task(str(path)).world.tools()["peek"] == {"jar": str}


@pytest.mark.parametrize("name", ["attendence", "nowhere/toy.py"])
def test_an_unknown_task_is_answered_with_the_known_ones(name):
    with pytest.raises(UserError, match=r"known tasks: anomaly, attendance, .*, webtest; or give the path"):
        load_task(name)


@pytest.mark.parametrize("name", ["attendance", "shopadmin", "mock"])
def test_equal_arguments_give_equal_instances(name):
    first, second = load_task(name), load_task(name)
    for split in SPLITS:
        assert first.instances(split, 12) == second.instances(split, 12)
        assert first.instances(split, 12)[:5] == first.instances(split, 5), "fewer are the first of more"
    assert first.instances("evolve", 5) != first.instances("evolve", 5, seed=1)


def test_instances_are_the_same_in_another_process(tasks):
    code = (
        "import hashlib; from coevo_lib.task import load_task\n"
        "rows = [load_task(n).instances('test', 6) for n in ('attendance', 'shopadmin', 'mock')]\n"
        "print(hashlib.sha256(repr(rows).encode()).hexdigest())"
    )
    here = [tasks[name].instances("test", 6) for name in ("attendance", "shopadmin", "mock")]
    for seed in "12":
        environment = os.environ | {
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        out = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert out.stdout.strip() == hashlib.sha256(repr(here).encode()).hexdigest()


@pytest.mark.parametrize("name", ["attendance", "shopadmin", "mock"])
def test_no_content_is_in_two_splits(tasks, name):
    contents = {
        split: {json.dumps(i.data, sort_keys=True) for i in tasks[name].instances(split, 100)} for split in SPLITS
    }
    for split in SPLITS:
        assert {split_of(json.loads(text)) for text in contents[split]} == {split}
        assert not any(contents[split] & contents[other] for other in SPLITS if other != split)


@pytest.mark.parametrize("name", ["attendance", "shopadmin"])
def test_a_template_for_test_only_is_used_in_test_alone(tasks, name):
    task = tasks[name]
    held_out = {name for name, template in task.templates.items() if template.get("test_only")}
    used = {split: {i.goal["template"] for i in task.instances(split, 24, diversity=9)} for split in SPLITS}
    assert held_out and held_out < used.pop("test")
    assert not held_out & set().union(*used.values())


@pytest.mark.parametrize("name", ["attendance", "budget", "stock", "anomaly", "webtest", "shopadmin", "refactor"])
@pytest.mark.parametrize("diversity", [1, 3, 8])
def test_test_asks_nothing_that_no_other_split_asks(tasks, name, diversity):
    """Other words, never another kind of question: neither search nor training could know of it."""
    task = tasks[name]
    assert sum(not t.get("test_only") for t in task.templates.values()) >= 8
    kinds = {
        split: {i.goal["kind"] for i in task.instances(split, 40, diversity=diversity)} for split in ("train", "test")
    }
    used = {i.goal["template"] for i in task.instances("test", 40, diversity=diversity)}
    assert kinds["test"] == kinds["train"] and any(task.templates[name].get("test_only") for name in used)


def test_diversity_is_the_number_of_templates_in_use(attendance):
    for diversity in (1, 2, 3):
        used = {i.goal["template"] for i in attendance.instances("train", 12, diversity=diversity)}
        assert used == set(list(attendance.templates)[:diversity])


@pytest.mark.parametrize("name, value", [("attendance", "team"), ("shopadmin", "status")])
def test_the_prompt_shows_what_is_asked_for(tasks, name, value):
    assert all(instance.goal[value] in instance.prompt for instance in tasks[name].instances("test", 20))


def test_a_name_without_its_folder_is_told_where_the_file_is(tmp_path, monkeypatch):
    (tmp_path / "my_tasks").mkdir()
    (tmp_path / "my_tasks" / "tickets.py").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"no task 'tickets' .*did you mean the file my_tasks/tickets\.py\?"):
        load_task("tickets")


def test_keys_name_task_split_and_place(mock):
    assert [i.key for i in mock.instances("select", 2)] == ["mock/select/0000", "mock/select/0001"]


def test_a_view_gives_the_answers_of_one_tool_and_its_last():
    facts = [Fact(Call("open", ("red",)), 3), Fact(Call("calc", ("1+1",)), 2), Fact(Call("open", ("blue",)), 5)]
    view = View({}, facts, frozenset())
    assert view.answers("open") == {("red",): 3, ("blue",): 5}
    assert view.last("open") == 5 and view.last("submit") is None


def test_a_world_with_an_answer_judges_it_once_submitted():
    world = AnswerWorld({"answer": 12.5})
    assert not world.verdict().success and "No answer" in world.verdict().feedback
    assert world.calc("25/2") == 12.5 and not world.finished
    with pytest.raises(ToolError, match="expression: not a sum"):
        world.calc("twelve")
    assert world.submit(12.5) == "submitted" and world.finished and world.verdict().success
    world.submit(12.51)
    assert not world.verdict().success and "12.51 is wrong" in world.verdict().feedback


def test_tools_come_in_the_order_of_the_file_with_the_finishing_ones_last(tasks):
    assert list(tasks["shopadmin"].world.tools()) == ["filter", "pages", "page", "calc", "submit"]
    assert tasks["shopadmin"].world.tools()["page"] == {"number": int}


@pytest.mark.parametrize("name", ["attendance", "shopadmin", "mock"])
def test_worlds_of_one_instance_share_no_state(tasks, name, played):
    [instance] = tasks[name].instances("train", 1)
    before = json.dumps(instance.data)
    texts = ["submit(1)", 'filter("pending")', 'calc("1+1")']
    first, second = (played(tasks[name], instance, texts, Harness()) for _ in range(2))
    assert first.trajectory.to_json() == second.trajectory.to_json()
    assert json.dumps(instance.data) == before
