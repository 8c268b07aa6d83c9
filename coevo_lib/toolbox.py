"""The tools as a student meets them: a world's methods seen through a harness's tools section.

Shows the list of tools, checks and coerces arguments, runs composites as the fixed sequence that
they stand for, and words answers and errors. Which tool to call is nobody's business here.
"""

import inspect
import re
from typing import get_origin

from coevo_lib.calls import Call, Value
from coevo_lib.errors import UserError
from coevo_lib.harness import Composite, Harness
from coevo_lib.task import Task, ToolError, World
from coevo_lib.trajectory import Fact


class Toolbox:
    """The tools of one world under one harness."""

    def __init__(self, world: World, harness: Harness):
        self.world = world
        self.base = type(world).tools()
        self.composites = {c.name: c for c in harness.tools.composite}
        self.docs = harness.tools.docs
        self.fields = harness.context.fields
        self.visible = [n for n in [*self.composites, *self.base] if n not in harness.tools.hide]

    def signature(self, name: str) -> dict[str, type]:
        return self.base[self.composites[name].first if name in self.composites else name]

    def signatures(self) -> dict[str, tuple[str, ...]]:
        return {name: tuple(self.signature(name)) for name in {*self.base, *self.composites}}

    def describe(self) -> str:
        """One line a visible tool: `hours(name): hours of one person`."""
        return "\n".join(f"{name}({', '.join(self.signature(name))}): {self._doc(name)}" for name in self.visible)

    def _doc(self, name: str) -> str:
        if name in self.docs:
            return self.docs[name]
        return self.composites[name].doc if name in self.composites else getattr(self.world, name).__doc__.strip()

    def run(self, call: Call) -> list[Fact]:
        """Runs a call; one fact per base tool used. Raises ToolError with a reason for the student."""
        if call.tool not in self.visible:
            raise ToolError(f"no tool {call.tool}; the tools are {', '.join(self.visible)}")
        if call.tool not in self.composites:
            return [self._run_base(call)]
        composite = self.composites[call.tool]
        listed = self._run_base(Call(composite.first, call.args))
        if not isinstance(listed.value, list):
            raise ToolError(f"{composite.first} gave no list")
        return [listed, *(self._run_base(Call(composite.each, (item,))) for item in listed.value)]

    def _run_base(self, call: Call) -> Fact:
        kinds = self.base[call.tool]
        if len(call.args) != len(kinds):
            raise ToolError(
                f"{call.tool} takes {len(kinds)} argument{'s' * (len(kinds) != 1)} ({', '.join(kinds)}), "
                f"got {len(call.args)}"
            )
        args = tuple(_coerce(arg, name, kind) for arg, (name, kind) in zip(call.args, kinds.items()))
        value = getattr(self.world, call.tool)(*args)
        if isinstance(value, str) and call.tool in self.fields:
            value = keep_fields(value, self.fields[call.tool])
        return Fact(Call(call.tool, args), value)


def _coerce(arg, name: str, kind: type):
    if kind is str:
        return str(arg)
    try:
        return kind(arg)
    except (ValueError, OverflowError):
        raise ToolError(f"{name}: {arg!r} is not a number") from None


def keep_fields(answer: str, words: list[str]) -> str:
    """Only the numbers behind the given words, with their words; an answer that has none stays as it is."""
    found = re.findall(rf"\b({'|'.join(words)}) (-?\d+(?:\.\d+)?)", answer) if words else []
    return ", ".join(f"{word} {number}" for word, number in found) or answer


def show_value(value: Value) -> str:
    """An answer as the student reads it."""
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def show_facts(facts: list[Fact]) -> str:
    """A call's answer; a composite's answer has one line per item."""
    if len(facts) == 1:
        return show_value(facts[0].value)
    return "\n".join(f"{fact.call.args[0]}: {show_value(fact.value)}" for fact in facts[1:])


def check_harness(harness: Harness, task: Task, source: str = "harness.toml") -> None:
    """Refuses a harness that names tools the task lacks; the error names the field."""
    base = task.world.tools()
    composites = {c.name for c in harness.tools.composite}
    for name in harness.tools.hide:
        _known(name, {*base, *composites}, f"{source}: tools.hide")
    for name in harness.tools.docs:
        _known(name, {*base, *composites}, f"{source}: tools.docs")
    for name in harness.context.fields:
        _known(name, set(base), f"{source}: context.fields")
    for composite in harness.tools.composite:
        _check_composite(composite, task.world, source)
    if not {*base, *composites} - set(harness.tools.hide):
        raise UserError(f"{source}: tools.hide: hides every tool; leave at least one")
    for hook in harness.hooks.use:
        for field in ("first", "each", "before", "source", "asked"):
            if hasattr(hook, field):
                _known(getattr(hook, field), set(base), f"{source}: hooks.{hook.hook}.{field}")
        for name in [*getattr(hook, "tools", []), *getattr(hook, "then", [])]:
            _known(name, {*base, *composites}, f"{source}: hooks.{hook.hook}.tools")


def _check_composite(composite: Composite, world: type[World], source: str) -> None:
    base = world.tools()
    field = f"{source}: tools.composite.{composite.name}"
    if composite.name in base:
        raise UserError(f"{field}.name: a tool of this name exists; choose another")
    _known(composite.first, set(base), f"{field}.first")
    _known(composite.each, set(base), f"{field}.each")
    answer = inspect.signature(getattr(world, composite.first), eval_str=True).return_annotation
    if (get_origin(answer) or answer) is not list:
        raise UserError(f"{field}.first: {composite.first} does not list anything; use a tool whose answer is a list")
    if len(base[composite.each]) != 1:
        raise UserError(f"{field}.each: {composite.each} takes {len(base[composite.each])} arguments; it must take one")


def _known(name: str, names: set[str], field: str) -> None:
    if name not in names:
        raise UserError(f"{field}: no tool {name!r}; use one of {', '.join(sorted(names))}")
