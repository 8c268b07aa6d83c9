"""The offline meta-agent: reads trajectories, finds failure signatures, proposes typed harness edits.

It knows no task: what the tools are to each other (this list feeds that argument, this tool computes,
that one finishes) is learned from traces of the `evolve` split, and demonstrations are the student's own
successes there (rule 5). Every proposal is a valid harness under rule 1. Whether an edit is kept is decided
in `search`.
"""

from collections import Counter
from dataclasses import dataclass, field

from coevo_lib.arithmetic import numbers_in
from coevo_lib.calls import render_call
from coevo_lib.harness import Harness
from coevo_lib.trajectory import ERROR, MALFORMED, OK, Trajectory


@dataclass(frozen=True)
class Edit:
    """One proposed change: the new harness, what kind of edit of which element, why, and how urgent."""

    kind: str
    element: str
    why: str
    weight: float
    harness: Harness


@dataclass
class MetaAgent:
    """Proposes one edit at a time and never the same harness twice. `seen` is its memory of traces."""

    seen: list[Trajectory] = field(default_factory=list)
    tried: set[str] = field(default_factory=set)

    def observe(self, trajectories: list[Trajectory]) -> None:
        self.seen += trajectories

    def propose(self, harness: Harness, trajectories: list[Trajectory]) -> Edit | None:
        """The most urgent edit not yet tried, judged by these trajectories under `harness`; None if none is left."""
        self.observe(trajectories)
        edits = sorted(edits_for(harness, Traces(self.seen, trajectories)), key=lambda edit: -edit.weight)
        for edit in edits:
            if edit.harness.id not in self.tried and edit.harness.id != harness.id:
                self.tried.add(edit.harness.id)
                return edit
        return None


class Traces:
    """What can be learned from trajectories: `known` teaches relations, `recent` shows the failures."""

    def __init__(self, known: list[Trajectory], recent: list[Trajectory]):
        self.failures = [t for t in recent if not t.success and t.status != "fault"]
        self.successes = [t for t in recent if t.success]
        self.pairs = _pairs(known)
        self.finishers = _tools(t.turns[-1].call for t in known if t.status == "finished")
        self.computers = [name for name in _computers(known) if name not in self.finishers]
        self.always = _always([t for t in known if t.success])

    def count(self, signature) -> int:
        return sum(bool(signature(t)) for t in self.failures)


def _tools(calls) -> list[str]:
    return [name for name, _ in Counter(call.tool for call in calls if call).most_common()]


def _pairs(known: list[Trajectory]) -> list[tuple[str, str]]:
    """(first, each): items that `first` listed were arguments of `each`, seen at least three times."""
    count: Counter = Counter()
    for trajectory in known:
        listed: dict[str, str] = {}
        for fact in trajectory.facts:
            if len(fact.call.args) == 1 and str(fact.call.args[0]) in listed:
                count[listed[str(fact.call.args[0])], fact.call.tool] += 1
            if isinstance(fact.value, list):
                listed |= {str(item): fact.call.tool for item in fact.value}
    return [pair for pair, n in count.most_common() if n >= 3 and pair[0] != pair[1]]


def _computers(known: list[Trajectory]) -> list[str]:
    """Tools that take a text holding several numbers."""
    calls = [turn.call for t in known for turn in t.turns if turn.call and turn.status == OK]
    return _tools(c for c in calls if any(isinstance(a, str) and len(numbers_in(a)) >= 2 for a in c.args))


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


def repeats(t: Trajectory) -> bool:
    calls = [turn.call for turn in t.turns if turn.call]
    return len(set(calls)) < len(calls)


def malformed(t: Trajectory) -> bool:
    return any(turn.status == MALFORMED for turn in t.turns)


def tool_error(t: Trajectory) -> bool:
    return any(turn.status == ERROR for turn in t.turns)


def ungrounded(tools: list[str]):
    def signature(t: Trajectory) -> bool:
        seen = set(numbers_in(t.prompt))
        for turn in t.turns:
            if turn.call and turn.call.tool in tools and any(set(numbers_in(str(a))) - seen for a in turn.call.args):
                return True
            seen |= set(numbers_in(turn.observation))
        return False

    return signature


def lacks(tool: str):
    return lambda t: all(fact.call.tool != tool for fact in t.facts)


def refused_by(element: str):
    return lambda t: any(event.element == element for turn in t.turns for event in turn.events)


# ---- operators: signature -> edits


def edits_for(harness: Harness, traces: Traces) -> list[Edit]:
    """All edits that the traces speak for, each with its evidence as weight."""
    if not traces.failures:
        return []
    edits: list[Edit] = []
    for operator in (_composites, _guards, _order, _loops, _form, _demos, _recipe, _notes, _docs, _removals):
        edits += operator(harness, traces)
    return edits


def _edit(harness: Harness, kind: str, element: str, why: str, weight: float, **sections: dict) -> Edit:
    plain = harness.model_dump()
    for section, change in sections.items():
        plain[section] |= change
    return Edit(kind, element, why, weight, Harness.model_validate(plain))


def _with_hook(harness: Harness, why: str, weight: float, **hook) -> Edit:
    """Adds a hook, in place of one of the same name."""
    others = [h for h in harness.model_dump()["hooks"]["use"] if h["hook"] != hook["hook"]]
    return _edit(harness, "hook", f"hooks:{hook['hook']}", why, weight, hooks={"use": [*others, hook]})


def _composites(harness: Harness, traces: Traces) -> list[Edit]:
    edits = []
    have = {(c.first, c.each) for c in harness.tools.composite}
    n = traces.count(skipped_read(traces.pairs)) + traces.count(repeats) / 2
    for first, each in traces.pairs:
        if (first, each) in have:
            continue
        name = f"{first}_and_{each}"
        parts = [*harness.model_dump()["tools"]["composite"], {"name": name, "first": first, "each": each, "doc": f"{first}, then {each} for every item"}]
        why = f"{n:g} failures skip or repeat reading; {first} lists what {each} takes"
        hidden = sorted({*harness.tools.hide, first, each})
        edits.append(_edit(harness, "composite tool", f"tools.composite:{name}", why, n + 0.5, tools={"composite": parts, "hide": hidden}))
        edits.append(_edit(harness, "composite tool", f"tools.composite:{name}", why, n * 0.7, tools={"composite": parts}))
    return edits


def _guards(harness: Harness, traces: Traces) -> list[Edit]:
    edits = []
    have = {(c.first, c.each) for c in harness.tools.composite}
    n = traces.count(skipped_read(traces.pairs))
    for first, each in traces.pairs:
        if traces.finishers and (first, each) not in have:
            for tools in (traces.finishers[:2], [*traces.finishers[:2], *traces.computers[:2]]):
                why = f"{n} failures finish with items of {first} unread"
                edits.append(_with_hook(harness, why, n * 0.9, hook="finish_guard", tools=tools, first=first, each=each))
    for tools in (traces.computers[:3], traces.finishers[:2]):
        m = traces.count(ungrounded(tools)) if tools else 0
        if m:
            edits.append(_with_hook(harness, f"{m} failures use numbers never shown in {', '.join(tools)}", m * 0.8, hook="grounding_guard", tools=tools))
    return edits


def _order(harness: Harness, traces: Traces) -> list[Edit]:
    edits = []
    for place, tool in enumerate(traces.always):
        later = [name for name in traces.always[place + 1 :] if name != tool][:6]
        n = traces.count(lacks(tool))
        if n and later and tool not in traces.finishers:
            later += [c.name for c in harness.tools.composite if c.first in later][: 6 - len(later)]
            edits.append(_with_hook(harness, f"every success uses {tool}; {n} failures do not", n, hook="order_guard", tools=later, before=tool))
    return edits


def _loops(harness: Harness, traces: Traces) -> list[Edit]:
    n = traces.count(repeats)
    return [_with_hook(harness, f"{n} failures repeat a call", n * w, hook="loop_breaker", temperature=t) for t, w in ((0.0, 0.6), (0.8, 0.55))] if n else []


def _form(harness: Harness, traces: Traces) -> list[Edit]:
    n = traces.count(malformed)
    if not n:
        return []
    other = "json" if harness.format.call == "python" else "python"
    return [
        _with_hook(harness, f"{n} failures write unreadable calls", n, hook="argument_repair"),
        _edit(harness, "call format", "format.call", f"{n} failures write unreadable calls", n * 0.2, format={"call": other}),
    ]


def _demos(harness: Harness, traces: Traces) -> list[Edit]:
    """The shortest clean success under this harness that is not shown yet."""
    shown = {demo.prompt for demo in harness.demos.item}
    clean = [t for t in traces.successes if all(turn.status == OK for turn in t.turns) and t.prompt not in shown]
    if not clean or len(shown) >= 2:
        return []
    best = min(clean, key=lambda t: (len(t.turns), t.instance))
    demo = {"prompt": best.prompt, "calls": [t.text.strip() for t in best.turns], "observations": [t.observation for t in best.turns]}
    items = [*harness.model_dump()["demos"]["item"], demo]
    why = f"{len(traces.failures)} failures; a success of its own can show the way"
    return [_edit(harness, "demonstration", f"demos:{len(items) - 1}", why, len(traces.failures) * 0.5, demos={"item": items})]


def _recipe(harness: Harness, traces: Traces) -> list[Edit]:
    """The steps of the student's own successes, in words."""
    if not traces.successes or harness.system.recipe:
        return []
    best = min(traces.successes, key=lambda t: (len(t.turns), t.instance))
    tools = list(dict.fromkeys(turn.call.tool for turn in best.turns if turn.call and turn.status == OK))
    each = {each: first for first, each in traces.pairs}
    lines = [f"{name} for every item of {each[name]}" if each.get(name) in tools else f"use {name}" for name in tools]
    why = f"{len(traces.failures)} failures; the steps of a success of its own"
    return [_edit(harness, "recipe", "system.recipe", why, len(traces.failures) * 0.45, system={"recipe": lines})]


def _notes(harness: Harness, traces: Traces) -> list[Edit]:
    n = traces.count(skipped_read(traces.pairs))
    edits = [_with_hook(harness, f"{n} failures leave items unread", n * 0.4, hook="unread_list", first=f, each=e) for f, e in traces.pairs[:1] if n]
    edits += [_with_hook(harness, "facts scattered over turns", n * 0.3, hook="ledger", each=e) for _, e in traces.pairs[:1] if n]
    return [*edits, _with_hook(harness, "the task may be forgotten", len(traces.failures) * 0.1, hook="reminder", every=3)]


def _docs(harness: Harness, traces: Traces) -> list[Edit]:
    """A tool that was called wrongly gets an example call of the student's own in its text."""
    n = traces.count(tool_error)
    wrong = Counter(turn.call.tool for t in traces.failures for turn in t.turns if turn.status == ERROR and turn.call)
    edits = []
    for name, _ in wrong.most_common(1):
        good = next((turn.call for t in traces.successes for turn in t.turns if turn.call and turn.call.tool == name and turn.status == OK), None)
        if good and name not in harness.tools.docs:
            docs = {**harness.tools.docs, name: f"for example {render_call(good)}"[:400]}
            edits.append(_edit(harness, "tool wording", f"tools.docs:{name}", f"{n} failures call {name} wrongly", n * 0.5, tools={"docs": docs}))
    return edits


def _removals(harness: Harness, traces: Traces) -> list[Edit]:
    edits = []
    for hook in harness.hooks.use:
        n = traces.count(refused_by(f"hooks:{hook.hook}"))
        others = [h for h in harness.model_dump()["hooks"]["use"] if h["hook"] != hook.hook]
        edits.append(_edit(harness, "removal", f"hooks:{hook.hook}", f"acts in {n} failures", n * 0.4, hooks={"use": others}))
    if harness.demos.item:
        items = harness.model_dump()["demos"]["item"][:-1]
        edits.append(_edit(harness, "removal", f"demos:{len(items)}", "a shorter prompt may do", len(traces.failures) * 0.2, demos={"item": items}))
    return edits

