"""What happened in one played instance, as plain data that replays and reads well in JSON.

A trajectory holds what the student wrote, what the tools answered and what each harness element
did. It does not hold the world: that is rebuilt from the instance and the list of calls.
"""

from dataclasses import asdict, dataclass, field

from coevo_lib.calls import Call, Value

OK, ERROR, REFUSED, MALFORMED = "ok", "error", "refused", "malformed"


@dataclass(frozen=True)
class Event:
    """One harness element that acted in a turn: which one, what it did, in words."""

    element: str
    action: str
    text: str = ""


@dataclass(frozen=True)
class Fact:
    """One existing tool's answer. A composite tool's turn leaves one fact per step of its sequence."""

    call: Call
    value: Value


@dataclass
class Turn:
    """One turn: the model's text, the call read from it, the observation shown to it.

    `status` is ok, error (the tool refused), refused (a hook refused) or malformed (no call).
    """

    text: str
    call: Call | None
    observation: str
    status: str
    facts: list[Fact] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    prompt_tokens: int = 0
    output_tokens: int = 0


@dataclass
class Trajectory:
    """One instance played by one model under one harness.

    `status`: finished (a finishing tool was called), out_of_turns, stuck (stopped early because it
    repeated itself), or fault (infrastructure: never a score, rule 9; `error` says what).
    """

    instance: str
    task: str
    split: str
    harness: str
    model: str
    prompt: str
    turns: list[Turn] = field(default_factory=list)
    status: str = "out_of_turns"
    success: bool = False
    feedback: str = ""
    sample: int = 0
    error: str = ""
    author: str = "student"

    @property
    def facts(self) -> list[Fact]:
        return [fact for turn in self.turns for fact in turn.facts]

    @property
    def calls(self) -> list[Call | None]:
        return [turn.call for turn in self.turns]

    @property
    def tokens(self) -> int:
        """Generated tokens."""
        return sum(turn.output_tokens for turn in self.turns)

    def to_json(self) -> dict:
        row = asdict(self)
        for turn, plain in zip(self.turns, row["turns"]):
            plain["call"] = turn.call.to_json() if turn.call else None
            plain["facts"] = [[fact.call.to_json(), fact.value] for fact in turn.facts]
        return row

    @staticmethod
    def from_json(row: dict) -> "Trajectory":
        names = {f for f in Trajectory.__dataclass_fields__}
        row = {name: row[name] for name in row if name in names}
        return Trajectory(**{**row, "turns": [_turn(plain) for plain in row["turns"]]})


def _turn(row: dict) -> Turn:
    call = Call.from_json(row["call"]) if row["call"] else None
    facts = [Fact(Call.from_json(c), value) for c, value in row["facts"]]
    return Turn(**{**row, "call": call, "facts": facts, "events": [Event(**e) for e in row["events"]]})
