"""What a task is: instances by split, a world per instance, tools as methods, a verdict, an expert.

A task file defines one subclass of `Task` and one of `World`, with prompt templates in a TOML file
of the same name beside it. Nothing is registered: `load_task` takes a name under coevo_lib/tasks
or the path of a file. How a model plays is in `agent`; how tools are shown is in `toolbox`.
"""

import functools
import hashlib
import importlib.util
import inspect
import json
import random
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from coevo_lib.arithmetic import ArithmeticSyntaxError, evaluate, holds
from coevo_lib.calls import Call, Value
from coevo_lib.errors import UserError
from coevo_lib.files import stable_seed
from coevo_lib.trajectory import Fact

SPLITS = ("prepare", "evolve", "select", "train", "test")
COMMON_TOOLS = ("compare", "calc", "submit")  # those that several worlds share come last, in this order
TASKS_DIR = Path(__file__).parent / "tasks"


class ToolError(Exception):
    """A tool refuses its arguments; the message names the argument and teaches, never the next call."""


class WorldFault(RuntimeError):
    """A world could not do its work (a grader's process died): infrastructure, never a score (rule 9)."""


@dataclass(frozen=True)
class Instance:
    """One problem: what the student is asked (`prompt`) and what the world is made of (`data`).

    `goal` holds the values that the prompt's template shows; all of it can be read in the prompt.
    """

    key: str
    task: str
    split: str
    prompt: str
    goal: dict
    data: dict


@dataclass(frozen=True)
class Verdict:
    success: bool
    feedback: str


@dataclass(frozen=True)
class Style:
    """How a scripted expert works on an episode as it stands (rule 3).

    direct: it batches reads and computes in its head, else it goes step by step with the calculator.
    persistent: it goes on with the plan that somebody else began; then it is never direct.
    """

    direct: bool = False
    persistent: bool = False


@dataclass
class View:
    """What an expert may know (rule 2): the prompt's values and the answers so far, never the world."""

    goal: dict
    facts: list[Fact]
    tools: frozenset[str]
    composites: dict[tuple[str, str], str] = field(default_factory=dict)

    def answers(self, tool: str) -> dict[tuple, Value]:
        """Arguments -> answer, for every answered call of `tool`, in order."""
        return {fact.call.args: fact.value for fact in self.facts if fact.call.tool == tool}

    def last(self, tool: str) -> Value | None:
        return next((f.value for f in reversed(self.facts) if f.call.tool == tool), None)


def tool(method):
    """Marks a method of a world as a tool; its annotations type the arguments, its docstring documents it."""
    method.is_tool = True
    return method


class World:
    """One instance's state behind the tools. Deterministic: equal data and calls give equal answers."""

    def __init__(self, data: dict):
        self.data = data
        self.finished = False
        self.start()

    def start(self) -> None:
        """Sets up the state from `self.data`."""

    def verdict(self) -> Verdict:
        raise NotImplementedError

    @classmethod
    @functools.cache
    def tools(cls) -> dict[str, dict[str, type]]:
        """Tool name -> argument name -> type, in the order in which the class defines them."""
        found = {}
        for base in reversed(cls.__mro__):
            for name, method in vars(base).items():
                if getattr(method, "is_tool", False):
                    parameters = list(inspect.signature(method, eval_str=True).parameters.values())[1:]
                    found[name] = {p.name: p.annotation for p in parameters}
        own = [name for name in found if name not in COMMON_TOOLS]
        return {name: found[name] for name in [*own, *COMMON_TOOLS] if name in found}


class AnswerWorld(World):
    """A world whose goal is one number: brings a calculator and a tool that submits the answer."""

    def start(self) -> None:
        self.answer: float | None = None

    @tool
    def calc(self, expression: str) -> float:
        """work out a sum such as 2*3+4"""
        try:
            return evaluate(expression)
        except ArithmeticSyntaxError as error:
            raise ToolError(f"expression: {error}") from None

    @tool
    def submit(self, answer: float) -> str:
        """hand in the final number"""
        self.answer = answer
        self.finished = True
        return "submitted"

    def verdict(self) -> Verdict:
        if self.answer is None:
            return Verdict(False, "No answer was submitted.")
        right = abs(self.answer - self.data["answer"]) < 0.005
        return Verdict(right, f"The submitted answer {self.answer:g} is {'right' if right else 'wrong'}.")


class DecidingWorld(AnswerWorld):
    """A world in which a condition decides what is done: brings a tool that compares."""

    @tool
    def compare(self, comparison: str) -> str:
        """say yes or no to a comparison such as 3<5 or 3>9"""
        try:
            return "yes" if holds(comparison) else "no"
        except ArithmeticSyntaxError as error:
            raise ToolError(f"comparison: {error}") from None


class Task:
    """Subclass it in a task file: set `world`, write `draw`, and `expert` if a scripted one is wanted."""

    name: str
    world: type[World]
    size: int = 5

    def draw(self, rng: random.Random, size: int, template: str) -> tuple[dict, dict]:
        """One instance's (goal, data) for a template; `size` makes it longer."""
        raise NotImplementedError

    def expert(self, view: View, style: Style) -> tuple[Call, str] | None:
        """The next call and one sentence why; None where the expert knows no way on."""
        return None

    # ---- below: the same for every task

    def __init__(self, file: Path):
        self.file = file
        self.templates = read_templates(file.with_suffix(".toml"))

    def instances(
        self, split: str, n: int, *, size: int | None = None, diversity: int = 3, seed: int = 0
    ) -> list[Instance]:
        """The first `n` instances of a split; equal arguments give equal instances.

        Splits are disjoint by construction: an instance belongs to the split that its own content
        hashes to. Templates marked `test_only` appear in no other split, and in `test` where their `kind` is among those
        of the templates in use. Raises UserError where the task
        cannot draw an instance of this size.
        """
        if diversity < 1 or n < 0 or (size is not None and size < 1):
            raise UserError(f"{self.name}: diversity ({diversity}), size ({size}) must be 1 or more, n ({n}) 0 or more")
        return [self._instance(split, i, size or self.size, diversity, seed) for i in range(n)]

    def _instance(self, split: str, index: int, size: int, diversity: int, seed: int) -> Instance:
        names = [n for n, t in self.templates.items() if not t.get("test_only")][:diversity]
        kinds = {self.templates[n].get("kind") for n in names}
        if split == "test":  # other words for what the other splits ask for, never another question
            names += [n for n, t in self.templates.items() if t.get("test_only") and t.get("kind") in kinds]
        rng = random.Random(stable_seed(self.name, split, index, size, seed))
        template = names[index % len(names)]
        while True:
            try:
                goal, data = self.draw(rng, size, template)
            except (ValueError, IndexError) as error:
                raise UserError(
                    f"{self.file}: draw fails at size {size}: {error}; lower the size, or add words"
                ) from error
            if split_of(data) == split:
                break
        text = self.templates[template]["text"]
        return Instance(
            f"{self.name}/{split}/{index:04d}",
            self.name,
            split,
            text.format_map(goal),
            {**goal, "template": template},
            data,
        )


def read_templates(path: Path) -> dict[str, dict]:
    """Template name -> {text, ...} of a task's TOML file. Raises UserError naming file, field and fix."""
    if not path.exists():
        raise UserError(f"{path}: missing; write the prompt templates of the task there")
    try:
        templates = tomllib.loads(path.read_text(encoding="utf-8")).get("templates")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not TOML: {error}") from None
    if not isinstance(templates, dict) or not templates:
        raise UserError(f"{path}: no templates; write at least one table [templates.<name>] with a text")
    for name, template in templates.items():
        if not isinstance(template, dict) or not isinstance(template.get("text"), str):
            raise UserError(f"{path}: templates.{name}: text is missing; write the prompt there")
    if all(template.get("test_only") for template in templates.values()):
        raise UserError(f"{path}: templates: every one is test_only; at least one has to serve the other splits")
    return templates


def split_of(data: dict) -> str:
    """The split that content hashes to."""
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).digest()
    return SPLITS[digest[0] % len(SPLITS)]


def task_file(name_or_path: str) -> Path:
    """The file of a task named under coevo_lib/tasks, or the given path of a .py file."""
    file = Path(name_or_path) if name_or_path.endswith(".py") else TASKS_DIR / f"{name_or_path}.py"
    if not file.exists():
        known = ", ".join(sorted(p.stem for p in TASKS_DIR.glob("*.py") if p.stem != "__init__"))
        if own := sorted(Path().glob(f"*/{file.stem}.py")):
            raise UserError(f"tasks: no task {name_or_path!r} under {TASKS_DIR.name}; did you mean the file {own[0]}?")
        raise UserError(
            f"tasks: no task {name_or_path!r} ({file}); known tasks: {known}; or give the path of a .py file"
        )
    return file


def load_task(name_or_path: str) -> Task:
    """The task of a name or file path. Raises UserError naming file, field and fix."""
    file = task_file(name_or_path)
    spec = importlib.util.spec_from_file_location(f"coevo_task_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    classes = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, Task) and c is not Task]
    if len(classes) != 1:
        raise UserError(f"{file}: defines {len(classes)} subclasses of Task; define exactly one")
    check_protocol(classes[0], file)
    return classes[0](file)


def check_protocol(cls: type[Task], file: Path) -> None:
    """Refuses a task class that lacks a part, naming the part and the fix."""
    if getattr(cls, "name", None) != file.stem:
        raise UserError(f"{file}: {cls.__name__}.name must be {file.stem!r}, as the file is called")
    if not isinstance(getattr(cls, "world", None), type) or not issubclass(cls.world, World):
        raise UserError(f"{file}: {cls.__name__}.world must be a subclass of World")
    if cls.world.verdict is World.verdict:
        raise UserError(f"{file}: {cls.world.__name__}.verdict is missing; write verdict(self) -> Verdict")
    if cls.draw is Task.draw:
        raise UserError(
            f"{file}: {cls.__name__}.draw is missing; write draw(self, rng, size, template) -> (goal, data)"
        )
    for name, arguments in cls.world.tools().items():
        if not getattr(cls.world, name).__doc__:
            raise UserError(f"{file}: tool {name} has no docstring; write one line that says what it does")
        for argument, kind in arguments.items():
            if kind not in (str, int, float):
                raise UserError(f"{file}: tool {name}: argument {argument} must be annotated str, int or float")
