"""The hooks that refuse a call, with a reason: each is one class with typed parameters and one act, `refuse`.

A refusal names the unmet condition, the observed items concerned, and the tool with the kind of its argument; it never
fills in the argument (rule 1). Guards that speak of lists take the pair of tools concerned (`first` lists the
items, `each` takes one): the search learns such pairs from traces.
"""

from collections import Counter
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from coevo_lib.arithmetic import numbers_in
from coevo_lib.calls import Call
from coevo_lib.past import Past, denied_term, stray_argument, unlike_source, unlisted_item
from coevo_lib.trajectory import OK


class Rule(BaseModel):
    """Base of all hooks: does nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def repair(self, text: str, past: Past) -> str:
        """The model's text with its form mended, or as it is."""
        return text

    def mend(self, call: Call, past: Past) -> Call:
        """The call with the form of its arguments mended, or as it is."""
        return call

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
    """Refuses a sum with a term to which `asked` has answered nothing but `answer`."""

    hook: Literal["denial_guard"]
    tools: list[Pair] = Field(min_length=1, max_length=6)
    asked: Pair
    answer: str = Field(max_length=40)

    def refuse(self, call: Call, past: Past) -> str | None:
        term = denied_term(call, past.facts(), self.asked, self.answer) if call.tool in self.tools else None
        return None if term is None else f"{self.asked} said {self.answer} to {term}"


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
