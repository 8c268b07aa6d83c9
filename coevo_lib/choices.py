"""Invented domains in which a condition decides: which items count, are acted on, written for or judged.

Compositions: add up the matching ones, act on those under a limit, supply what is short, judge each against a
limit, find what lies outside a range. A tool compares; what it says decides the next call. In its head a small model
does not tell 9 from less than 9, however many rows show it. Values on and near the limit are frequent.
"""

from coevo_lib.arithmetic import evaluate, holds
from coevo_lib.calls import Call
from coevo_lib.scenes import WORDS, Scene, show_record


class Choice(Scene):
    """A scene in which only some of what was read is used."""

    PLANS = {**Scene.PLANS, "matching": 8, "act": 5, "supply": 14, "judge": 12, "outliers": 14}

    def matching(self) -> str:
        """The sum over those items that are over or under a limit in a second field, or that are of one kind."""
        group, items = self.pick("names"), self.items(2, 5)
        counted, other = self.rng.sample(WORDS["fields"], 2)
        values = {i: self.rng.randint(2, 99) for i in items}
        limit, sign = self.rng.randint(10, 90), self.rng.choice("<>")
        by_kind = self.rng.random() < 0.2
        chosen = []
        if by_kind:
            kinds = self.rng.sample(WORDS["shown"], 3)
            marks, label = {i: self.rng.choice(kinds) for i in items}, self.pick("labels")
            wanted = self.rng.choice(list(marks.values()))
            which = self.rng.choice([f"{wanted} {{n}}", f"{{n}} of {label} {wanted}"])
            chosen = [i for i in items if marks[i] == wanted]
        else:
            marks, label = {i: self.near(limit) for i in items}, other
            which = f"{{n}} with {other} {'over' if sign == '>' else 'under'} {limit}"
        shown = {}
        for i in items:
            parts = [f"{counted} {values[i]}", f"{label} {marks[i]}"]
            shown[i] = ", ".join(self.rng.sample(parts, 2))

        def then(item: str) -> None:
            if not by_kind and self.holds(f"{marks[item]}{sign}{limit}"):
                chosen.append(item)

        self.read_each(Call(self.names["list"], (group,)), items, shown, then)
        self.finish_sum([values[i] for i in chosen])
        which = which.format(n=self.words["nouns"])
        return self.rng.choice(
            [f"Total {counted} of the {which} in {group}?", f"In {group}, sum the {counted} of {which}."]
        )

    def act(self) -> str:
        """Act on every item under a limit, then give how many."""
        group, items, act = self.pick("names"), self.items(2, 5), self.names["act"]
        limit, low = self.rng.randint(15, 45), []
        records = {i: {**self.record(), self.field: self.near(limit)} for i in items}

        def then(item: str) -> None:
            if self.holds(f"{records[item][self.field]}<{limit}"):
                self.alert(item)
                low.append(item)

        self.read_each(Call(self.names["list"], (group,)), items, _shown(records), then)
        self._actor()
        self.finish(len(low))
        return (
            f"In {group}, {act.replace('_', ' ')} every {self.words['noun']} whose {self.field} is under {limit}, "
            "then give how many."
        )

    def supply(self) -> str:
        """For every item with one field under another: a third field, or the difference, is written; then the sum."""
        group, items = self.pick("names"), self.items(1, 4)
        have, need, amount = self.rng.sample(WORDS["fields"], 3)
        low, high = self.rng.choice([(2, 12), (2, 12), (20, 60)])
        needs = {i: self.rng.randint(low, high) for i in items}
        records = {i: {have: self.near(needs[i]), need: needs[i]} for i in items}
        extra = self.rng.random() < 0.65
        if extra:
            records = {i: {**record, amount: self.rng.randint(2, 60)} for i, record in records.items()}
        alert = self.rng.random() < 0.5
        written = []

        def then(item: str) -> None:
            record = records[item]
            if not self.holds(f"{record[have]}<{record[need]}"):
                return
            number = record[amount] if extra else self.work_out(f"{record[need]}-{record[have]}")
            self.write(item, number)
            written.append(number)
            if alert:
                self.alert(item)

        self.read_each(Call(self.names["list"], (group,)), items, _shown(records), then)
        self._writer()
        if alert:
            self._actor()
        self.finish_sum(written)
        what = f"its {amount}" if extra else "what is short"
        verb = self.names["write"].replace("_", " ")
        also = f" and {self.names['act'].replace('_', ' ')} it" if alert else ""
        return self.rng.choice(
            [
                f"In {group}, for every {self.words['noun']} with {have} under {need}: {verb} {what}{also}. Give the sum.",
                f"Check {group}. Where {have} is below {need}, {verb} {what}{also}, then give the sum of it all.",
            ]
        )

    def judge(self) -> str:
        """Each item asks for so many of something, each at a rate: held against a limit, judged; then the sum."""
        group, items = self.pick("names"), self.items(1, 3)
        good, bad = self.pick("verdicts").split()
        judge, rate, limit_word = (
            self.say("judge_tools"),
            self.say("rate_tools"),
            self.rng.choice(["limit", "allowance"]),
        )
        asks = self.rng.choice(["asks", "needs", "claims"])
        things = {i: self.pick("things") for i in items}
        one, two = self.pick("rate_kinds").split()
        rates = {thing: {one: self.rng.randint(3, 29), two: self.rng.randint(3, 29)} for thing in things.values()}
        which = self.rng.choice([None, one, two])  # None: there is one rate only
        sums = {i: f"{self.rng.randint(2, 9)}*{rates[things[i]][which or one]}" for i in items}
        limits = {
            i: max(1, evaluate(sums[i]) + self.rng.choice([-30, -20, -9, -3, 0, 0, 4, 11, 25, 40])) for i in items
        }
        shown = {i: f"{asks} {sums[i].split('*')[0]} {things[i]}, {limit_word} {limits[i]}" for i in items}
        known: set[str] = set()
        end = self.rng.choice([good, good, bad])
        counted = []

        def then(item: str) -> None:
            thing = things[item]
            if thing not in known:
                seen = show_record(rates[thing]) if which else f"{rates[thing][one]} each"
                self.script.append((Call(rate, (thing,)), seen))
                known.add(thing)
            verdict = good if self.holds(f"{sums[item]}<={limits[item]}") else bad
            self.script.append((Call(judge, (item, verdict)), f"{item} noted"))
            if verdict == end:
                counted.append(sums[item])

        self.read_each(Call(self.names["list"], (group,)), items, shown, then)
        self.tools[rate] = "(thing): what one thing counts"
        self.tools[judge] = f"({self.words['noun']}, verdict): {good} or {bad} for one {self.words['noun']}"
        if counted:
            self.compute(counted)
        else:
            self.finish(0)
        value = f"{which} value" if which else "value"
        return self.rng.choice(
            [
                f"Settle {group}: {good} where number times {value} is at most the {limit_word}, else {bad}. Give the {end} sum.",
                f"For each {self.words['noun']} of {group} say {good} or {bad} by its {limit_word} and the {value}, "
                f"then the sum of the {end} ones.",
            ]
        )

    def outliers(self) -> str:
        """Within a span, what lies outside its item's range: each number is written, or each such item acted on."""
        group, items, span = self.pick("names"), self.items(1, 3), self.say("span_tools")
        start = self.rng.randint(1, 12)
        end = start + self.rng.randint(2, 6)
        form, at = self.rng.choice(["from {low} to {high}", "least {low}, most {high}"]), self.pick("readings")
        bounds: dict[str, tuple[int, int]] = {}
        values: dict[str, list[int]] = {}
        shown = {}
        for item in items:
            low, high = bounds[item] = self.rng.randint(8, 45), self.rng.randint(50, 85)
            times = sorted(self.rng.sample(range(start, end + 1), self.rng.choice([1, 2, 2, 3])))
            inside, outside = range(low, high + 1), [*range(3, low), *range(high + 1, 100)]
            edge = [low, high, low - 1, high + 1]
            values[item] = [self.rng.choice(self.rng.choice([inside, inside, outside, outside, edge])) for _ in times]
            numbers = [at.format(t=t, v=v) for t, v in zip(times, values[item])]
            shown[item] = ", ".join([form.format(low=low, high=high), *numbers])
        within = ""
        if self.rng.random() < 0.7:
            within = f" between {start} and {end}"
            self.tools[span] = "(first, last): keep only what lies between"
            said = self.rng.choice([f"{start} to {end}", "set", f"span {start} {end}"])
            self.script.append((Call(span, (start, end)), said))
        by_item, total = self.rng.random() < 0.6, self.rng.choice(["out", "out", "all"])
        out: list[int] = []

        def then(item: str) -> None:
            (low, high), before = bounds[item], len(out)
            for value in values[item]:
                if not self.holds(f"{value}<{low} or {value}>{high}"):
                    continue
                out.append(value)
                if not by_item:
                    self.write(item, value)
                elif len(out) == before + 1:
                    self.alert(item)
                    if total == "all":
                        break  # one number outside is enough

        self.read_each(Call(self.names["list"], (group,)), items, shown, then)
        self._actor() if by_item else self._writer()
        self.finish_sum(out if total == "out" else [value for item in items for value in values[item]])
        verb = self.names["act" if by_item else "write"].replace("_", " ")
        what = f"every {self.words['noun']} with numbers" if by_item else "every number"
        of = "the numbers outside" if total == "out" else "all numbers, inside and outside"
        return self.rng.choice(
            [
                f"Look at {group}{within}: {verb} {what} outside its range, and give the sum of {of}.",
                f"Find what is out of range in {group}{within}. {verb.capitalize()} {what} out of it, then add up {of}.",
            ]
        )

    # ---- shared steps

    def holds(self, comparison: str) -> bool:
        """Adds one use of the tool that compares and returns what it says."""
        true = holds(comparison)
        self.tools[self.names["holds"]] = f"(comparison): {self.pick('docs_holds')}"
        self.script.append((Call(self.names["holds"], (comparison,)), self.said[0 if true else 1]))
        return true

    def near(self, limit: int) -> int:
        """A number on, close to, or anywhere around a limit; under it in half of the cases."""
        below, above = self.rng.randint(1, max(1, limit - 1)), limit + self.rng.randint(0, 9)
        return self.rng.choice([below, max(1, limit - self.rng.randint(1, 3)), limit, above])

    def write(self, item, value) -> None:
        """Adds one writing step."""
        self.script.append((Call(self.names["write"], (item, value)), self.rng.choice([f"{item} done", "ok", "noted"])))

    def alert(self, item) -> None:
        """Adds one step that only names an item."""
        self.script.append((Call(self.names["act"], (item,)), self.rng.choice([f"{item} done", "ok", "noted"])))

    def _writer(self, what: str = "number") -> None:
        self.tools[self.names["write"]] = (
            f"({self.words['noun']}, {what}): {self.names['write'].replace('_', ' ')} a {what}"
        )

    def _actor(self) -> None:
        act = self.names["act"]
        self.tools[act] = f"({self.words['noun']}): {act.replace('_', ' ')} one {self.words['noun']}"


def _shown(records: dict) -> dict:
    return {item: show_record(record) for item, record in records.items()}
