"""A calculator for the tools: + - * / and brackets over numbers, and comparisons, by walking a parsed tree.

Nothing is evaluated as code (rule 10), and sizes are bounded, so no expression can hang a rollout.
"""

import ast
import math
import operator
import re
from collections.abc import Callable

from coevo_lib.syntax import parse

LONGEST = 300  # characters of a text that is worked out
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
_COMPARISONS = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_NO_SUM = "not a sum; use numbers and + - * / ( )"
_NO_COMPARISON = (
    "not a comparison; write two or three numbers or sums with < <= > >= == != between them, once or twice with or"
)


class ArithmeticSyntaxError(ValueError):
    """The text is not a sum this calculator does; the message says why."""


def evaluate(text: str) -> float:
    """The value of a sum, rounded to 4 places; a whole number comes back as int."""
    value = _round(_parsed(text, lambda tree: _walk(tree.body), _NO_SUM))
    return int(value) if value == int(value) else value


def holds(text: str) -> bool:
    """Whether a comparison such as "3<5", "2<=4<=9" or "1<3 or 1>7" is true; between the signs stand numbers or sums."""
    return _parsed(text, lambda tree: _compare(tree.body), _NO_COMPARISON)


def _parsed(text: str, walk: Callable, otherwise: str):
    if len(text) > LONGEST:
        raise ArithmeticSyntaxError("too long")
    try:
        return walk(parse(text.strip(), "eval"))
    except ZeroDivisionError:
        raise ArithmeticSyntaxError("division by zero") from None
    except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError) as error:
        if isinstance(error, ArithmeticSyntaxError):
            raise
        raise ArithmeticSyntaxError(otherwise) from None


def _round(value: float) -> float:
    """To 4 places, so that 0.1+0.2 is 0.3."""
    try:
        value = round(float(value), 4)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise ArithmeticSyntaxError("the result is too large")
    return value


def _compare(node: ast.AST) -> bool:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and len(node.values) == 2:
        return any([_compare(part) for part in node.values])
    if not isinstance(node, ast.Compare) or len(node.ops) > 2 or {*map(type, node.ops)} - _COMPARISONS.keys():
        raise ArithmeticSyntaxError(_NO_COMPARISON)
    values = [_round(_walk(part)) for part in (node.left, *node.comparators)]
    return all(_COMPARISONS[type(op)](a, b) for op, a, b in zip(node.ops, values, values[1:]))


def terms_in(text: str) -> list[str]:
    """The terms that a sum adds up, without blanks and with their factors in order; none where it is no sum."""
    return _read(text, _terms)


def subjects_in(text: str) -> list[str]:
    """What a comparison, or each of two with or between them, holds against others: the terms on its left."""
    return _read(text, _subjects)


def _read(text: str, walk: Callable) -> list[str]:
    try:
        return walk(parse(text.strip(), "eval").body) if len(text) <= LONGEST else []
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return []


def _subjects(node: ast.AST) -> list[str]:
    if isinstance(node, ast.BoolOp):
        return [subject for part in node.values for subject in _subjects(part)]
    return _terms(node.left) if isinstance(node, ast.Compare) else []


def _terms(node: ast.AST) -> list[str]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _terms(node.left) + _terms(node.right)
    return ["*".join(sorted(_factors(node), key=lambda factor: (len(factor), factor)))]


def _factors(node: ast.AST) -> list[str]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _factors(node.left) + _factors(node.right)
    text = ast.unparse(node).replace(" ", "")
    return [f"({text})" if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) else text]


def numbers_in(text: str) -> list[float]:
    """Every number written in `text`, in order."""
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)]


def _walk(node: ast.AST) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_walk(node.left), _walk(node.right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_walk(node.operand)
    raise ArithmeticSyntaxError(_NO_SUM)
