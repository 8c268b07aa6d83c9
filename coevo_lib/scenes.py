"""Invented domains for the generic tool-use rows: tools, words, and a solved script of calls and answers.

Compositions that only read: list and read each, narrow and read parts, compare, look up a chain, subtract. Those
in which a condition decides are in `choices`, those that handle text in `errands`. How a script becomes a chat row
is in `preparation`; the words stand in preparation.toml.
"""

import random
import tomllib
from collections.abc import Callable
from pathlib import Path

from coevo_lib.arithmetic import evaluate
from coevo_lib.calls import Call

WORDS = tomllib.loads((Path(__file__).parent / "preparation.toml").read_text())
SHARE = {
    "composite": 0.4,
    "hidden": 0.6,
    "notes": 0.12,
    "mistake": 0.3,
    "wrong sum": 0.3,
    "recipe": 0.2,
    "example": 0.15,
    "json": 0.05,
    "spare": 0.4,
    "at once": 0.85,
}


class Scene:
    """One invented domain with its tools and words. `PLANS`: composition -> weight."""

    PLANS = {"total": 14, "parts": 12, "extreme": 3, "chain": 3, "difference": 3}

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.form = "json" if self.chance("json") else "python"
        noun, group = self.pick("nouns"), self.pick("groups")
        self.words = {"noun": noun, "nouns": noun + "s", "group": group}
        names = {
            key: self.say(f"{key}_tools")
            for key in ("list", "read", "compute", "finish", "act", "write", "choose", "index", "sheet", "holds")
        }
        self.names = names
        self.words |= {"list": names["list"], "read": names["read"]}
        self.fields = rng.sample(WORDS["fields"], rng.choice([1, 1, 2, 3]))
        self.field = rng.choice(self.fields)
        self.tools: dict[str, str] = {}
        self.script: list[tuple[Call, str]] = []
        self.both = self.say("composite_names") if self.chance("composite") else None
        self.hidden = self.chance("hidden")
        self.at_once = self.chance("at once")
        self.said = self.pick("truths").split()  # what the tool that compares says: true, false
        self.composition = rng.choices(list(self.PLANS), list(self.PLANS.values()))[0]

    def plan(self) -> str:
        """Draws a composition, writes its script and tools, and returns what is asked."""
        return getattr(self, self.composition)()

    def pick(self, key: str) -> str:
        return self.rng.choice(WORDS[key])

    def say(self, key: str, **words) -> str:
        return self.pick(key).format(**self.words, **words)

    def chance(self, key: str) -> bool:
        return self.rng.random() < SHARE[key]

    def item(self) -> str:
        rng = self.rng
        style = rng.random()
        if style < 0.45:
            return self.pick("names")
        if style < 0.7:
            return f"{rng.choice('ABCDEFGHKLMNPRTVX')}{rng.randint(1, 99)}"
        return "".join(rng.choice(WORDS["letters"]) for _ in range(rng.choice([2, 2, 3]))).capitalize()

    def items(self, low: int = 2, high: int = 7) -> list[str]:
        n, found = self.rng.randint(low, high), {}
        while len(found) < n:
            found[self.item()] = None
        return list(found)

    def number(self) -> int | float:
        return self.rng.randint(2, 60) + (0.5 if self.rng.random() < 0.12 else 0)

    def record(self) -> dict:
        return {field: self.number() for field in self.fields}

    # ---- the compositions

    def read_each(self, first: Call, items: list, shown: dict, then: Callable = lambda item: None) -> None:
        """Adds the reading steps: one composite call, or the list and then each item.

        `then` adds what is done about an item: at once after it is read, or for all of them at the end.
        """
        noun, group, read = self.words["noun"], self.words["group"], self.names["read"]
        listing = f"({group})" if first.args else "()"
        if self.both:
            self.tools[self.both] = f"{listing}: {self.say('docs_both')}"
            self.script.append((Call(self.both, first.args), "\n".join(f"{i}: {shown[i]}" for i in items)))
        if not (self.both and self.hidden):
            self.tools[first.tool] = f"{listing}: {self.say('docs_list')}"
            self.tools[read] = f"({noun}): {self.say('docs_read')}"
        if not self.both:
            self.script.append((first, ", ".join(map(str, items))))
        for item in items:
            if not self.both:
                self.script.append((Call(read, (item,)), shown[item]))
            if self.both or self.at_once:
                then(item)
        if not (self.both or self.at_once):
            for item in items:
                then(item)

    def compute(self, terms: list[str], mean: bool = False) -> None:
        """Ends with a computed value."""
        expression = "+".join(terms)
        self.finish(self.work_out(f"({expression})/{len(terms)}" if mean else expression))

    def work_out(self, expression: str) -> int | float:
        """Adds one use of the calculator and returns its value."""
        value = evaluate(expression)
        self.tools[self.names["compute"]] = f"(expression): {self.say('docs_compute')}"
        self.script.append((Call(self.names["compute"], (expression,)), f"{value:g}"))
        return value

    def finish(self, value) -> None:
        self.tools[self.names["finish"]] = f"(result): {self.say('docs_finish')}"
        self.script.append((Call(self.names["finish"], (value,)), "ok"))

    def finish_sum(self, numbers: list) -> None:
        """Ends with the sum of some numbers, by the calculator if there are any."""
        if numbers:
            self.compute([str(number) for number in numbers])
        else:
            self.finish(numbers[0] if numbers else 0)

    def total(self) -> str:
        group, items = self.pick("names"), self.items()
        records = {i: self.record() for i in items}
        first = Call(self.names["list"], (group,))
        self.read_each(first, items, {i: show_record(r) for i, r in records.items()})
        others = [f for f in self.fields if f != self.field]
        if others and self.rng.random() < 0.35:
            other = self.rng.choice(others)
            self.compute([f"{r[self.field]}*{r[other]}" for r in records.values()])
            return self.rng.choice(
                ["Total {a} times {b} for {g}?", "Sum up {a} times {b} over the {n} in {g}."]
            ).format(a=self.field, b=other, g=group, n=self.words["nouns"])
        mean = self.rng.random() < 0.15
        self.compute([str(r[self.field]) for r in records.values()], mean)
        texts = (
            ["Average {a} of the {n} in {g}?"]
            if mean
            else [
                "What is the total {a} of {g}?",
                "Sum the {a} of all {n} in {g}.",
                "{g}: {a} of every {n1} together?",
                "I need the combined {a} for {g}.",
                "How much {a} is there in {k} {g}?",
            ]
        )
        return self.rng.choice(texts).format(
            a=self.field, g=group, n=self.words["nouns"], n1=self.words["noun"], k=self.words["group"]
        )

    def parts(self) -> str:
        kind, n = self.pick("kinds"), self.rng.randint(1, 4)
        self.names["read"], self.words["noun"] = self.names["sheet"], "number"
        pages = [[(self.item(), self.number()) for _ in range(self.rng.randint(1, 4))] for _ in range(n)]
        style = self.rng.choice(["{i} {f} {v}", "{i} {v}", "{i}: {v}"])
        shown = {
            i + 1: ", ".join(style.format(i=k, f=self.field, v=v) for k, v in page) for i, page in enumerate(pages)
        }
        choose, count = self.names["choose"], sum(map(len, pages))
        self.tools[choose] = (
            f"(kind): {self.rng.choice(['keep one kind only', 'set which kind is shown', 'narrow to a kind'])}"
        )
        self.script.append(
            (Call(choose, (kind,)), self.rng.choice([f"{kind} set", f"{count} {kind}", f"showing {kind} ({count})"]))
        )
        self.read_each(Call(self.names["index"]), list(shown), shown)
        mean = self.rng.random() < 0.2
        self.compute([str(v) for page in pages for _, v in page], mean)
        text = (
            "Average {f} of the {k} {n}?"
            if mean
            else self.rng.choice(
                ["Total {f} of the {k} {n}?", "Sum of {f} over {k} {n}.", "How much {f} do the {k} {n} have together?"]
            )
        )
        return text.format(f=self.field, k=kind, n=self.words["nouns"])

    def extreme(self) -> str:
        group, items = self.pick("names"), self.items(2, 5)
        values = self.rng.sample(range(2, 90), len(items))
        records = {i: {**self.record(), self.field: v} for i, v in zip(items, values)}
        self.read_each(Call(self.names["list"], (group,)), items, {i: show_record(r) for i, r in records.items()})
        best = self.rng.choice([max, min])
        self.finish(best(items, key=lambda i: records[i][self.field]))
        return f"Which {self.words['noun']} in {group} has the {'highest' if best is max else 'lowest'} {self.field}?"

    def chain(self) -> str:
        item, target = self.items(2, 2)
        owner, record = self.names["list"], self.record()
        self.tools[owner] = f"({self.words['noun']}): partner of a {self.words['noun']}"
        self.tools[self.names["read"]] = f"({self.words['noun']}): {self.say('docs_read')}"
        self.script += [(Call(owner, (item,)), target), (Call(self.names["read"], (target,)), show_record(record))]
        self.finish(record[self.field])
        return f"What is the {self.field} of the partner of {item}?"

    def difference(self) -> str:
        a, b = self.items(2, 2)
        records = {i: self.record() for i in (a, b)}
        self.tools[self.names["read"]] = f"({self.words['noun']}): {self.say('docs_read')}"
        self.script += [(Call(self.names["read"], (i,)), show_record(records[i])) for i in (a, b)]
        times = self.rng.random() < 0.5
        x, y = records[a][self.field], records[b][self.field]
        self.compute([f"{x}*{y}"] if times else [f"{x}-{y}"])
        return f"{self.field} of {a} {'times' if times else 'minus'} {self.field} of {b}?"


def show_record(record: dict) -> str:
    return ", ".join(f"{field} {value}" for field, value in record.items())
