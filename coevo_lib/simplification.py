"""A harness taken apart: each of its elements left out, or each of them alone on top of the unevolved harness.

The search uses the first to take out of h* what it does not need, the second for the ablation table. Nothing is
played here.
"""

import copy
from dataclasses import dataclass
from typing import Any

from coevo_lib.errors import UserError
from coevo_lib.harness import Harness
from coevo_lib.task import Task
from coevo_lib.toolbox import check_harness

WORDS_FIRST = ("demos", "system", "tools.docs", "format", "context", "hooks", "tools")  # what makes the prompt long


@dataclass(frozen=True)
class Part:
    """One element of a harness: its name as in table 2, and where it stands."""

    name: str
    section: str
    field: str
    value: Any  # the item of a list, the (key, value) of a table, or the whole field

    @property
    def key(self) -> tuple[str, str]:
        """Tells two hooks of one kind apart, which share a name."""
        return self.name, repr(self.value)


def parts(harness: Harness) -> list[Part]:
    """The elements, those that lengthen the prompt first. A composite brings the hiding of its own tools along."""
    plain, found = harness.model_dump(), []
    own = {name for c in harness.tools.composite for name in (c.first, c.each)}
    found += [Part("system.text", "system", "text", plain["system"]["text"])]
    found += [Part("system.recipe", "system", "recipe", plain["system"]["recipe"])]
    found += [Part(f"tools.docs:{name}", "tools", "docs", (name, doc)) for name, doc in plain["tools"]["docs"].items()]
    found += [Part(f"tools.composite:{c['name']}", "tools", "composite", c) for c in plain["tools"]["composite"]]
    found += [Part(f"tools.hide:{name}", "tools", "hide", name) for name in plain["tools"]["hide"] if name not in own]
    found += [Part(f"demos:{place}", "demos", "item", item) for place, item in enumerate(plain["demos"]["item"])]
    found += [Part(f"hooks:{hook['hook']}", "hooks", "use", hook) for hook in reversed(plain["hooks"]["use"])]
    found += [Part(f"context.{name}", "context", name, plain["context"][name]) for name in ("keep", "planner")]
    found += [
        Part(f"context.fields:{name}", "context", "fields", (name, words))
        for name, words in plain["context"]["fields"].items()
    ]
    found += [Part("format.call", "format", "call", plain["format"]["call"])]
    names = set(harness.elements())
    order = {word: place for place, word in enumerate(WORDS_FIRST)}
    return sorted((part for part in found if part.name in names), key=lambda part: _place(part, order))


def without(harness: Harness, part: Part) -> Harness:
    """The harness less one element, and less what only makes sense with it."""
    plain, plain_h0 = harness.model_dump(), Harness().model_dump()
    held = plain[part.section][part.field]
    if isinstance(held, list) and part.value != held:
        held.remove(part.value)
    elif isinstance(held, dict):
        del held[part.value[0]]
    else:
        plain[part.section][part.field] = plain_h0[part.section][part.field]
    if part.field == "composite":
        _forget(plain, part.value)
    return Harness.model_validate(plain)


def alone(part: Part, harness: Harness) -> Harness:
    """The unevolved harness with this one element of `harness`."""
    plain = Harness().model_dump()
    held = plain[part.section][part.field]
    if isinstance(held, list) and part.field != "recipe":
        held.append(copy.deepcopy(part.value))
    elif isinstance(held, dict):
        held[part.value[0]] = part.value[1]
    else:
        plain[part.section][part.field] = part.value
    if part.field == "composite":
        plain["tools"]["hide"] = [n for n in harness.tools.hide if n in (part.value["first"], part.value["each"])]
    return Harness.model_validate(plain)


def reductions(harness: Harness, task: Task) -> list[tuple[Part, Harness]]:
    """(element, harness without it) for every element that can be taken out alone."""
    return _valid([(part, without(harness, part)) for part in parts(harness)], task)


def singles(harness: Harness, task: Task) -> list[tuple[Part, Harness]]:
    """(element, h0 with it) for every element that can stand alone: a hook on a composite cannot."""
    return _valid([(part, alone(part, harness)) for part in parts(harness)], task)


def _valid(found: list[tuple[Part, Harness]], task: Task) -> list[tuple[Part, Harness]]:
    kept = []
    for part, harness in found:
        try:
            check_harness(harness, task)
        except UserError:
            continue
        kept.append((part, harness))
    return kept


def _forget(plain: dict, composite: dict) -> None:
    """Shows a lost composite's tools again and takes its name out of the hooks."""
    needed = {name for c in plain["tools"]["composite"] for name in (c["first"], c["each"])}
    again = {composite["first"], composite["each"]} - needed
    plain["tools"]["hide"] = [name for name in plain["tools"]["hide"] if name not in again]
    plain["tools"]["docs"].pop(composite["name"], None)
    for hook in plain["hooks"]["use"]:
        if composite["name"] in hook.get("tools", []):
            hook["tools"].remove(composite["name"])
    plain["hooks"]["use"] = [hook for hook in plain["hooks"]["use"] if hook.get("tools", True)]


def _place(part: Part, order: dict[str, int]) -> int:
    return order.get(f"{part.section}.{part.field}", order[part.section])
