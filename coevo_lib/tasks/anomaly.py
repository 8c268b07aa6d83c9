"""anomaly: a watch over machines. In a time window, find the readings outside each machine's range and raise alarms.

An analogue of the paper's IoT task (paper.md: sensor readings against ranges), written anew.
Size: machines in the hall. Trap: until the window is set, the readings of the whole day are shown, and
every machine leaves its range at some hour outside the window.
"""

import random

from coevo_lib.calls import Call
from coevo_lib.expert import conclude, read_all
from coevo_lib.task import DecidingWorld, Style, Task, ToolError, Verdict, View, tool
from coevo_lib.trajectory import Fact

HALLS = ("Bakery", "Dairy", "Laundry", "Foundry", "Brewery", "Garage", "Bindery", "Cannery")
MACHINES = (
    "Oven Mixer Press Dryer Cutter Drill Peeler Boiler Heater Cooler Roller Sorter Slicer Packer Filler "
    "Loader Grinder Welder Freezer Shaker Blender Furnace Crusher Printer"
).split()
HOURS = range(24)


class Plant(DecidingWorld):
    def start(self) -> None:
        import pandas as pd  # slow to import, and most users of the package never start this world

        super().start()
        self.frame = pd.DataFrame(self.data["readings"], columns=["machine", "hour", "value"])
        self.hours = (HOURS[0], HOURS[-1])
        self.alarms: list[str] = []

    @tool
    def machines(self, hall: str) -> list[str]:
        """names of the machines in a hall"""
        if hall not in self.data["halls"]:
            raise ToolError(f"hall: no hall {hall!r}")
        return self.data["halls"][hall]

    @tool
    def window(self, starts: int, ends: int) -> str:
        """show readings only from one hour to another"""
        for name, hour in (("starts", starts), ("ends", ends)):
            if hour not in HOURS:
                raise ToolError(f"{name}: {hour} is no hour; hours go from {HOURS[0]} to {HOURS[-1]}")
        if ends < starts:
            raise ToolError(f"ends: {ends} is earlier than {starts}, where the window starts")
        self.hours = (starts, ends)
        return f"hours {starts} to {ends}"

    @tool
    def readings(self, machine: str) -> str:
        """range of a machine, then its readings"""
        low, high = self._range(machine)
        rows = self.frame[(self.frame.machine == machine) & self.frame.hour.between(*self.hours)]
        values = rows.sort_values("hour").value
        return ", ".join([f"low {low}", f"high {high}", *(f"got {value}" for value in values)])

    @tool
    def alarm(self, machine: str) -> str:
        """raise the alarm for a machine that got below low or above high"""
        self._range(machine)
        self.alarms.append(machine)
        return f"alarm for {machine}"

    def _range(self, machine: str) -> list[int]:
        if machine not in self.data["ranges"]:
            raise ToolError(f"machine: no machine {machine!r}")
        return self.data["ranges"][machine]

    def verdict(self) -> Verdict:
        number, raised, due = super().verdict(), set(self.alarms), set(self.data["alarms"])
        if self.answer is None:
            return number
        if raised - due:
            return Verdict(False, "An alarm was raised for a machine that stayed in its range during the window.")
        if due - raised:
            return Verdict(False, "A machine that left its range during the window has no alarm.")
        if len(self.alarms) > len(raised):
            return Verdict(False, "An alarm was raised twice for one machine.")
        return number


class Anomaly(Task):
    name = "anomaly"
    world = Plant
    size = 2

    def draw(self, rng: random.Random, size: int, template: str) -> tuple[dict, dict]:
        kind = self.templates[template]["kind"]
        hall, other = rng.sample(HALLS, 2)
        names = rng.sample(MACHINES, size + 2)
        halls = {hall: names[:size], other: names[size:]}
        start = rng.randint(5, 13)
        end = start + rng.randint(3, 6)
        due = [rng.choice((1, 1, 2)) for _ in range(rng.randint(1, max(1, size - 1)))]
        due[0] += sum(due) == 1  # one number alone would be no sum
        out = dict(zip(rng.sample(halls[hall], len(due)), due)) | {halls[other][0]: 1}
        ranges = {name: [rng.choice((20, 30, 40)), rng.choice((60, 70, 80))] for name in names}
        readings = [row for name in names for row in _day(rng, name, ranges[name], (start, end), out.get(name, 0))]
        counted = [(m, value) for m, hour, value in readings if m in halls[hall] and start <= hour <= end]
        outside = [(m, value) for m, value in counted if not _inside(value, *ranges[m])]
        answer = sum(value for _, value in (outside if kind == "outside" else counted))
        alarms = sorted({m for m, _ in outside})
        goal = {"hall": hall, "start": start, "end": end, "kind": kind}
        return goal, {"halls": halls, "ranges": ranges, "readings": readings, "alarms": alarms, "answer": answer}

    def expert(self, view: View, style: Style) -> tuple[Call, str] | None:
        step = self._step(view, style)
        return step if step and step[0].tool in view.tools else None  # the harness may hide a tool

    def _step(self, view: View, style: Style) -> tuple[Call, str] | None:
        hall, wanted = view.goal["hall"], Call("window", (view.goal["start"], view.goal["end"]))
        raised = [fact.call.args[0] for fact in view.facts if fact.call.tool == "alarm"]
        now = View(view.goal, _under(view.facts, wanted), view.tools, view.composites)
        names, texts = now.answers("machines").get((hall,)), now.answers("readings")
        records = {name: _parse(texts[(name,)]) for name in names or () if (name,) in texts}
        if not all({"low", "high", "got"} <= set(record) for record in records.values()):
            return None  # the harness hides what is needed
        outside = {name: [v for v in r["got"] if not _inside(v, *r["low"], *r["high"])] for name, r in records.items()}
        strange = [name for name in raised if names and name not in names or outside.get(name) == []]
        if strange or len(raised) > len(set(raised)):
            return None  # an alarm cannot be taken back
        reading = read_all(now, style, Call("machines", (hall,)), "readings")
        for name in records if not (style.direct and reading) else ():
            if step := _decide(now, style, name, records[name], outside[name], name in raised):
                return step
        windows = [fact.call for fact in view.facts if fact.call.tool == "window"]
        if reading and (not windows or windows[-1] != wanted):
            return wanted, "Only readings in the asked hours count, so the window comes first."
        if reading:
            return reading
        if view.goal["kind"] == "outside":
            terms = [value for values in outside.values() for value in values]
            return conclude(now, style, "+".join(map(str, terms)), "These are the readings out of range.")
        terms = [value for record in records.values() for value in record["got"]]
        return conclude(now, style, "+".join(map(str, terms)), "These are all readings in the window.")


def _decide(
    view: View, style: Style, name: str, record: dict, outside: list[int], raised: bool
) -> tuple[Call, str] | None:
    """The next call for a machine that was read: the alarm as soon as a comparison asks for it, or a comparison."""
    [low], [high] = record["low"], record["high"]
    asked, compares = view.answers("compare"), not style.direct and "compare" in view.tools
    texts = list(dict.fromkeys(f"{value}<{low} or {value}>{high}" for value in record["got"]))
    known = [text for text in texts if (text,) in asked]
    if outside and not raised and (not compares or any(asked[(text,)] == "yes" for text in known)):
        return Call("alarm", (name,)), f"{name} got {outside[0]}, which is out of its range."
    # One reading is enough for an alarm; one that somebody raised without comparing is taken as it is.
    settled = raised and (view.goal["kind"] == "all" or not known)
    if compares and not settled and len(known) < len(texts):
        text = next(text for text in texts if text not in known)
        return Call("compare", (text,)), f"{name} left its range if this holds."
    return None


def _day(rng: random.Random, name: str, bounds: list[int], window: tuple[int, int], out: int) -> list[list]:
    """One machine's readings as [machine, hour, value] in order of hours; `out` of those in the window leave its range."""
    start, end = window
    n, extra = max(out, rng.choice((1, 2, 2))), rng.randint(1, 2)
    values = [_value(rng, *bounds, outside=i < out) for i in range(n)]
    rng.shuffle(values)
    hours = sorted(rng.sample(range(start, end + 1), n))
    others = rng.sample([hour for hour in HOURS if not start <= hour <= end], extra)
    astray = [_value(rng, *bounds, outside=i == 0 or rng.random() < 0.5) for i in range(extra)]
    return [[name, hour, value] for hour, value in sorted(zip([*hours, *others], [*values, *astray]))]


def _value(rng: random.Random, low: int, high: int, outside: bool) -> int:
    if outside:
        return rng.choice([*range(11, low), *range(high + 1, 100)])
    return rng.choice((low, high)) if rng.random() < 0.2 else rng.randint(low, high)


def _inside(value: int, low: int, high: int) -> bool:
    return low <= value <= high


def _under(facts: list[Fact], window: Call) -> list[Fact]:
    """The facts without those readings that were taken under another window."""
    kept, current = [], None
    for fact in facts:
        current = fact.call if fact.call.tool == "window" else current
        if fact.call.tool != "readings" or current == window:
            kept.append(fact)
    return kept


def _parse(text: str) -> dict[str, list[int]]:
    record = {}
    for part in text.split(", "):
        word, number = part.split()
        record.setdefault(word, []).append(int(number))
    return record
