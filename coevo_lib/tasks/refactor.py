"""refactor: a change across a repository. Rename a parameter of a function, or add one, in every place at once.

An analogue of the paper's code refactoring task (paper.md: a change across files, judged by a unit test), written anew.
Size: files that call the function. Trap: another function and variables bear the parameter's name, on the same lines.
"""

import ast
import functools
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from coevo_lib.calls import Call
from coevo_lib.expert import conclude, read_all
from coevo_lib.syntax import parse
from coevo_lib.task import AnswerWorld, Style, Task, ToolError, Verdict, View, WorldFault, tool

FUNCTIONS = "fee tip toll levy duty fare bill wage loan gain loss debt lend fine rent gift perk pay dole tax".split()
PARAMETERS = "dose days qty pct size kg hrs num vol year freq lvl amt tier band cap yrs tons rank pos idx deg".split()
FLAGS = "dry late free lean fast safe bulk solo loud raw big main auto slow soft hard bare keen odd calm".split()
MODULES = (
    "shop till bank desk hotel cafe kiosk mart stall pier dock yard barn attic cellar lobby porch plaza court arena "
    "clinic salon motel lodge abbey"
).split()
RESULTS, SPARES = ("due", "owed", "tab", "pot", "tot"), ("cut", "rest", "bit", "rem", "off")
LONGEST = 80


class Repository(AnswerWorld):
    def start(self) -> None:
        super().start()
        self.before = _by_place(self.data["files"])
        self.lines = dict(self.before)

    @tool
    def places(self, function: str) -> list[str]:
        """places that define or call a function"""
        found = [place for place, line in self.before.items() if function in re.findall(r"(\w+)\(", line)]
        if not found:
            raise ToolError(f"function: no function {function!r}")
        return found

    @tool
    def code(self, place: str) -> str:
        """line of code at a place"""
        if place not in self.lines:
            raise ToolError(f"place: no place {place!r}; a place is a file and a line number, as in file:1")
        return self.lines[place]

    @tool
    def edit(self, place: str, line: str) -> str:
        """write a new line of code at a place"""
        if self.code(place).startswith("from "):
            raise ToolError(f"place: {place} is an import, which stays as it is")
        if len(line) > LONGEST:
            raise ToolError(f"line: longer than {LONGEST} characters")
        try:
            [statement] = parse(line.strip()).body if len(line.strip().splitlines()) == 1 else []
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            raise ToolError("line: this is not one line of Python") from None
        if not isinstance(statement, (ast.FunctionDef, ast.Assign)):
            raise ToolError("line: neither a definition nor an assignment such as x = 1")
        self.lines[place] = line.strip()
        return "saved"

    def verdict(self) -> Verdict:
        number = super().verdict()
        if not number.success:
            return number
        if any(self.lines[place] == self.before[place] for place in self.data["after"]):
            return Verdict(False, "A line that defines or calls the function is not changed.")
        right = self._settled(self.before | self.data["after"])
        if self._settled(self.lines) != right:
            return Verdict(False, "A changed line is not as it was asked for.")
        # Lines written by a model are run only here, only once they have the expected shapes, and as the parsed tree
        # says, so that no comment or coding mark is left: nothing it writes can run code of its own choice.
        sources = tuple((name, ast.unparse(tree)) for name, tree in _parse(self.lines).items())
        if not tests_pass(sources, self.data["tests"]):
            return Verdict(False, "The unit tests of the repository fail.")
        return number

    def _settled(self, lines: dict[str, str]) -> dict[str, str]:
        """The files' trees as text; the order of named arguments is free, and what is computed is left to the tests."""
        trees, function, names = _parse(lines), self.data["function"], self.data["names"]
        for node in (node for tree in trees.values() for node in ast.walk(tree)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function:
                node.keywords.sort(key=lambda keyword: str(keyword.arg))
            if isinstance(node, ast.FunctionDef) and node.name == function:
                node.args.args.sort(key=lambda argument: argument.arg)
                for name in (n for line in node.body for n in ast.walk(line) if isinstance(n, ast.Name)):
                    name.id = names[0] if name.id in names else name.id
        return {name: ast.dump(tree) for name, tree in trees.items()}


class Refactor(Task):
    name = "refactor"
    world = Repository
    size = 2

    def draw(self, rng: random.Random, size: int, template: str) -> tuple[dict, dict]:
        kind = self.templates[template]["kind"]
        function, other = rng.sample(FUNCTIONS, 2)
        old, new = rng.sample(PARAMETERS, 2)
        goal = {"function": function, "old": old, "new": new, "kind": kind}
        if kind == "add":
            goal |= {"new": rng.choice(FLAGS), "value": rng.choice(("True", "None"))}
        home, aside, *users = rng.sample(MODULES, size + 2)
        base, values = rng.randint(2, 9), rng.sample(range(11, 99), size)
        definitions = [f"def {function}({old}): return {old} * base", f"def {other}({old}): return {old} + base"]
        files = {home: [f"base = {base}", *rng.sample(definitions, 2)]}
        files[aside] = [f"from {home} import {other}", f"{old} = {other}({old}={rng.randint(11, 98)})"]
        trapped, results = rng.randrange(size), {}
        for i, (user, value) in enumerate(zip(users, values)):
            part, amount = rng.choice((old, rng.choice(SPARES))), rng.randint(2, 9)
            result, end, taken = rng.choice(RESULTS), "", 0
            if i == trapped or rng.random() < 0.3:
                end = f"{other}({part})" if kind == "add" else part if part == old else f"{other}({old}={part})"
                end, taken = f" - {end}", amount if end == part else amount + base
            calls = [f"{result} = {function}({old}={value}){end}", f"memo = {other}({old}={rng.randint(11, 98)})"]
            files[user] = [f"from {home} import {function}, {other}", f"{part} = {amount}", *rng.sample(calls, 2)]
            results[f"{user}.{result}"] = value * base - taken
        files = dict(rng.sample(list(files.items()), len(files)))
        lines = _by_place(files)
        after = {place: end for place, line in lines.items() if (end := _changed(line, goal)) != line}
        tests = _tests(goal, home, other, base, results)
        data = {"function": function, "names": sorted({old, goal["new"]}), "files": files, "after": after}
        return goal, data | {"tests": tests, "answer": sum(values)}

    def expert(self, view: View, style: Style) -> tuple[Call, str] | None:
        step = self._step(view, style)
        return step if step and step[0].tool in view.tools else None  # the harness may hide a tool

    def _step(self, view: View, style: Style) -> tuple[Call, str] | None:
        function, first, now = view.goal["function"], {}, {}
        for fact in (fact for fact in view.facts if fact.call.tool in ("code", "edit")):
            place, line = (*fact.call.args, fact.value)[:2]
            if fact.call.tool == "code":
                first.setdefault(place, line)
            elif place not in first:
                return None  # written over before it was read: what stood there is lost
            now[place] = line.strip()
        wanted = {place: _changed(line, view.goal) for place, line in first.items()}
        wrong = [place for place, line in now.items() if _tidy(line) != _tidy(wanted[place])]
        reading = read_all(view, style, Call("places", (function,)), "code")
        together = style.direct or style.persistent and len(wrong) > 1
        if wrong and not (reading and together):
            why = "has to change there" if wanted[wrong[0]] != first[wrong[0]] else "is not on this line, so it stays"
            return Call("edit", (wrong[0], wanted[wrong[0]])), f"{function} {why}."
        if reading:
            return reading
        lines = [first[place] for place in view.answers("places")[(function,)]]
        values = re.findall(rf"\b{function}\({view.goal['old']}=(\d+)", "\n".join(lines))
        return conclude(view, style, "+".join(values), "Every place is changed.")


def _by_place(files: dict[str, list[str]]) -> dict[str, str]:
    return {f"{name}:{n}": line for name, lines in files.items() for n, line in enumerate(lines, 1)}


def _parse(lines: dict[str, str]) -> dict[str, ast.Module]:
    sources: dict[str, list[str]] = {}
    for place, line in lines.items():
        sources.setdefault(place.split(":")[0], []).append(line)
    return {name: parse("\n".join(source)) for name, source in sources.items()}


def _changed(line: str, goal: dict) -> str:
    """An original line as it has to be in the end; a line that neither defines nor calls the function stays."""
    function, old, new = goal["function"], goal["old"], goal["new"]
    if goal["kind"] == "add":
        line = line.replace(f"def {function}({old})", f"def {function}({old}, {new})")
        return re.sub(rf"\b{function}\({old}=(\d+)\)", rf"{function}({old}=\1, {new}={goal['value']})", line)
    if line.startswith(f"def {function}("):
        return re.sub(rf"\b{old}\b", new, line)
    return re.sub(rf"\b{function}\({old}=", f"{function}({new}=", line)


def _tidy(line: str) -> str:
    return ast.unparse(parse(line))


def _tests(goal: dict, home: str, other: str, base: int, results: dict[str, int]) -> str:
    """The unit tests of the changed repository."""
    function, old, new = f"{home}.{goal['function']}", goal["old"], goal["new"]
    call = f"{old}=12, {new}={goal['value']}" if goal["kind"] == "add" else f"{new}=12"
    return f"""import unittest
class Changed(unittest.TestCase):
    def test_functions(self):
        import {home}
        self.assertEqual({function}({call}), {12 * base})
        self.assertRaises(TypeError, {function}, {old}=12)
        self.assertEqual({home}.{other}({old}=12), {12 + base})
    def test_users(self):
        import {", ".join(place.split(".")[0] for place in results)}
        self.assertEqual([{", ".join(results)}], {list(results.values())})
"""


FAILED = 3
LAUNCHER = f"""import sys, unittest
try:
    import resource
    for name, limit in {{"CPU": 10, "AS": 1 << 29, "NPROC": 0, "FSIZE": 0}}.items():
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (limit, limit))
except (ImportError, AttributeError, ValueError, OSError):
    pass  # limits are set where the system has them
def refuse(event, args):
    if event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn")):
        raise PermissionError(event)
sys.addaudithook(refuse)
sys.path.insert(0, sys.argv[1])
done = unittest.main(module="checks", argv=["checks"], exit=False)
sys.exit(0 if done.result.wasSuccessful() else {FAILED})
"""


@functools.lru_cache(maxsize=4096)
def tests_pass(sources: tuple[tuple[str, str], ...], tests: str) -> bool:
    """Runs the unit tests on the files in a process of its own; equal contents are run once.

    Raises where they could not be run to their end: that is a fault, not a failure of the player's.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, source in (*sources, ("checks", tests)):
            Path(folder, f"{name}.py").write_text(source, encoding="utf-8")
        command = [sys.executable, "-I", "-S", "-B", "-c", LAUNCHER, folder]
        quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        try:
            code = subprocess.run(command, env={}, cwd=folder, timeout=120, check=False, **quiet).returncode
        except (subprocess.TimeoutExpired, OSError) as error:
            raise WorldFault(f"refactor: the unit tests could not be run: {error}") from error
    if code not in (0, FAILED):
        raise WorldFault(f"refactor: the unit tests ended with exit code {code}; they could not be run")
    return code == 0
