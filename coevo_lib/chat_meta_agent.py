"""A chat model as meta-agent: it reads failed trajectories of `evolve` and answers with one edit of the harness.

What it is shown is put together in `question`, and nowhere else: the harness, its tools, failed trajectories with
their feedback, the schema, and what became of its earlier edits. Nothing of `select` or `test` is among it. Its answer
is data (rule 10): sections of a harness as TOML, validated like any other harness.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from coevo_lib.edits import Edit
from coevo_lib.engines.base import Engine, Request
from coevo_lib.errors import UserError
from coevo_lib.harness import SECTIONS, Harness, from_sections, to_sections
from coevo_lib.trajectory import Trajectory

SHOWN_FAILURES = 4
MOST_TOKENS = 1500
FORM = 'Answer with JSON alone: {"why": "one sentence", "sections": {"<section>": "<the whole section as TOML>"}}'
RULES = (
    "You improve the harness around a small model that works with tools. Its weights stay as they are. "
    "A harness only restates, lists, refuses with a reason or trims; it must not fill in a call for the model. "
    f"Change one thing. {FORM}"
)


class FailedProposal(Exception):
    """The model's answer was no valid edit, also when asked again; the message says what was wrong."""


@dataclass
class ChatMetaAgent:
    """Takes the place of `MetaAgent` in a search.

    tools: the tools as the student reads them under h0. check: raises UserError for a harness that does not fit the task.
    """

    engine: Engine
    tools: str
    check: Callable[[Harness], None]
    history: list[str] = field(default_factory=list)
    tokens: int = 0  # that the model has generated so far

    def propose(self, harness: Harness, trajectories: list[Trajectory]) -> Edit | None:
        """One edit; raises FailedProposal where two answers in a row are not valid."""
        messages = self.question(harness, trajectories)
        text = self._ask(messages)
        edit, fault = self._read(text, harness)
        if fault:
            again = f"This is not valid: {fault}. {FORM}"
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": again}]
            edit, fault = self._read(self._ask(messages), harness)
        if fault:
            raise FailedProposal(fault)
        return edit

    def learn(self, edit: Edit, before: int, after: int, n: int, accepted: bool) -> None:
        """What became of an edit, on `evolve`."""
        self.history.append(
            f"{edit.element}: {before} -> {after} of {n}, {'kept' if accepted else 'dropped'} ({edit.why})"
        )

    def question(self, harness: Harness, trajectories: list[Trajectory]) -> list[dict]:
        """All that the model is shown."""
        failed = [t for t in trajectories if not t.success and t.status != "fault"]
        parts = [
            f"The harness, in TOML:\n{harness.to_toml()}",
            f"The tools:\n{self.tools}",
            f"{len(trajectories) - len(failed)} of {len(trajectories)} episodes succeeded. Some that failed:",
            *(_shown(t) for t in failed[:SHOWN_FAILURES]),
            f"The schema of a harness:\n{json.dumps(_schema(), separators=(',', ':'))}",
            "Tried before:\n" + ("\n".join(self.history) or "nothing"),
        ]
        return [{"role": "system", "content": RULES}, {"role": "user", "content": "\n\n".join(parts)}]

    def _ask(self, messages: list[dict]) -> str:
        reply = self.engine.submit(Request(tuple(messages), max_tokens=MOST_TOKENS)).result()
        self.tokens += reply.output_tokens
        return reply.text

    def _read(self, text: str, harness: Harness) -> tuple[Edit | None, str]:
        """(edit, "") of an answer, or (None, what is wrong with it)."""
        found = re.search(r"\{.*\}", text, re.DOTALL)
        try:
            answer = json.loads(found[0]) if found else None
        except (ValueError, RecursionError) as error:
            return None, f"no JSON ({str(error)[:100]})"
        sections = answer.get("sections") if isinstance(answer, dict) else None
        if not isinstance(sections, dict) or not sections or not all(isinstance(t, str) for t in sections.values()):
            return None, "no field `sections` that holds sections as TOML texts"
        if strange := [name for name in sections if name not in SECTIONS]:
            return None, f"sections: {strange[0]!r} is not one of {', '.join(SECTIONS)}"
        try:
            new = from_sections({**to_sections(harness), **sections})
            self.check(new)
        except UserError as error:
            return None, str(error)
        if new.id == harness.id:
            return None, "the harness would stay as it is"
        named = [name for name in new.elements() if name not in harness.elements()]
        element = named[0] if named else ", ".join(sections)
        return Edit("chat model", element, str(answer.get("why", ""))[:400], 1.0, new), ""


def _shown(t: Trajectory) -> str:
    lines = [f"  {turn.text.strip()[:300]}\n    -> {turn.observation[:300]}" for turn in t.turns]
    return f"Task: {t.prompt}\n" + "\n".join(lines) + f"\nVerdict: {t.feedback}"


def _schema() -> dict:
    """The harness's JSON schema without titles, which say nothing new."""

    def trimmed(part):
        if isinstance(part, dict):
            return {key: trimmed(value) for key, value in part.items() if key != "title"}
        return [trimmed(item) for item in part] if isinstance(part, list) else part

    return trimmed(Harness.model_json_schema())
