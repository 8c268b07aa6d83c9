"""What a hook may read: the trajectory so far, and nothing of the world (rule 1); and what a call looks like in its light.

The hooks that refuse a call are in `guards`, all others and the catalogue in `hooks`. The search asks the same questions
of trajectories (`traces`).
"""

import re
from collections import Counter
from dataclasses import dataclass

from coevo_lib.arithmetic import numbers_in, subjects_in, terms_in
from coevo_lib.calls import Call
from coevo_lib.trajectory import Fact, Turn


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


def trimmed(call: Call, names: tuple[str, ...]) -> Call:
    """The call without blanks around its text arguments, and without an argument's own name in front of it.

    Of an argument called hall, "Hall Dairy" is "Dairy". A text that is nothing but the name stays.
    """
    named = zip(call.args, [*names, *[""] * len(call.args)])
    return Call(call.tool, tuple(_bare(arg, name) if isinstance(arg, str) else arg for arg, name in named))


def _bare(arg: str, name: str) -> str:
    head, _, rest = arg.strip().partition(" ")
    return rest.strip() if rest.strip() and head.rstrip(":").lower() == name.lower() else arg.strip()


def unlisted_item(call: Call, facts: list[Fact], first: str) -> str | None:
    """The call's first argument, if `first` has listed something and not that."""
    listed = {str(item) for f in facts if f.call.tool == first and isinstance(f.value, list) for item in f.value}
    item = str(call.args[0]) if call.args else ""
    return item if listed and item not in listed else None


def unlike_source(call: Call, facts: list[Fact], source: str) -> bool:
    """Whether the numbers in a call are others than those that calls of `source` were given after their item."""
    given = Counter(n for f in facts if f.call.tool == source for arg in f.call.args[1:] for n in numbers_in(str(arg)))
    return Counter(n for arg in call.args for n in numbers_in(str(arg))) != given


def denied_term(call: Call, facts: list[Fact], asked: str, answer: str) -> str | None:
    """A term of a sum that was asked about in calls of `asked`, and got only this answer.

    A comparison asks about what stands first in it: 3*12<=40 is about 3*12.
    """
    subjects: dict[bool, set[str]] = {True: set(), False: set()}
    for fact in facts:
        if fact.call.tool == asked:
            subjects[str(fact.value) == answer] |= {s for arg in fact.call.args for s in subjects_in(str(arg))}
    denied = subjects[True] - subjects[False]
    return next((term for arg in call.args for term in terms_in(str(arg)) if term in denied), None)
