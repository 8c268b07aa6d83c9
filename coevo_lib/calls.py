"""The call grammar: how a model writes a tool call, and how it is read back.

Two written forms, chosen by a harness (`format.call`): `python` (`hours("Ivy")`) and `json`
(`{"tool": "hours", "args": ["Ivy"]}`). Text is parsed, never evaluated (rule 10). What a tool
does with its arguments is in `toolbox`.
"""

import ast
import json
from dataclasses import dataclass

from coevo_lib.syntax import parse

Value = str | int | float | list
FORMATS = ("python", "json")


@dataclass(frozen=True)
class Call:
    """One tool call: the tool's name and its arguments in the tool's own order."""

    tool: str
    args: tuple[str | int | float, ...] = ()

    def to_json(self) -> list:
        return [self.tool, *self.args]

    @staticmethod
    def from_json(row: list) -> "Call":
        return Call(row[0], tuple(row[1:]))


class CallSyntaxError(ValueError):
    """The text holds no readable call; the message says what was expected."""


def render_call(call: Call, form: str = "python") -> str:
    """The text a model writes for `call`; `parse_call` gives `call` back."""
    if form == "json":
        return json.dumps({"tool": call.tool, "args": list(call.args)}, ensure_ascii=False)
    return f"{call.tool}({', '.join(json.dumps(arg, ensure_ascii=False) for arg in call.args)})"


def parse_call(text: str, form: str = "python") -> Call:
    """The call on the last non-empty line of `text`; a sentence may stand before it.

    Raises CallSyntaxError when that line is not exactly one call with literal arguments.
    """
    lines = [line.strip() for line in text.strip().split("\n") if line.strip()]
    if not lines:
        raise CallSyntaxError("the reply is empty; write one tool call")
    return _parse_json(lines[-1]) if form == "json" else _parse_python(lines[-1])


def _parse_python(line: str) -> Call:
    try:
        node = parse(line, "eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        node = None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise CallSyntaxError('not a tool call; write one call such as tool("argument")')
    try:
        args = [ast.literal_eval(arg) for arg in node.args]
        args += [ast.literal_eval(word.value) for word in node.keywords]
    except (ValueError, TypeError, SyntaxError, RecursionError):
        raise CallSyntaxError('arguments must be plain values such as "text" or 12') from None
    return Call(node.func.id, _plain(args))


def _parse_json(line: str) -> Call:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict) or not isinstance(row.get("tool"), str) or not isinstance(row.get("args", []), list):
        raise CallSyntaxError('not a tool call; write {"tool": "name", "args": ["argument"]}')
    return Call(row["tool"], _plain(row.get("args", [])))


def _plain(args: list) -> tuple:
    if any(isinstance(arg, bool) or not isinstance(arg, (str, int, float)) for arg in args):
        raise CallSyntaxError('arguments must be plain values such as "text" or 12')
    return tuple(args)
