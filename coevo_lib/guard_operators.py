"""Edit operators that add hooks: guards, and notes. Each turns a failure signature into a typed edit.

As in `operators`, nothing here knows a task or a tool: relations between tools come from `traces`.
"""

from coevo_lib.edits import RETRY, Edit, guarded, with_hooks
from coevo_lib.harness import Harness
from coevo_lib.traces import (
    Traces,
    denied,
    deserts,
    followers,
    lacks,
    least_used,
    refused,
    repeats,
    share_used,
    skipped_read,
    strays,
    tool_error,
    ungrounded,
    unlike,
    unlisted,
)


def unread_items(harness: Harness, traces: Traces) -> list[Edit]:
    """Finishing, or computing, is refused while items are listed that no call has used yet as every success does."""
    edits = []
    have = {(c.first, c.each) for c in harness.tools.composite}
    for first, each in traces.due[:3]:
        n = traces.count(skipped_read([(first, each)]))
        if n and traces.finishers and (first, each) not in have:
            for tools in (traces.finishers[:2], [*traces.finishers[:2], *traces.computers[:2]]):
                guard = {"hook": "finish_guard", "tools": tools, "first": first, "each": each}
                edits += guarded(harness, f"{n} failures finish with items of {first} not in {each}", n * 0.9, guard)
    return edits


def invented_numbers(harness: Harness, traces: Traces) -> list[Edit]:
    """Numbers that were never shown are refused."""
    edits = []
    for tools in (traces.computers[:3], traces.finishers[:2]):
        n = traces.count(ungrounded(tools)) if tools else 0
        if n:
            why = f"{n} failures use numbers never shown in {', '.join(tools)}"
            edits += guarded(harness, why, n * 0.8, {"hook": "grounding_guard", "tools": tools})
    return edits


def mixed_up(harness: Harness, traces: Traces) -> list[Edit]:
    """Every success writes for an item what was shown for it; anything else is refused."""
    edits = []
    for tool in traces.writers[:3]:
        n = traces.count(strays(tool))
        if n and not any(map(strays(tool), traces.solved)):
            why = f"{n} failures use {tool} with what was never shown for its item; no success does"
            edits += guarded(harness, why, n, {"hook": "pairing_guard", "tools": [tool]})
    return edits


def unknown_items(harness: Harness, traces: Traces) -> list[Edit]:
    """Calls about an item that was never listed are refused, where every success keeps to the list."""
    edits = []
    for first, each in traces.uses[:4]:
        n = traces.count(unlisted(first, each))
        if n and not any(map(unlisted(first, each), traces.solved)):
            why = f"{n} failures call {each} with what {first} did not list; no success does"
            edits += guarded(harness, why, n, {"hook": "listed_guard", "tools": [each], "first": first})
    return edits


def other_numbers(harness: Harness, traces: Traces) -> list[Edit]:
    """Every success computes with just the numbers that it has written; other numbers are refused."""
    edits, tools = [], traces.computers[:3]
    for source in traces.writers[:3] if tools else ():
        n = traces.count(unlike(tools, source))
        if n and len(traces.solved) >= 3 and not any(map(unlike(tools, source), traces.solved)):
            why = f"{n} failures compute with other numbers than {source} was given; no success does"
            edits += guarded(harness, why, n * 1.2, {"hook": "source_guard", "tools": tools, "source": source})
    return edits


def denied_numbers(harness: Harness, traces: Traces) -> list[Edit]:
    """No success computes with a number that got a certain answer; such numbers are refused."""
    edits, tools = [], traces.computers[:3]
    for asked, answers in traces.answers.items():
        for answer in answers if tools else ():
            n = traces.count(denied(tools, asked, answer))
            if n and not any(map(denied(tools, asked, answer), traces.solved)):
                why = f"{n} failures compute with what {asked} said {answer} to; no success does"
                guard = {"hook": "denial_guard", "tools": tools, "asked": asked, "answer": answer}
                edits += guarded(harness, why, n * 1.2, guard)
    return edits


def deserted(harness: Harness, traces: Traces) -> list[Edit]:
    """After some answers, and after some writes, every success goes on in one way; another is refused."""
    edits = []
    states = [(tool, answer) for tool, answers in traces.answers.items() for answer in answers]
    for tool, answer in [*states, *((tool, "") for tool in traces.writers[:3])]:
        after = followers(traces.solved, tool, answer)
        if len(after) != 1 or after.total() < 5:
            continue
        then = list(after)
        n = traces.count(deserts(tool, answer, then))
        if n:
            why = f"after {tool} {answer or 'anything'} every success goes on with {then[0]}; {n} failures do not"
            edits += guarded(harness, why, n, {"hook": "answer_guard", "asked": tool, "answer": answer, "then": then})
    return edits


def errors(harness: Harness, traces: Traces) -> list[Edit]:
    """A reply that a tool answers with an error is drawn again."""
    n = traces.count(tool_error)
    plain = next((hook for hook in harness.model_dump()["hooks"]["use"] if hook["hook"] == "retry"), RETRY)
    why = f"{n} failures hold a call that a tool answers with an error"
    return [with_hooks(harness, why, n * 1.1, {**plain, "errors": True})] if n and not plain.get("errors") else []


def left_out(harness: Harness, traces: Traces) -> list[Edit]:
    """Successes use at least some share of every answer; a computation that uses less is refused."""
    edits = []
    for _, each in traces.uses[:4]:
        least = least_used(traces.solved, traces.computers, each)
        if not least:
            continue
        n = traces.count(lambda t, each=each, least=least: (share_used(t, traces.computers, each) or 1.0) < least)
        if n:
            why = f"{n} failures compute with less of what {each} answered than any success does"
            guard = {"hook": "coverage_guard", "tools": traces.computers[:3], "each": each, "share": least}
            grounding = {"hook": "grounding_guard", "tools": traces.computers[:3]}
            edits.append(with_hooks(harness, why, n * 1.2, guard, grounding, RETRY))
            edits.append(with_hooks(harness, why, n * 0.6, guard))
    return edits


def skipped_steps(harness: Harness, traces: Traces) -> list[Edit]:
    """What every success does before something else has to come first."""
    edits = []
    for place, tool in enumerate(traces.always):
        later = [name for name in traces.always[place + 1 :] if name != tool][:6]
        n = traces.count(lacks(tool))
        if n and later and tool not in traces.finishers:
            later += [c.name for c in harness.tools.composite if c.first in later][: 6 - len(later)]
            guard = {"hook": "order_guard", "tools": later, "before": tool}
            edits += guarded(harness, f"every success uses {tool}; {n} failures do not", n, guard)
    return edits


def loops(harness: Harness, traces: Traces) -> list[Edit]:
    """A call that was already answered is refused, or the next turn is sampled."""
    n, m = traces.count(repeats), traces.count(refused)
    edits = guarded(harness, f"{n} failures repeat a call", n * 0.8, {"hook": "loop_breaker"}) if n else []
    if n + m:
        why = f"{n} failures repeat a call, {m} do not recover from a refusal"
        edits.append(with_hooks(harness, why, max(n, m) * 0.6, {"hook": "loop_breaker", "temperature": 0.8}))
    return edits


def notes(harness: Harness, traces: Traces) -> list[Edit]:
    """What is open, what is known, what was asked: shown again after an answer."""
    n, edits = traces.count(skipped_read(traces.due)), []
    for first, each in [pair for pair in traces.pairs if pair in traces.due][:1] if n else []:
        unread = {"hook": "unread_list", "first": first, "each": each}
        edits.append(with_hooks(harness, f"{n} failures leave items unread", n * 0.4, unread))
        edits.append(with_hooks(harness, "facts scattered over turns", n * 0.3, {"hook": "ledger", "each": each}))
    reminder = {"hook": "reminder", "every": 3}
    return [*edits, with_hooks(harness, "the task may be forgotten", len(traces.failures) * 0.1, reminder)]


GUARDS = (
    errors, unknown_items, other_numbers, denied_numbers, deserted, unread_items, mixed_up, left_out, invented_numbers,
    skipped_steps, loops, notes,
)  # fmt: skip
