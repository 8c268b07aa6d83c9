"""What the offline meta-agent reads out of trajectories: relations between tools, and failure signatures.

It knows no task: this list feeds that argument, this tool computes, that one finishes: all of it is learned
from what was played on `evolve`.
"""

import re
from collections import Counter

from coevo_lib.arithmetic import numbers_in
from coevo_lib.calls import Call
from coevo_lib.past import denied_term, stray_argument, trimmed, unlike_source, unlisted_item
from coevo_lib.trajectory import ERROR, MALFORMED, REFUSED, Trajectory


class Traces:
    """What can be learned from trajectories: `known` teaches relations, `recent` shows the failures.

    prompts: the words of all prompts. uses: (first, each), where items that `first` listed go into `each`; pairs: those
    whose `each` takes nothing else, as reading does; due: those where every success so far used every item.
    """

    def __init__(self, known: list[Trajectory], recent: list[Trajectory]):
        self.prompts = {word.lower() for t in known for word in re.findall(r"[A-Za-z_]+", t.prompt)}
        self.failures = [t for t in recent if not t.success and t.status != "fault"]
        self.successes = [t for t in recent if t.success]
        self.solved = [t for t in known if t.success]
        self.uses = _pairs(known)
        self.pairs = [pair for pair in self.uses if all(len(c.args) == 1 for c in _calls(known, pair[1]))]
        self.due = [pair for pair in self.uses if not any(map(skipped_read([pair]), self.solved))]
        self.finishers = _tools(t.turns[-1].call for t in known if t.status == "finished")
        self.computers = [name for name in _computers(known) if name not in self.finishers]
        self.always = _always(self.solved)
        self.answers = _answers(self.solved)
        self.writers = _tools(
            f.call for t in self.solved for f in t.facts if len(f.call.args) > 1 and not isinstance(f.value, list)
        )

    def count(self, signature) -> int:
        return sum(bool(signature(t)) for t in self.failures)


def _tools(calls) -> list[str]:
    return [name for name, _ in Counter(call.tool for call in calls if call).most_common()]


def _answers(solved: list[Trajectory]) -> dict[str, list[str]]:
    """Tool -> its answers, of tools that gave few different ones, such as yes and no, in many calls."""
    found: dict[str, Counter] = {}
    for fact in (fact for t in solved for fact in t.facts):
        if isinstance(fact.value, str) and not numbers_in(fact.value):
            found.setdefault(fact.call.tool, Counter())[fact.value] += 1
    few = {
        tool: [a for a in seen if len(a) <= 40] for tool, seen in found.items() if len(seen) <= 3 and seen.total() >= 8
    }
    return {tool: answers for tool, answers in few.items() if len(answers) > 1}


def followers(solved: list[Trajectory], tool: str, answer: str) -> Counter:
    """Which tools came right after `tool` had said `answer` (whatever it said, if that is empty), and how often."""
    found: Counter = Counter()
    for t in solved:
        turns = [turn for turn in t.turns if turn.facts]
        for a, b in zip(turns, turns[1:]):
            if a.call.tool == tool and answer in ("", str(a.facts[-1].value)):
                found[b.call.tool] += 1
    return found


def _calls(known: list[Trajectory], tool: str) -> list[Call]:
    return [fact.call for t in known for fact in t.facts if fact.call.tool == tool]


def _pairs(known: list[Trajectory]) -> list[tuple[str, str]]:
    """(first, each): items that `first` listed were the first arguments of `each`, seen at least three times."""
    count: Counter = Counter()
    for trajectory in known:
        listed: dict[str, str] = {}
        for fact in trajectory.facts:
            if fact.call.args and str(fact.call.args[0]) in listed:
                count[listed[str(fact.call.args[0])], fact.call.tool] += 1
            if isinstance(fact.value, list):
                listed |= {str(item): fact.call.tool for item in fact.value}
    return [pair for pair, n in count.most_common() if n >= 3 and pair[0] != pair[1]]


def _computers(known: list[Trajectory]) -> list[str]:
    """Tools that take a text holding several numbers and answer with a number."""
    facts = [fact for t in known for fact in t.facts if isinstance(fact.value, (int, float))]
    several = (f.call for f in facts if any(isinstance(a, str) and len(numbers_in(a)) >= 2 for a in f.call.args))
    return _tools(several)


def _always(successes: list[Trajectory]) -> list[str]:
    """Tools that every success used, in the order of the first success."""
    used = [[fact.call.tool for fact in t.facts] for t in successes]
    return [name for name in dict.fromkeys(used[0]) if all(name in u for u in used)] if used else []


# ---- failure signatures


def skipped_read(pairs) -> callable:
    def signature(t: Trajectory) -> bool:
        for first, each in pairs:
            items = [str(i) for f in t.facts if f.call.tool == first and isinstance(f.value, list) for i in f.value]
            used = {str(arg) for f in t.facts if f.call.tool == each for arg in f.call.args}
            if not items or set(items) - used:
                return True
        return False

    return signature


def left_unread(first: str, each: str):
    """Items were listed, and some of them not used."""
    skipped = skipped_read([(first, each)])
    return lambda t: any(f.call.tool == first for f in t.facts) and skipped(t)


def repeats(t: Trajectory) -> bool:
    calls = [turn.call for turn in t.turns if turn.call]
    return len(set(calls)) < len(calls)


def malformed(t: Trajectory) -> bool:
    return any(turn.status == MALFORMED for turn in t.turns)


def refused(t: Trajectory) -> bool:
    return any(turn.status == REFUSED for turn in t.turns)


def tool_error(t: Trajectory) -> bool:
    return any(turn.status == ERROR for turn in t.turns)


def untidy(t: Trajectory) -> bool:
    """A tool refuses an argument that has blanks, or the name by which the error calls it, before what is meant."""
    for turn in t.turns:
        named = re.match(r"error: (\w+): ", turn.observation) if turn.status == ERROR and turn.call else None
        if named and turn.call != trimmed(turn.call, (named[1],) * len(turn.call.args)):
            return True
    return False


def ungrounded(tools: list[str]):
    def signature(t: Trajectory) -> bool:
        seen = set(numbers_in(t.prompt))
        for turn in t.turns:
            if turn.call and turn.call.tool in tools and any(set(numbers_in(str(a))) - seen for a in turn.call.args):
                return True
            seen |= set(numbers_in(turn.observation))
        return False

    return signature


def strays(tool: str):
    """Calls of a tool about an item with a value that was never shown for that item."""

    def signature(t: Trajectory) -> bool:
        facts = []
        for turn in t.turns:
            if turn.call and turn.call.tool == tool and stray_argument(turn.call, t.prompt, facts):
                return True
            facts += turn.facts
        return False

    return signature


def unlisted(first: str, each: str):
    """Calls of `each` about what `first` has not listed, answered or not."""
    return _any_turn(lambda call, facts: call.tool == each and unlisted_item(call, facts, first))


def unlike(tools: list[str], source: str):
    """Computations with other numbers than `source` was given."""
    return _any_turn(lambda call, facts: call.tool in tools and unlike_source(call, facts, source))


def denied(tools: list[str], asked: str, answer: str):
    """Sums with a term to which `asked` said nothing but `answer`."""
    return _any_turn(lambda call, facts: call.tool in tools and denied_term(call, facts, asked, answer) is not None)


def deserts(asked: str, answer: str, then: list[str]):
    """Another call than `then` after `asked` has said `answer` (whatever it said, if that is empty)."""

    def signature(t: Trajectory) -> bool:
        answered = [turn for turn in t.turns if turn.facts]
        pairs = zip(answered, answered[1:])
        return any(
            a.call.tool == asked and answer in ("", str(a.facts[-1].value)) and b.call.tool not in then
            for a, b in pairs
        )

    return signature


def _any_turn(wrong):
    """Whether `wrong`(call, facts before it) holds of some turn."""

    def signature(t: Trajectory) -> bool:
        facts = []
        for turn in t.turns:
            if turn.call and wrong(turn.call, facts):
                return True
            facts += turn.facts
        return False

    return signature


def share_used(t: Trajectory, computers: list[str], each: str, words: list[str] | None = None) -> float | None:
    """The smallest share of an answer's numbers, of those behind `words`, that the last computation used; None without one."""
    call = next((turn.call for turn in reversed(t.turns) if turn.call and turn.call.tool in computers), None)
    answers = {fact.call.args: _behind(str(fact.value), words) for fact in t.facts if fact.call.tool == each}
    shares = []
    used = Counter(number for arg in call.args for number in numbers_in(str(arg))) if call else Counter()
    for numbers in filter(None, answers.values()):
        met = Counter(numbers) & used
        shares.append(sum(met.values()) / len(numbers))
    return min(shares) if call and shares else None


def least_used(solved: list[Trajectory], computers: list[str], each: str, words: list[str] | None = None) -> float:
    """The smallest share of an answer that any success used, to two places; 0 where fewer than three tell."""
    found = [share for t in solved if (share := share_used(t, computers, each, words)) is not None]
    return int(min(found) * 100) / 100 if len(found) >= 3 else 0.0


def _behind(answer: str, words: list[str] | None) -> list[float]:
    return [number for word, number in _fields(answer) if word in words] if words else numbers_in(answer)


def _fields(answer: str) -> list[tuple[str, float]]:
    return [(word, float(number)) for word, number in re.findall(r"([A-Za-z_]+) (\d+(?:\.\d+)?)", answer)]


def field_use(solved: list[Trajectory], each: str) -> dict[str, float]:
    """Word -> how often the number behind it, in an answer of `each`, stood in a later call of the success."""
    seen, used = Counter(), Counter()
    for t in solved:
        later: set[float] = set()
        for turn in reversed(t.turns):
            for fact in turn.facts:
                for word, number in _fields(str(fact.value)) if fact.call.tool == each else ():
                    seen[word] += 1
                    used[word] += number in later
            later |= {n for arg in (turn.call.args if turn.facts else ()) for n in numbers_in(str(arg))}
    return {word: used[word] / n for word, n in seen.items() if n >= 5}


def lacks(tool: str):
    return lambda t: all(fact.call.tool != tool for fact in t.facts)


def refused_by(element: str):
    return lambda t: any(event.element == element for turn in t.turns for event in turn.events)
