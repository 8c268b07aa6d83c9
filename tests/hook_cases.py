"""Hooks with plausible parameters, and short pasts for them to read."""

from coevo_lib.calls import parse_call
from coevo_lib.past import Past
from coevo_lib.trajectory import Fact, Turn

SIGNATURES = {"boxes": (), "open": ("box",), "calc": ("expression",), "submit": ("answer",)}
FIELDS = {
    "tools": ["submit", "calc"], "first": "boxes", "each": "open", "before": "calc", "every": 2, "temperature": 0.8, "share": 0.5, "tries": 2,
    "source": "open", "asked": "open", "answer": "12", "then": ["calc"], "errors": True,
}  # fmt: skip


def hook(kind, **fields):
    """A hook of the catalogue with plausible parameters."""
    names = kind.model_fields.keys() - {"hook"}
    return kind(hook=kind.model_fields["hook"].annotation.__args__[0], **{n: {**FIELDS, **fields}[n] for n in names})


def turn(text, value=None, status="ok", observation=None):
    call = parse_call(text)
    facts = [] if status != "ok" else [Fact(call, value)]
    shown = ", ".join(value) if isinstance(value, list) else str(value)
    return Turn(text, call, observation or (f"{status}: no" if status != "ok" else shown), status, facts)


def past(*turns, prompt="How many coins are in the boxes?"):
    return Past(prompt, list(turns), SIGNATURES)


LISTED = turn("boxes()", ["red", "blue"])
RED, BLUE = turn('open("red")', 12), turn('open("blue")', 30)
