"""What check-task proves: good tasks pass, and each check is failed by a task that breaks just what it is about."""

import re
import signal
import threading

import pytest

from coevo_lib.check_report import NO_EXPERT, Check, report, show
from coevo_lib.check_task import ANY, BASIC, EXPERT, LOADS, check, main
from coevo_lib.task import load_task
from coevo_lib.time_limit import OutOfTime, time_limit
from coevo_lib.trial import instances_hash

SHIPPED = ("attendance", "budget", "stock", "anomaly", "webtest", "shopadmin", "refactor", "mock")

CODE = '''
import random

from coevo_lib.calls import Call
from coevo_lib.expert import conclude, read_all
from coevo_lib.task import AnswerWorld, Task, ToolError, Verdict, tool

COLORS = "red blue green white black pink gold gray cyan lime teal plum rose sand rust navy".split()
SECRET = {}


class Bags(AnswerWorld):
    @tool
    def bags(self, room: str) -> list[str]:
        """names of the bags in a room"""
        if room != self.data["room"]:
            raise ToolError(f"room: no room {room!r}")
        return list(self.data["bags"])

    @tool
    def look(self, bag: str) -> str:
        """coins in one bag"""
        if bag not in self.data["bags"]:
            raise ToolError(f"bag: no bag {bag!r}")
        return f"fake 5, real {self.data['bags'][bag]}"

    # more tools


class Toy(Task):
    name = "toy"
    world = Bags
    size = 4

    def draw(self, rng, size, template):
        room = rng.choice(["hall", "attic", "cellar"])
        bags = {color: rng.randint(11, 99) for color in rng.sample(COLORS, size)}
        goal, data = {"room": room}, {"room": room, "bags": bags, "answer": sum(bags.values())}
        return goal, data

    def expert(self, view, style):
        reading = read_all(view, style, Call("bags", (view.goal["room"],)), "look")
        if reading:
            return reading
        coins = [text.split()[-1] for text in view.answers("look").values()]
        return conclude(view, style, "+".join(coins), "Every bag is open.")

    # more methods
'''
TEMPLATES = """
[templates.one]
text = "How many real coins are in the bags of the {room}?"
[templates.two]
text = "Add up the real coins in the {room}."
[templates.three]
test_only = true
text = "Real coins, {room}, total?"
"""
GOAL = 'goal, data = {"room": room},'
TOOLS, METHODS, READING = "    # more tools\n", "    # more methods\n", "        if reading:\n"
KEPT = ("        return goal, data\n", "        SECRET.update(data)\n        return goal, data\n")

# check -> what breaks it: (old, new) in the code or the templates, and words of the reason
BROKEN = [
    (LOADS, [("class Toy(Task):", "class Toy(Task:")], "SyntaxError"),
    (LOADS, [("import random", "import no_such_module")], "no_such_module"),
    (LOADS, [("def draw", "def drew")], "draw is missing"),
    (LOADS, [("def look(", "def Look(")], "small letters"),
    (LOADS, [('"""coins in one bag"""', '"""coins\n        in one bag"""')], "several lines"),
    ("every template renders", [("{room}, total?", "{floor}, total?")], "templates.three at size 4: the text has {floor}, but the goal of draw has room; "),
    ("every template renders", [("in the {room}.", "in the {room.")], "templates.two"),
    ("every template renders", [("test_only = true\n", "")], "add one with test_only = true, so that"),
    ("every template renders", [("[templates.one]\n", '[templates.one]\nkind = "real"\n')], 'test_only = true and kind = "real"'),
    ("every template renders", [('"bags": bags,', '"bags": bags, "seen": {1, 2},')], "JSON"),
    ("every template renders", [("return goal, data", "return data")], "return (goal, data)"),
    ("draws vary", [(GOAL, "rng.seed(1)\n        bags = {'red': 20}\n        " + GOAL)], "different instances"),
    ("instances are the same everywhere", [("rng.sample(COLORS, size)", "list(set(COLORS))[:size]")], "set"),
    ("instances are the same everywhere", [("rng.sample(COLORS, size)", "random.sample(COLORS, size)")], "rng"),
    (
        "splits are disjoint",
        [(METHODS, "    def instances(self, split, n, **more):\n        return super().instances('train', n, **more)\n")],
        "share the data",
    ),
    ("the world never raises", [("if bag not in self.data", "if False and bag not in self.data")], "KeyError"),
    ("the world never raises", [("        return f\"fake", "        f\"fake")], "None"),
    ("the world never raises", [(TOOLS, "    def verdict(self):\n        return self.answer == 1\n")], "return Verdict"),
    ("the world never raises", [(TOOLS, "    def verdict(self):\n        return Verdict(self.nothing, '')\n")], "in verdict"),
    ("tool errors name an argument", [('f"bag: no bag {bag!r}"', '"no such bag"')], "ToolError('bag: "),
    ("the goal stands in the prompt", [(GOAL, 'goal, data = {"room": room, "due": sum(bags.values())},')], "'due'"),
    ("the goal stands in the prompt", [(GOAL, 'goal, data = {"room": room, "first": list(bags)[0]},')], "'first'"),
    ("the expert solves it", [(READING, "        1 / style.direct\n" + READING)], "directness 0 (h0)"),
    ("the expert solves it", [('"+".join(coins)', '"+".join(coins[1:] if style.direct else coins)')], "is wrong"),
    ("the expert solves it", [(READING, "        if view.facts:\n            return None\n" + READING)], "mend expert()"),
    ("the expert solves it with a composite", [(READING, "        if view.composites:\n            return None\n" + READING)], "no next call"),
    (
        "the expert solves it with base tools hidden",
        [("        reading = read", "        if not view.facts and 'bags' not in view.tools:\n            return Call('bags', ('hall',)), ''\n        reading = read")],
        "no tool bags",
    ),
    # It knows the answer and reads nothing, or knows a bag before any was listed, or the order by what is inside.
    ("the expert is not clairvoyant", [KEPT, (READING, "        if style.direct:\n            return Call('submit', (SECRET['answer'],)), 'Known.'\n" + READING)], "was neither shown before"),
    ("the expert is not clairvoyant", [KEPT, (READING, "        if not view.facts:\n            return Call('look', (list(SECRET['bags'])[0],)), 'Known.'\n" + READING)], "was neither shown before"),
    ("the expert is not clairvoyant", [KEPT, (READING, "        if len(view.facts) == 1:\n            names = sorted(view.last('bags'), key=SECRET['bags'].get)\n            return Call('look', (names[0],)), 'The poorest.'\n" + READING)], "met no world"),
    ("the expert is not clairvoyant", [(GOAL, 'goal, data = {"room": room, "due": sum(bags.values())},'), ('"+".join(coins)', "f\"{view.goal['due']}+0\"")], "was neither shown before"),
    ("a larger size takes more turns", [("rng.sample(COLORS, size)", "rng.sample(COLORS, 4)")], "at size 2"),
    ("a larger size takes more turns", [("rng.sample(COLORS, size)", "rng.sample(COLORS[:size], 4 if size > 3 else 9)")], "size 1: ValueError"),
    ("every tool is reachable", [(TOOLS, "    @tool\n    def gate(self, key: str) -> str:\n        '''opens'''\n        raise ToolError('key: it does not fit')\n")], "nobody gets an answer from gate"),
    ("a replay is exact", [(TOOLS, "    @tool\n    def noise(self) -> int:\n        '''some number'''\n        return random.randint(0, 10**6)\n")], "no chance"),
    ("a replay is exact", [("        return f\"fake", "        self.data['seen'] = bag\n        return f\"fake")], "changed the instance's data"),
    ("a replay is exact", [(TOOLS, "    def verdict(self):\n        return Verdict(super().verdict().success and random.random() < 0.98, '')\n")], "Verdict(success=True"),
    ("a replay is exact", [('raise ToolError(f"bag', 'self.seen = 6\n            raise ToolError(f"bag'), ("fake 5", "fake {getattr(self, 'seen', 5)}")], "a refused call may change nothing"),
    ("a tool error changes nothing", [(TOOLS, "    def start(self):\n        super().start()\n        self.closed = False\n\n    def verdict(self):\n        told = super().verdict()\n        return Verdict(False, 'closed') if told.success and self.closed else told\n"), ('raise ToolError(f"room', 'self.closed = True\n            raise ToolError(f"room')], "which meets an error"),
    ("what the verdict depends on", [(TOOLS, "    def start(self):\n        super().start()\n        self.seen = set()\n\n    def verdict(self):\n        if super().verdict().success and len(self.seen) == 3:\n            raise KeyError('seen')\n        return super().verdict()\n"), ('return f"fake', 'self.seen.add(bag)\n        return f"fake')], "it has to hold at any moment"),
    ("idle play fails", [(TOOLS, "    def start(self):\n        super().start()\n        self.seen = set()\n\n    def verdict(self):\n        return Verdict(len(self.seen) > 2, 'seen')\n"), ('return f"fake', 'self.seen.add(bag)\n        return f"fake')], "of the expert's 7 calls"),
    ("idle play fails", [(TOOLS, "    def verdict(self):\n        return Verdict(self.answer is None or super().verdict().success, '')\n")], "fresh world"),
    ("idle play fails", [(TOOLS, "    def verdict(self):\n        return Verdict(self.answer is not None, '')\n")], "submit(0)"),
    ("random play fails", [(TOOLS, "    @tool\n    def luck(self) -> str:\n        '''ends it'''\n        return self.submit(self.data['answer'])\n")], "at random"),
    ("a blind guess fails", [("rng.randint(11, 99)", "rng.choice([30, 60])")], "commonest answer"),
    (
        "a blind guess fails",
        [("rng.randint(11, 99)", "rng.choice([30, 60])"), ('"answer": sum', '"due": sum'),
         (TOOLS, "    def verdict(self):\n        return Verdict(self.answer == self.data['due'], '')\n")],
        "another instance",
    ),
]  # fmt: skip


@pytest.fixture
def write_task(tmp_path):
    """Writes the toy task with replacements in its code or its templates; returns the file's path."""

    def make(*changes):
        code, templates = CODE, TEMPLATES
        for old, new in changes:
            assert (old in code) != (old in templates), old
            code, templates = code.replace(old, new), templates.replace(old, new)
        path = tmp_path / "toy.py"
        path.write_text(code)
        path.with_suffix(".toml").write_text(templates)
        return path

    return make


WITHOUT_EXPERT = ("def expert(self, view, style)", "def teacher(self, view, style)")


@pytest.fixture
def one_process(monkeypatch):
    """Leaves out the other process, which takes most of the time of a small check."""
    monkeypatch.setattr("coevo_lib.check_task.hash_elsewhere", instances_hash)


def failed(checks):
    return {c.name: c.detail for c in checks if not c.ok}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_task_passes(name):
    checks = check(name, 20)
    assert failed(checks) == {}
    assert [c.name for c in checks] == [LOADS, *BASIC, *EXPERT, *ANY]
    assert all(c.detail and "does not apply" not in c.detail for c in checks), "each of them has the pair"


def test_a_task_outside_the_package_passes(write_task):
    assert failed(check(write_task(), 20)) == {}


@pytest.mark.parametrize("name, changes, words", BROKEN)
def test_a_task_that_breaks_a_rule_fails_the_check_of_it(write_task, name, changes, words, request):
    if name != "instances are the same everywhere":
        request.getfixturevalue("one_process")
    found = failed(check(write_task(*changes), 10))
    assert name in found, found
    assert words in found[name]


@pytest.mark.parametrize(
    "change",
    [
        ('"answer": sum(bags.values())', '"answer": sum(bags.values()) + 1'),
        ('"+".join(coins)', '"+".join([*coins, "1"])'),
    ],
)
def test_where_expert_and_verdict_disagree_neither_is_blamed_and_both_values_are_shown(write_task, one_process, change):
    details = failed(check(write_task(change), 10))
    for name in ("the expert solves it", "a larger size takes more turns"):
        assert "mend expert()" not in details[name]
        assert "expert() and verdict() disagree and either may be wrong, also draw()" in details[name]
        shown = re.search(r'ends with submit\((\d+)\), draw\(\) put (\d+) into data\["answer"\]', details[name])
        assert abs(int(shown[1]) - int(shown[2])) == 1


def test_a_verdict_without_a_stored_answer_is_questioned_as_well(write_task, one_process):
    verdict = "    def verdict(self):\n        return Verdict(False, 'never')\n"
    path = write_task(('"answer": sum', '"due": sum'), (TOOLS, verdict))
    detail = failed(check(path, 10))["the expert solves it"]
    assert "either may be wrong, also draw() (the expert ends with submit(" in detail and "data[" not in detail


FOREVER = "while True:\n            pass"


@pytest.mark.parametrize(
    ("name", "change", "method"),
    [
        (LOADS, ("SECRET = {}", "while True:\n    pass"), "<module>, line "),
        ("every template renders", ("        return goal, data\n", f"        {FOREVER}\n"), "Toy.draw, line "),
        (
            "every template renders",
            ("rng.sample(COLORS, size)", "pick(rng)"),
            "Toy.draw, line ",  # the loop is in a function of the file, and swallows what it can
        ),
        ("the world never raises", ("        if bag not in", f"        {FOREVER}\n        if bag not in"), "Bags.look, line "),
        ("the world never raises", (TOOLS, f"    def verdict(self):\n        {FOREVER}\n"), "Bags.verdict, line "),
        ("a replay is exact", (READING, f"        {FOREVER}\n{READING}"), "Toy.expert, line "),
        ("every template renders", ("        return goal, data\n", "        import time\n        time.sleep(60)\n"), "Toy.draw, line "),
    ],
)  # fmt: skip
def test_what_does_not_end_is_stopped_and_named_with_its_file_and_method(
    write_task, one_process, monkeypatch, name, change, method
):
    monkeypatch.setattr("coevo_lib.check_task.BUSY", 0.5)
    monkeypatch.setattr("coevo_lib.check_task.WAITING", 4.0 if "sleep" in change[1] else 600.0)
    picking = "def pick(rng):\n    while True:\n        try:\n            rng.random()\n        except Exception:\n            pass\n\n\n"
    path = write_task(change, ("class Bags(", f"{picking}class Bags("))
    checks = check(path, 20)
    assert (checks[-1].name, checks[-1].ok) == (name, False)
    assert re.match(rf"{re.escape(str(path))}: stopped after .* in {re.escape(method)}\d+; mend", checks[-1].detail)
    assert report(checks).endswith("the further checks rest on this one")


def test_a_time_limit_leaves_no_timer_behind_and_is_without_effect_in_a_thread():
    with pytest.raises(OutOfTime, match="0.05 s of work"), time_limit(0.05, 60):
        while True:
            pass
    assert signal.getitimer(signal.ITIMER_PROF)[0] == signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
    results = []
    thread = threading.Thread(target=lambda: results.append(check("no_such_task")[0].ok))
    thread.start()
    thread.join()
    assert results == [False]


def test_every_check_has_been_seen_to_fail():
    assert {name for name, _, _ in BROKEN} == {LOADS, *BASIC, *EXPERT, *ANY}


def test_checks_that_rest_on_one_that_failed_are_left_out(write_task):
    checks = check(write_task(("{room}, total?", "{floor}, total?")))
    assert [c.name for c in checks] == [LOADS, "every template renders"] and not checks[-1].ok
    assert "the further checks rest on this one" in report(checks)


def test_a_task_that_does_not_exist_fails_with_the_known_ones():
    [only] = check("attendence")
    assert not only.ok and "known tasks: " in only.detail


def test_a_task_without_an_expert_passes_and_says_so_once(write_task, one_process, capsys):
    path = write_task(WITHOUT_EXPERT)
    checks = check(path, 20)
    assert failed(checks) == {} and checks[-1] == Check("scripted expert", True, NO_EXPERT)
    assert [c.detail for c in checks].count(NO_EXPERT) == 1
    assert main([str(path), "--instances", "10"]) == 0
    assert "look(bag): coins in one bag" in capsys.readouterr().out


def test_without_an_expert_a_tool_that_random_callers_do_not_reach_is_named_and_no_fault(write_task, one_process):
    tool = '    @tool\n    def weigh(self, bag: str) -> str:\n        """of a bag"""\n        raise ToolError(\'bag: no\')\n'
    alone, taught = (
        {c.name: c for c in check(write_task(*changes, (TOOLS, tool)), 20)} for changes in ((WITHOUT_EXPERT,), ())
    )
    assert alone["every tool is reachable"].ok and "no answer from weigh" in alone["every tool is reachable"].detail
    assert not taught["every tool is reachable"].ok


def test_a_task_without_an_expert_is_still_played_at_random(write_task, one_process):
    luck = "    @tool\n    def luck(self) -> str:\n        '''ends it'''\n        return self.submit(self.data['answer'])\n"
    assert set(failed(check(write_task(WITHOUT_EXPERT, (TOOLS, luck)), 20))) == {"random play fails"}


def test_a_task_without_lists_has_no_composite(write_task, one_process):
    path = write_task(
        ("-> list[str]", "-> str"), ('return list(self.data["bags"])', 'return " ".join(self.data["bags"])')
    )
    path.write_text(path.read_text().replace('reading = read_all(view, style, Call("bags", (view.goal["room"],)), "look")', """
        names = (view.last("bags") or "").split()
        unread = [name for name in names if (name,) not in view.answers("look")]
        reading = None if names and not unread else (Call("look", (unread[0],)) if unread else Call("bags", (view.goal["room"],)), "Next.")"""))  # fmt: skip
    details = {c.name: (c.ok, c.detail) for c in check(path, 20)}
    assert all(ok for ok, _ in details.values()), details
    assert "does not apply" in details["the expert solves it with a composite"][1]


# ---- what a person reads


def test_the_command_reports_and_shows_an_instance_and_a_trajectory(one_process, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["mock", "--instances", "10"]) == 0
    out = capsys.readouterr().out
    lines = out.split("\n")
    assert max(map(len, lines)) <= 80
    checks = [line for line in lines if line.startswith("ok  ")]
    assert len(checks) == len([LOADS, *BASIC, *EXPERT, *ANY]) and "all 20 checks passed" in out
    for text in (
        "How many coins are in the boxes?",
        "open(box): coins in one box",
        "     1  boxes()",
        "why: Every box is open.",
        "5 turns, success",
    ):
        assert text in out


def test_the_command_ends_with_an_error_where_a_check_failed(write_task, one_process, capsys):
    assert main([str(write_task(("{room}, total?", "{floor}, total?")))]) == 1
    assert "FAILED  every template renders: templates.three" in capsys.readouterr().out
    assert main([str(write_task(('"+".join(coins)', '"+".join(coins[1:])'))), "--instances", "10"]) == 1
    out = capsys.readouterr().out
    assert "FAILED  the expert solves it: 0% at directness 0 (h0)" in out and "failure" in out.split("\n")[-2]


def test_a_wide_terminal_is_not_filled(monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    text = report([Check("a check", False, "word " * 100)]) + show(load_task("attendance"))
    assert max(map(len, text.split("\n"))) <= 120


def test_an_expert_that_raises_is_reported_with_its_place(write_task, one_process):
    path = write_task((READING, "        1 / 0\n" + READING))
    assert "ZeroDivisionError: division by zero (toy.py, line " in failed(check(path))["the expert solves it"]
    assert show(load_task(str(path))).endswith("0 turns, failure: no next call")
