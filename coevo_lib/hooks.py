"""The hook catalogue: small rules that act on a student's turn, with typed parameters.

Rule 1: a hook reads only the trajectory. It may restate what was observed, list what was observed
and not yet used, or refuse a call with a reason; it never fills in an argument or spells out a call.
Each hook is one class with up to five acts: `repair` a text, `mend` a call, `refuse` it, `note`, `heat`. Those that
refuse are in `guards`.
"""

from typing import Annotated, Literal

from pydantic import Field

from coevo_lib.calls import Call
from coevo_lib.guards import (
    AnswerGuard,
    CoverageGuard,
    DenialGuard,
    FinishGuard,
    GroundingGuard,
    ListedGuard,
    OrderGuard,
    Pair,
    PairingGuard,
    Rule,
    SourceGuard,
)
from coevo_lib.past import Past, trimmed
from coevo_lib.trajectory import OK, REFUSED


class ArgumentRepair(Rule):
    """Mends form only: keeps the first line that looks like a call, adds a missing bracket or quote."""

    hook: Literal["argument_repair"]

    def repair(self, text: str, past: Past) -> str:
        lines = [line.strip().strip("`") for line in text.splitlines()]
        line = next((line for line in lines if line.split("(")[0] in past.signatures), None)
        if line is None or "(" not in line:
            return text
        if line.count('"') % 2:
            line = line.rstrip(")") + '"'
        return line + ")" * (line.count("(") - line.count(")"))


class ArgumentTrim(Rule):
    """Mends form only: takes off a text argument the blanks around it, and the argument's own name before it."""

    hook: Literal["argument_trim"]

    def mend(self, call: Call, past: Past) -> Call:
        return trimmed(call, past.signatures.get(call.tool, ()))


class LoopBreaker(Rule):
    """Refuses a call that was already answered, and samples the next turn at `temperature`."""

    hook: Literal["loop_breaker"]
    temperature: float = Field(0.0, ge=0.0, le=1.5)

    def refuse(self, call: Call, past: Past) -> str | None:
        return "this was already answered above" if any(t.call == call and t.status == OK for t in past.turns) else None

    def heat(self, past: Past) -> float | None:
        return self.temperature or None if past.turns and past.turns[-1].status == REFUSED else None


class Retry(Rule):
    """Draws a reply again, before it counts, when another hook refuses it or it holds no call; with `errors` also when
    a tool answers it with an error, which changes nothing in the world.

    Up to `tries` new draws at `temperature`, from the same context; the last one stands. It knows no more
    than the other hooks do: what is refused, and not what is right.
    """

    hook: Literal["retry"]
    tries: int = Field(4, ge=1, le=16)
    temperature: float = Field(0.7, gt=0.0, le=1.5)
    errors: bool = False


class Ledger(Rule):
    """After each observation of `each`, restates what is known of every item so far."""

    hook: Literal["ledger"]
    each: Pair

    def note(self, past: Past) -> str | None:
        known = {f.call.args[0]: f.value for f in past.facts() if f.call.tool == self.each and f.call.args}
        return "known so far: " + "; ".join(f"{item} {value}" for item, value in known.items()) if known else None


class UnreadList(Rule):
    """After each observation, lists the items of `first` not yet used by `each`."""

    hook: Literal["unread_list"]
    first: Pair
    each: Pair

    def note(self, past: Past) -> str | None:
        if not past.items(self.first):
            return None
        missing = past.unread(self.first, self.each)
        return f"open: {', '.join(missing)}" if missing else "nothing is open"


class Reminder(Rule):
    """Repeats the task's text after every `every` turns."""

    hook: Literal["reminder"]
    every: int = Field(3, ge=1, le=20)

    def note(self, past: Past) -> str | None:
        return f"the task: {past.prompt}" if past.turns and len(past.turns) % self.every == 0 else None


CATALOGUE = (
    ArgumentRepair,
    ArgumentTrim,
    GroundingGuard,
    PairingGuard,
    ListedGuard,
    SourceGuard,
    AnswerGuard,
    DenialGuard,
    CoverageGuard,
    FinishGuard,
    OrderGuard,
    LoopBreaker,
    Retry,
    Ledger,
    UnreadList,
    Reminder,
)
Hook = Annotated[
    ArgumentRepair
    | ArgumentTrim
    | GroundingGuard
    | PairingGuard
    | ListedGuard
    | SourceGuard
    | AnswerGuard
    | DenialGuard
    | CoverageGuard
    | FinishGuard
    | OrderGuard
    | LoopBreaker
    | Retry
    | Ledger
    | UnreadList
    | Reminder,
    Field(discriminator="hook"),
]
