"""The hook catalogue: small rules that act on a student's turn, with typed parameters.

Rule 1: a hook reads only the trajectory. It may restate what was observed, list what was observed
and not yet used, or refuse a call with a reason; it never fills in an argument or spells out a call.
Each hook is one class with up to four acts: `repair`, `refuse`, `note`, `heat`. Hooks that speak of
lists take the pair of tools concerned (`first` lists the items, `each` takes one): the search learns
such pairs from traces.
"""

import re
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from coevo_lib.arithmetic import numbers_in
from coevo_lib.calls import Call
from coevo_lib.trajectory import OK, REFUSED, Fact, Turn


@dataclass(frozen=True)
class Past:
    """What a hook may read: the task's text, the turns so far, and the visible tools' argument names."""

    prompt: str
    turns: list[Turn]
    signatures: dict[str, tuple[str, ...]]

    def facts(self):
        return [fact for turn in self.turns for fact in turn.facts]

    def items(self, first: str) -> list[str]:
        """What `first` listed last."""
        lists = [f.value for f in self.facts() if f.call.tool == first and isinstance(f.value, list)]
        return [str(item) for item in lists[-1]] if lists else []

    def unread(self, first: str, each: str) -> list[str]:
        """Items that `first` listed last and that no call of `each` has used since the same call listed others."""
        facts, items = self.facts(), self.items(first)
        lists = [(i, f) for i, f in enumerate(facts) if f.call.tool == first and isinstance(f.value, list)]
        others = [i for i, f in lists if f.call == lists[-1][1].call and list(map(str, f.value)) != items]
        since = facts[max(others, default=-1) + 1 :]
        used = {str(arg) for f in since if f.call.tool == each for arg in f.call.args}
        return [item for item in items if item not in used]

    def answers(self, each: str) -> dict[str, list[float]]:
        """Item -> the numbers in the newest answer of `each` for it."""
        return {
            str(f.call.args[0]): numbers_in(str(f.value)) for f in self.facts() if f.call.tool == each and f.call.args
        }

    def text(self) -> str:
        return "\n".join([self.prompt, *(turn.observation for turn in self.turns)])

    def tool(self, name: str) -> str:
        """A tool with the kinds of its arguments: `hours(name)`."""
        kinds = self.signatures.get(name, ("item",))
        return f"{name}({', '.join(kinds)})" if kinds else name


def stray_argument(call: Call, prompt: str, facts: list[Fact]) -> str | None:
    """The first argument after an item that no answer about that item shows, nor the prompt, nor a computed number.

    Of an argument of several words it is the first word of which this holds.
    """
    item, *values = map(str, call.args or ("",))
    about = [str(fact.value) for fact in facts if item in map(str, fact.call.args)]
    computed = [str(fact.value) for fact in facts if any(len(numbers_in(str(arg))) > 1 for arg in fact.call.args)]
    shown = "\n".join([prompt, *about, *computed])
    for value in values:
        if not _stands_in(value, shown):
            words = re.findall(r"\w+", value)
            strange = [word for word in words if not _stands_in(word, shown)]
            if strange or len(words) < 2:
                return (strange or [value])[0]
    return None


def _stands_in(value: str, text: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(value)}(?![\w.]\w|\w)", text) is not None


def unlisted_item(call: Call, facts: list[Fact], first: str) -> str | None:
    """The call's first argument, if `first` has listed something and not that."""
    listed = {str(item) for f in facts if f.call.tool == first and isinstance(f.value, list) for item in f.value}
    item = str(call.args[0]) if call.args else ""
    return item if listed and item not in listed else None


def unlike_source(call: Call, facts: list[Fact], source: str) -> bool:
    """Whether the numbers in a call are others than those that calls of `source` were given after their item."""
    given = Counter(n for f in facts if f.call.tool == source for arg in f.call.args[1:] for n in numbers_in(str(arg)))
    return Counter(n for arg in call.args for n in numbers_in(str(arg))) != given


def denied_number(call: Call, facts: list[Fact], asked: str, answer: str) -> float | None:
    """A number in a call that stands only in calls of `asked` that were answered so."""
    numbers: dict[bool, set[float]] = {True: set(), False: set()}
    for fact in facts:
        if fact.call.tool == asked:
            numbers[str(fact.value) == answer] |= {n for arg in fact.call.args for n in numbers_in(str(arg))}
    denied = numbers[True] - numbers[False]
    return next((n for arg in call.args for n in numbers_in(str(arg)) if n in denied), None)


class Rule(BaseModel):
    """Base of all hooks: does nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def repair(self, text: str, past: Past) -> str:
        """The model's text with its form mended, or as it is."""
        return text

    def refuse(self, call: Call, past: Past) -> str | None:
        """Why this call is refused, or None."""
        return None

    def note(self, past: Past) -> str | None:
        """A line shown after the newest observation, or None."""
        return None

    def heat(self, past: Past) -> float | None:
        """The sampling temperature of the next turn, or None."""
        return None


Pair = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,59}$")]


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


class GroundingGuard(Rule):
    """Refuses an argument, or a number in it, that stands nowhere in the task or the observations, or
    that is used more often than it stands there."""

    hook: Literal["grounding_guard"]
    tools: list[Pair] = Field(min_length=1, max_length=12)

    def refuse(self, call: Call, past: Past) -> str | None:
        if call.tool not in self.tools:
            return None
        text = past.text()
        shown = Counter(numbers_in(text))
        for arg in call.args:
            if not numbers_in(str(arg)) and str(arg) not in text:
                return f"{arg} was never shown"
            for number, times in Counter(numbers_in(str(arg))).items():
                if not shown[number]:
                    return f"{number:g} was never shown"
                if times > shown[number]:
                    return f"{number:g} is used more often than it was shown"
        return None


class PairingGuard(Rule):
    """Refuses a call about an item with a value that was never shown for that item, nor asked for, nor computed."""

    hook: Literal["pairing_guard"]
    tools: list[Pair] = Field(min_length=1, max_length=6)

    def refuse(self, call: Call, past: Past) -> str | None:
        stray = stray_argument(call, past.prompt, past.facts()) if call.tool in self.tools else None
        return f"{stray} was never shown for {call.args[0]}" if stray else None


class ListedGuard(Rule):
    """Refuses a call about an item that `first`, which has listed some, has not listed."""

    hook: Literal["listed_guard"]
    tools: list[Pair] = Field(min_length=1, max_length=6)
    first: Pair

    def refuse(self, call: Call, past: Past) -> str | None:
        item = unlisted_item(call, past.facts(), self.first) if call.tool in self.tools else None
        return None if item is None else f"{item} is not among {', '.join(past.items(self.first))}"


class SourceGuard(Rule):
    """Refuses a computation with other numbers than those that calls of `source` were given."""

    hook: Literal["source_guard"]
    tools: list[Pair] = Field(min_length=1, max_length=6)
    source: Pair

    def refuse(self, call: Call, past: Past) -> str | None:
        if call.tool not in self.tools or not unlike_source(call, past.facts(), self.source):
            return None
        return f"these are not all the numbers of {past.tool(self.source)}, each once"


class AnswerGuard(Rule):
    """After `asked` has answered `answer`, refuses everything but `then`."""

    hook: Literal["answer_guard"]
    asked: Pair
    answer: str = Field(max_length=40)
    then: list[Pair] = Field(min_length=1, max_length=6)

    def refuse(self, call: Call, past: Past) -> str | None:
        last = next((turn for turn in reversed(past.turns) if turn.status == OK), None)
        if last is None or last.call.tool != self.asked or call.tool in self.then:
            return None
        answered = self.answer in ("", str(last.facts[-1].value))
        what = f"{self.asked} said {self.answer}" if self.answer else self.asked
        return f"after {what} comes {' or '.join(map(past.tool, self.then))}" if answered else None


class DenialGuard(Rule):
    """Refuses a computation with a number to which `asked` has answered `answer`."""

    hook: Literal["denial_guard"]
    tools: list[Pair] = Field(min_length=1, max_length=6)
    asked: Pair
    answer: str = Field(max_length=40)

    def refuse(self, call: Call, past: Past) -> str | None:
        number = denied_number(call, past.facts(), self.asked, self.answer) if call.tool in self.tools else None
        return None if number is None else f"{self.asked} said {self.answer} to {number:g}"


class CoverageGuard(Rule):
    """Refuses a computation that uses too little of what was observed.

    Of the numbers in every answer of `each`, at least `share` must stand in the call's arguments.
    """

    hook: Literal["coverage_guard"]
    tools: list[Pair] = Field(min_length=1, max_length=6)
    each: Pair
    share: float = Field(gt=0.0, le=1.0)

    def refuse(self, call: Call, past: Past) -> str | None:
        if call.tool not in self.tools:
            return None
        used = Counter(number for arg in call.args for number in numbers_in(str(arg)))
        short = []
        for item, numbers in past.answers(self.each).items():
            met = Counter(numbers) & used
            if self.share == 1.0:
                used -= met  # everything is due, so nothing counts for two answers
            if sum(met.values()) < self.share * len(numbers) - 1e-9:
                short.append(item)
        return f"too little of {', '.join(short)} is used" if short else None


class FinishGuard(Rule):
    """Refuses `tools` while items that `first` listed are unread by `each`."""

    hook: Literal["finish_guard"]
    tools: list[Pair] = Field(min_length=1, max_length=6)
    first: Pair
    each: Pair

    def refuse(self, call: Call, past: Past) -> str | None:
        if call.tool not in self.tools:
            return None
        if not past.items(self.first):
            return f"nothing is listed yet, see {past.tool(self.first)}"
        missing = past.unread(self.first, self.each)
        return f"{past.tool(self.each)} is still missing for {', '.join(missing)}" if missing else None


class OrderGuard(Rule):
    """Refuses `tools` until `before` has been answered once."""

    hook: Literal["order_guard"]
    tools: list[Pair] = Field(min_length=1, max_length=6)
    before: Pair

    def refuse(self, call: Call, past: Past) -> str | None:
        done = any(fact.call.tool == self.before for fact in past.facts())
        return None if done or call.tool not in self.tools else f"{past.tool(self.before)} comes first"


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
