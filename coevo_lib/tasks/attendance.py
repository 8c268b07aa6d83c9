"""attendance: a payroll audit. Read the attendance record of everyone in a team, then report one total.

An analogue of the paper's attendance task (paper.md: hours and payroll from records), written anew.
Size: people in the team. Trap: every record shows planned hours first; only worked hours count.
"""

import random

from coevo_lib.arithmetic import evaluate
from coevo_lib.calls import Call
from coevo_lib.expert import conclude, read_all
from coevo_lib.task import AnswerWorld, Style, Task, ToolError, View, tool

TEAMS = ("Sales", "Kitchen", "Garden", "Library", "Night", "Office")
PEOPLE = ("Ivy Pat Sol Max Ana Leo Mia Tom Zoe Ben Eva Sam Kim Joe Amy Rob Liz Dan Fay Gus Ned Uma Vic Wes").split()


class Payroll(AnswerWorld):
    @tool
    def staff(self, team: str) -> list[str]:
        """names of the people in a team"""
        if team not in self.data["teams"]:
            raise ToolError(f"team: no team {team!r}")
        return self.data["teams"][team]

    @tool
    def hours(self, name: str) -> str:
        """attendance record of one person"""
        if name not in self.data["records"]:
            raise ToolError(f"name: nobody called {name!r}")
        return "planned {planned}, worked {worked}, rate {rate}".format_map(self.data["records"][name])


class Attendance(Task):
    name = "attendance"
    world = Payroll
    size = 7

    def draw(self, rng: random.Random, size: int, template: str) -> tuple[dict, dict]:
        kind = self.templates[template]["kind"]
        team, other = rng.sample(TEAMS, 2)
        people = rng.sample(PEOPLE, size + 3)
        records = {name: self._record(rng) for name in people}
        teams = {team: people[:size], other: people[size:]}
        total = sum(_due(records[name], kind) for name in teams[team])
        answer = evaluate(f"{total}/{size}") if kind == "average" else total
        return {"team": team, "kind": kind}, {"teams": teams, "records": records, "answer": answer}

    def _record(self, rng: random.Random) -> dict:
        worked = rng.randint(11, 39)
        planned = rng.choice([h for h in range(10, 41, 2) if h != worked])
        return {"planned": planned, "worked": worked, "rate": rng.randint(11, 24)}

    def expert(self, view: View, style: Style) -> tuple[Call, str] | None:
        team, kind = view.goal["team"], view.goal["kind"]
        reading = read_all(view, style, Call("staff", (team,)), "hours")
        if reading:
            return reading
        names = view.answers("staff")[(team,)]
        records = [_parse(view.answers("hours")[(name,)]) for name in names]
        needed = {"worked", "rate"} if kind == "pay" else {"worked"}
        if not all(needed <= set(record) for record in records):
            return None  # the harness hides what is needed
        terms = [f"{r['worked']}*{r['rate']}" if kind == "pay" else str(r["worked"]) for r in records]
        total = "+".join(terms)
        total = f"({total})/{len(terms)}" if kind == "average" else total
        return conclude(view, style, total, "Every record is read; only worked hours count.")


def _due(record: dict, kind: str) -> int:
    return record["worked"] * (record["rate"] if kind == "pay" else 1)


def _parse(text: str) -> dict:
    return {word: int(number) for word, number in (part.split() for part in text.split(", "))}
