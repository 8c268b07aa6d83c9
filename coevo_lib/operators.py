"""Edit operators: from failure signatures to typed harness edits, each with its evidence as weight.

Operators name no task and no tool; demonstrations and recipes are the student's own successes on `evolve`
(rule 5). Every edit is a valid harness under rule 1. Whether it is kept is decided in `search`.
"""

from collections import Counter
from dataclasses import dataclass

from coevo_lib.calls import render_call
from coevo_lib.harness import Harness
from coevo_lib.traces import (
    Traces,
    field_use,
    lacks,
    malformed,
    refused,
    refused_by,
    repeats,
    share_used,
    skipped_read,
    tool_error,
    ungrounded,
)
from coevo_lib.trajectory import ERROR, OK


@dataclass(frozen=True)
class Edit:
    """One proposed change: the new harness, what kind of edit of which element, why, and how urgent."""

    kind: str
    element: str
    why: str
    weight: float
    harness: Harness


def edits_for(harness: Harness, traces: Traces) -> list[Edit]:
    """All edits that the traces speak for, each with its evidence as weight."""
    if not traces.failures:
        return []
    edits: list[Edit] = []
    for operator in (
        _composites,
        _guards,
        _coverage,
        _fields,
        _order,
        _loops,
        _form,
        _demos,
        _recipe,
        _notes,
        _docs,
        _removals,
    ):
        edits += operator(harness, traces)
    return edits


def _edit(harness: Harness, kind: str, element: str, why: str, weight: float, **sections: dict) -> Edit:
    plain = harness.model_dump()
    for section, change in sections.items():
        plain[section] |= change
    return Edit(kind, element, why, weight, Harness.model_validate(plain))


def _with_hooks(harness: Harness, why: str, weight: float, *hooks: dict) -> Edit:
    """Adds hooks, each in place of one of the same name; the first one names the edit."""
    names = [hook["hook"] for hook in hooks]
    others = [h for h in harness.model_dump()["hooks"]["use"] if h["hook"] not in names]
    return _edit(harness, "hook", f"hooks:{names[0]}", why, weight, hooks={"use": [*others, *hooks]})


def _with_hook(harness: Harness, why: str, weight: float, **hook) -> Edit:
    return _with_hooks(harness, why, weight, hook)


def _composites(harness: Harness, traces: Traces) -> list[Edit]:
    edits = []
    have = {(c.first, c.each) for c in harness.tools.composite}
    n = traces.count(skipped_read(traces.pairs)) + traces.count(repeats) / 2 + 0.3 * len(traces.failures)
    for first, each in traces.pairs:
        if (first, each) in have or len(harness.tools.composite) >= 6:
            continue
        name = f"{first}_and_{each}"[:60]
        parts = [
            *harness.model_dump()["tools"]["composite"],
            {"name": name, "first": first, "each": each, "doc": f"{first}, then {each} for every item"},
        ]
        why = f"{first} lists what {each} takes; {len(traces.failures)} failures read one by one"
        hidden = sorted({*harness.tools.hide, first, each})
        for weight, tools in ((n + 0.5, {"composite": parts, "hide": hidden}), (n * 0.7, {"composite": parts})):
            hooks = {"use": [*harness.model_dump()["hooks"]["use"], *_preconditions(traces, first, name)]}
            edits.append(
                _edit(harness, "composite tool", f"tools.composite:{name}", why, weight, tools=tools, hooks=hooks)
            )
    return edits


def _preconditions(traces: Traces, first: str, composite: str) -> list[dict]:
    """What every success did before it listed, the composite has to wait for too."""
    earlier = traces.always[: traces.always.index(first)] if first in traces.always else []
    return [{"hook": "order_guard", "tools": [composite], "before": earlier[-1]}] if earlier else []


def _guards(harness: Harness, traces: Traces) -> list[Edit]:
    edits = []
    have = {(c.first, c.each) for c in harness.tools.composite}
    n = traces.count(skipped_read(traces.pairs))
    for first, each in traces.pairs:
        if traces.finishers and (first, each) not in have:
            for tools in (traces.finishers[:2], [*traces.finishers[:2], *traces.computers[:2]]):
                why = f"{n} failures finish with items of {first} unread"
                edits.append(
                    _with_hook(harness, why, n * 0.9, hook="finish_guard", tools=tools, first=first, each=each)
                )
    for tools in (traces.computers[:3], traces.finishers[:2]):
        m = traces.count(ungrounded(tools)) if tools else 0
        if m:
            edits.append(
                _with_hook(
                    harness,
                    f"{m} failures use numbers never shown in {', '.join(tools)}",
                    m * 0.8,
                    hook="grounding_guard",
                    tools=tools,
                )
            )
    return edits


def _coverage(harness: Harness, traces: Traces) -> list[Edit]:
    """Successes use at least some share of every answer; what uses less is refused, and drawn again.

    The guard comes with the grounding guard and the retry hook, since a refusal alone rarely brings a better reply;
    a second proposal has the guard alone.
    """
    edits = []
    for _, each in traces.pairs[:2]:
        good = [share for t in traces.solved if (share := share_used(t, traces.computers, each)) is not None]
        if len(good) < 3 or min(good) == 0:
            continue
        least = int(min(good) * 100) / 100
        n = traces.count(lambda t, each=each, least=least: (share_used(t, traces.computers, each) or 1.0) < least)
        if n:
            why = f"{n} failures compute with less of what {each} answered than any success does"
            guard = {"hook": "coverage_guard", "tools": traces.computers[:3], "each": each, "share": least}
            grounding = {"hook": "grounding_guard", "tools": traces.computers[:3]}
            retry = {"hook": "retry", "tries": 4, "temperature": 0.7}
            edits.append(_with_hooks(harness, why, n * 1.2, guard, grounding, retry))
            edits.append(_with_hooks(harness, why, n * 0.6, guard))
    return edits


def _fields(harness: Harness, traces: Traces) -> list[Edit]:
    """Shows only the fields of an answer that successes compute with; then every number shown has to be used."""
    edits = []
    for _, each in traces.pairs[:2]:
        rates = field_use(traces.solved, traces.computers, each)
        kept = [word for word, rate in rates.items() if rate > 0.9]
        if not kept or len(kept) == len(rates) or each in harness.context.fields:
            continue
        context = {"fields": {**harness.context.fields, each: kept}}
        why = f"successes compute only with {', '.join(kept)} of what {each} answers"
        guard = {"hook": "coverage_guard", "tools": traces.computers[:3], "each": each, "share": 1.0}
        retry = {"hook": "retry", "tries": 4, "temperature": 0.7}
        guarded = _with_hooks(harness, why, 0, guard, {"hook": "grounding_guard", "tools": traces.computers[:3]}, retry)
        n, element = len(traces.failures), f"context.fields:{each}"
        edits.append(_edit(guarded.harness, "context", element, why, n * 1.1, context=context))
        edits.append(_edit(harness, "context", element, why, n * 0.7, context=context))
    return edits


def _order(harness: Harness, traces: Traces) -> list[Edit]:
    edits = []
    for place, tool in enumerate(traces.always):
        later = [name for name in traces.always[place + 1 :] if name != tool][:6]
        n = traces.count(lacks(tool))
        if n and later and tool not in traces.finishers:
            later += [c.name for c in harness.tools.composite if c.first in later][: 6 - len(later)]
            edits.append(
                _with_hook(
                    harness,
                    f"every success uses {tool}; {n} failures do not",
                    n,
                    hook="order_guard",
                    tools=later,
                    before=tool,
                )
            )
    return edits


def _loops(harness: Harness, traces: Traces) -> list[Edit]:
    n, m = traces.count(repeats), traces.count(refused)
    edits = [_with_hook(harness, f"{n} failures repeat a call", n * 0.6, hook="loop_breaker")] if n else []
    if n + m:
        why = f"{n} failures repeat a call, {m} do not recover from a refusal"
        edits.append(_with_hook(harness, why, max(n, m) * 0.8, hook="loop_breaker", temperature=0.8))
    return edits


def _form(harness: Harness, traces: Traces) -> list[Edit]:
    n = traces.count(malformed)
    if not n:
        return []
    other = "json" if harness.format.call == "python" else "python"
    return [
        _with_hook(harness, f"{n} failures write unreadable calls", n, hook="argument_repair"),
        _edit(
            harness,
            "call format",
            "format.call",
            f"{n} failures write unreadable calls",
            n * 0.2,
            format={"call": other},
        ),
    ]


def _demos(harness: Harness, traces: Traces) -> list[Edit]:
    """The shortest clean success under this harness that is not shown yet."""
    shown = {demo.prompt for demo in harness.demos.item}
    clean = [t for t in traces.successes if all(turn.status == OK for turn in t.turns) and t.prompt not in shown]
    clean = [
        t for t in clean if len(t.turns) <= 30 and len(t.prompt) <= 1000 and all(len(u.text) <= 400 for u in t.turns)
    ]
    if not clean or len(shown) >= 2:
        return []
    best = min(clean, key=lambda t: (len(t.turns), t.instance))
    demo = {
        "prompt": best.prompt,
        "calls": [t.text.strip() for t in best.turns],
        "observations": [t.observation for t in best.turns],
    }
    items = [*harness.model_dump()["demos"]["item"], demo]
    why = f"{len(traces.failures)} failures; a success of its own can show the way"
    return [
        _edit(
            harness, "demonstration", f"demos:{len(items) - 1}", why, len(traces.failures) * 0.5, demos={"item": items}
        )
    ]


def _recipe(harness: Harness, traces: Traces) -> list[Edit]:
    """The steps of the student's own successes, in words."""
    if not traces.successes or harness.system.recipe:
        return []
    best = min(traces.successes, key=lambda t: (len(t.turns), t.instance))
    tools = list(dict.fromkeys(turn.call.tool for turn in best.turns if turn.call and turn.status == OK))
    each = {each: first for first, each in traces.pairs}
    lines = [f"{name} for every item of {each[name]}" if each.get(name) in tools else f"use {name}" for name in tools]
    why = f"{len(traces.failures)} failures; the steps of a success of its own"
    return [_edit(harness, "recipe", "system.recipe", why, len(traces.failures) * 0.45, system={"recipe": lines[:12]})]


def _notes(harness: Harness, traces: Traces) -> list[Edit]:
    n = traces.count(skipped_read(traces.pairs))
    edits = [
        _with_hook(harness, f"{n} failures leave items unread", n * 0.4, hook="unread_list", first=f, each=e)
        for f, e in traces.pairs[:1]
        if n
    ]
    edits += [
        _with_hook(harness, "facts scattered over turns", n * 0.3, hook="ledger", each=e)
        for _, e in traces.pairs[:1]
        if n
    ]
    return [
        *edits,
        _with_hook(harness, "the task may be forgotten", len(traces.failures) * 0.1, hook="reminder", every=3),
    ]


def _docs(harness: Harness, traces: Traces) -> list[Edit]:
    """A tool that was called wrongly gets an example call of the student's own in its text."""
    n = traces.count(tool_error)
    wrong = Counter(turn.call.tool for t in traces.failures for turn in t.turns if turn.status == ERROR and turn.call)
    edits = []
    for name, _ in wrong.most_common(1):
        good = next(
            (
                turn.call
                for t in traces.successes
                for turn in t.turns
                if turn.call and turn.call.tool == name and turn.status == OK
            ),
            None,
        )
        if good and name not in harness.tools.docs:
            docs = {**harness.tools.docs, name: f"for example {render_call(good)}"[:400]}
            edits.append(
                _edit(
                    harness,
                    "tool wording",
                    f"tools.docs:{name}",
                    f"{n} failures call {name} wrongly",
                    n * 0.5,
                    tools={"docs": docs},
                )
            )
    return edits


def _removals(harness: Harness, traces: Traces) -> list[Edit]:
    edits = []
    for hook in harness.hooks.use:
        n = traces.count(refused_by(f"hooks:{hook.hook}"))
        others = [h for h in harness.model_dump()["hooks"]["use"] if h["hook"] != hook.hook]
        edits.append(
            _edit(harness, "removal", f"hooks:{hook.hook}", f"acts in {n} failures", n * 0.4, hooks={"use": others})
        )
    if harness.demos.item:
        items = harness.model_dump()["demos"]["item"][:-1]
        edits.append(
            _edit(
                harness,
                "removal",
                f"demos:{len(items)}",
                "a shorter prompt may do",
                len(traces.failures) * 0.2,
                demos={"item": items},
            )
        )
    return edits
