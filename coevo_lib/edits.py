"""One proposed change of a harness, and how it is written down as data.

What speaks for a change is in `operators` and `guard_operators`; whether it is kept is decided in `search`.
"""

from dataclasses import dataclass

from coevo_lib.harness import Harness

RETRY = {"hook": "retry", "tries": 4, "temperature": 0.7}


@dataclass(frozen=True)
class Edit:
    """One proposed change: the new harness, what kind of edit of which element, why, and how urgent."""

    kind: str
    element: str
    why: str
    weight: float
    harness: Harness


def edited(harness: Harness, kind: str, element: str, why: str, weight: float, **sections: dict) -> Edit:
    """The edit that replaces the given fields of the given sections."""
    plain = harness.model_dump()
    for section, change in sections.items():
        plain[section] |= change
    return Edit(kind, element, why, weight, Harness.model_validate(plain))


def with_hooks(harness: Harness, why: str, weight: float, *hooks: dict) -> Edit:
    """Adds hooks, each in place of one that does the same; the first one names the edit."""
    had = next((hook for hook in harness.model_dump()["hooks"]["use"] if hook["hook"] == "retry"), None)
    hooks = [had if had and hook == RETRY else hook for hook in hooks]
    new = [_role(hook) for hook in hooks]
    others = [hook for hook in harness.model_dump()["hooks"]["use"] if _role(hook) not in new]
    return edited(harness, "hook", f"hooks:{hooks[0]['hook']}", why, weight, hooks={"use": [*others, *hooks]})


def guarded(harness: Harness, why: str, weight: float, *hooks: dict) -> list[Edit]:
    """The same with the retry hook, since a refusal alone rarely brings a better reply; then the hooks alone."""
    return [with_hooks(harness, why, weight, *hooks, RETRY), with_hooks(harness, why, weight / 2, *hooks)]


def _role(hook: dict) -> tuple:
    """Two guards of a kind that speak of different tools or answers do different things."""
    return hook["hook"], *(hook.get(field) for field in ("before", "source", "asked", "answer", "first"))
