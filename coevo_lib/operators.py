"""Edit operators: from failure signatures to typed harness edits, each with its evidence as weight.

Operators name no task and no tool; demonstrations and recipes are the student's own successes on `evolve`
(rule 5). Every edit is a valid harness under rule 1. Those that add hooks are in `guard_operators`.
"""

from collections import Counter

from coevo_lib.calls import render_call
from coevo_lib.edits import RETRY, Edit, edited, with_hooks
from coevo_lib.guard_operators import GUARDS
from coevo_lib.harness import Harness
from coevo_lib.traces import (
    Traces,
    field_use,
    least_used,
    left_unread,
    malformed,
    refused_by,
    repeats,
    skipped_read,
    tool_error,
    untidy,
)
from coevo_lib.trajectory import ERROR, OK


def edits_for(harness: Harness, traces: Traces) -> list[Edit]:
    """All edits that the traces speak for, each with its evidence as weight."""
    if not traces.failures:
        return []
    return [edit for operator in OPERATORS for edit in operator(harness, traces)]


def composites(harness: Harness, traces: Traces) -> list[Edit]:
    """Listing and reading in one call, with the two tools hidden or still shown."""
    edits = []
    have = {(c.first, c.each) for c in harness.tools.composite}
    for first, each in traces.pairs:
        n = traces.count(left_unread(first, each)) * 0.7
        if (first, each) in have or len(harness.tools.composite) >= 6:
            continue
        name = f"{first}_and_{each}"[:60]
        parts = [
            *harness.model_dump()["tools"]["composite"],
            {"name": name, "first": first, "each": each, "doc": f"{first}, then {each} for every item"},
        ]
        why = f"{first} lists what {each} takes; {len(traces.failures)} failures take it one by one"
        hidden = sorted({*harness.tools.hide, first, each})
        hooks = {"use": [*harness.model_dump()["hooks"]["use"], *_preconditions(traces, first, name)]}
        for weight, tools in ((n + 0.5, {"composite": parts, "hide": hidden}), (n * 0.7, {"composite": parts})):
            element = f"tools.composite:{name}"
            edits.append(edited(harness, "composite tool", element, why, weight, tools=tools, hooks=hooks))
    return edits


def _preconditions(traces: Traces, first: str, composite: str) -> list[dict]:
    """What every success did before it listed, the composite has to wait for too."""
    earlier = traces.always[: traces.always.index(first)] if first in traces.always else []
    return [{"hook": "order_guard", "tools": [composite], "before": earlier[-1]}] if earlier else []


def fields(harness: Harness, traces: Traces) -> list[Edit]:
    """Shows only the fields of an answer that successes go on with; then as much of it has to be used as they use."""
    edits = []
    for _, each in traces.pairs[:2]:
        rates = field_use(traces.solved, each)
        kept = [word for word, rate in rates.items() if rate > 0.4 or word.lower() in traces.prompts]
        if not kept or len(kept) == len(rates) or each in harness.context.fields:
            continue
        context = {"fields": {**harness.context.fields, each: kept}}
        why = f"successes use, and prompts name, only {', '.join(kept)} of what {each} answers"
        n, element = len(traces.failures), f"context.fields:{each}"
        if least := least_used(traces.solved, traces.computers, each, kept):
            guard = {"hook": "coverage_guard", "tools": traces.computers[:3], "each": each, "share": least}
            grounding = {"hook": "grounding_guard", "tools": traces.computers[:3]}
            strict = with_hooks(harness, why, 0, guard, grounding, RETRY).harness
            edits.append(edited(strict, "context", element, why, n * 1.1, context=context))
        edits.append(edited(harness, "context", element, why, n * 0.7, context=context))
    return edits


def form(harness: Harness, traces: Traces) -> list[Edit]:
    """Unreadable calls, untidy arguments: mend their form, or ask for the other form."""
    n, m, edits = traces.count(malformed), traces.count(untidy), []
    if m:
        why = f"{m} failures hold a call that a tool refuses, with blanks or the argument's name in an argument"
        edits.append(with_hooks(harness, why, m * 1.2, {"hook": "argument_trim"}))
    if n:
        why, other = f"{n} failures write unreadable calls", "json" if harness.format.call == "python" else "python"
        edits.append(with_hooks(harness, why, n, {"hook": "argument_repair"}))
        edits.append(edited(harness, "call format", "format.call", why, n * 0.2, format={"call": other}))
    return edits


def planner(harness: Harness, traces: Traces) -> list[Edit]:
    """Repeated calls, skipped steps: what comes next is asked for by itself, with few observations in sight."""
    n = traces.count(repeats) + traces.count(skipped_read(traces.due)) / 2
    if not n or harness.context.planner:
        return []
    why = f"failures lose their way ({n:g} repeat a call or skip a read, the latter counted half)"
    return [edited(harness, "planner-executor split", "context.planner", why, n * 0.4, context={"planner": 1})]


def demonstrations(harness: Harness, traces: Traces) -> list[Edit]:
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
        "calls": [t.text.strip().splitlines()[-1] for t in best.turns],
        "observations": [t.observation for t in best.turns],
    }
    items, n = [*harness.model_dump()["demos"]["item"], demo], len(traces.failures)
    why = f"{n} failures; a success of its own can show the way"
    return [edited(harness, "demonstration", f"demos:{len(items) - 1}", why, n * 0.35, demos={"item": items})]


def recipe(harness: Harness, traces: Traces) -> list[Edit]:
    """The steps of the student's own successes, in words."""
    if not traces.successes or harness.system.recipe:
        return []
    best = min(traces.successes, key=lambda t: (len(t.turns), t.instance))
    tools = list(dict.fromkeys(turn.call.tool for turn in best.turns if turn.call and turn.status == OK))
    each = {each: first for first, each in traces.pairs}
    lines = [f"{name} for every item of {each[name]}" if each.get(name) in tools else f"use {name}" for name in tools]
    n = len(traces.failures)
    why = f"{n} failures; the steps of a success of its own"
    return [edited(harness, "recipe", "system.recipe", why, n * 0.4, system={"recipe": lines[:12]})]


def wording(harness: Harness, traces: Traces) -> list[Edit]:
    """A tool that was called wrongly gets an example call of the student's own in its text."""
    n = traces.count(tool_error)
    wrong = Counter(turn.call.tool for t in traces.failures for turn in t.turns if turn.status == ERROR and turn.call)
    calls = [turn.call for t in traces.successes for turn in t.turns if turn.call and turn.status == OK]
    edits = []
    for name, _ in wrong.most_common(1):
        good = next((call for call in calls if call.tool == name), None)
        if good and name not in harness.tools.docs:
            docs = {**harness.tools.docs, name: f"for example {render_call(good, harness.format.call)}"[:400]}
            why = f"{n} failures call {name} wrongly"
            edits.append(edited(harness, "tool wording", f"tools.docs:{name}", why, n * 0.95, tools={"docs": docs}))
    return edits


def removals(harness: Harness, traces: Traces) -> list[Edit]:
    """Takes a hook or the last demonstration out again."""
    edits = []
    for hook in harness.hooks.use:
        n = traces.count(refused_by(f"hooks:{hook.hook}"))
        others = [h for h in harness.model_dump()["hooks"]["use"] if h != hook.model_dump()]
        element, why = f"hooks:{hook.hook}", f"acts in {n} failures"
        edits.append(edited(harness, "removal", element, why, n * 0.4, hooks={"use": others}))
    if harness.demos.item:
        items, n = harness.model_dump()["demos"]["item"][:-1], len(traces.failures)
        why = "a shorter prompt may do"
        edits.append(edited(harness, "removal", f"demos:{len(items)}", why, n * 0.2, demos={"item": items}))
    return edits


OPERATORS = (composites, *GUARDS, fields, form, planner, demonstrations, recipe, wording, removals)
