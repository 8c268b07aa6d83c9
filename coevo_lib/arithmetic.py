"""A calculator for the tools: + - * / and brackets over numbers, by walking a parsed tree.

Nothing is evaluated as code (rule 10), and sizes are bounded, so no expression can hang a rollout.
"""

import ast
import math
import operator
import re

_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


class ArithmeticSyntaxError(ValueError):
    """The text is not a sum this calculator does; the message says why."""


def evaluate(text: str) -> float:
    """The value of `text`, rounded to 4 places; a whole number comes back as int."""
    if len(text) > 300:
        raise ArithmeticSyntaxError("too long")
    try:
        value = round(float(_walk(ast.parse(text.strip(), mode="eval").body)), 4)
    except ZeroDivisionError:
        raise ArithmeticSyntaxError("division by zero") from None
    except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError) as error:
        if isinstance(error, ArithmeticSyntaxError):
            raise
        raise ArithmeticSyntaxError("not a sum; use numbers and + - * / ( )") from None
    if not math.isfinite(value):
        raise ArithmeticSyntaxError("the result is too large")
    return int(value) if value == int(value) else value


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
    raise ArithmeticSyntaxError("not a sum; use numbers and + - * / ( )")
