"""Invented domains in which something is written as well as read: the second half of the generic rows.

Compositions: act on some, write a number for those that are short, judge each against a limit, note what is outside
a range within a span, copy what is shown, change a line. Each ends with a number, as the reading ones do.
"""

from coevo_lib.calls import Call
from coevo_lib.scenes import WORDS, Scene, show_record


class Errand(Scene):
    """A scene whose script may also write."""

    PLANS = {
        **Scene.PLANS,
        "act": 5, "supply": 9, "judge": 7, "outliers": 9, "copy": 6, "change": 8,
    }  # fmt: skip

    def act(self) -> str:
        """Act on every item under a limit, then give how many."""
        group, items, act = self.pick("names"), self.items(2, 5), self.names["act"]
        limit = self.rng.randint(15, 45)
        records = {i: self.record() for i in items}
        low = [i for i in items if records[i][self.field] < limit]

        def then(item: str) -> None:
            if item in low:
                self.script.append((Call(act, (item,)), f"{item} done"))

        self.read_each(Call(self.names["list"], (group,)), items, _shown(records), then)
        self.tools[act] = f"({self.words['noun']}): {act.replace('_', ' ')} one {self.words['noun']}"
        self.finish(len(low))
        return (
            f"In {group}, {act.replace('_', ' ')} every {self.words['noun']} whose {self.field} is under {limit}, "
            "then give how many."
        )

    def supply(self) -> str:
        """For every item with one field under another: a third field, or the difference, is written; then the sum."""
        group, items = self.pick("names"), self.items(1, 5)
        have, need, amount = self.rng.sample(WORDS["fields"], 3)
        records = {i: {have: self.rng.randint(1, 12), need: self.rng.randint(1, 12)} for i in items}
        extra = self.rng.random() < 0.65
        if extra:
            records = {i: {**record, amount: self.rng.randint(2, 40)} for i, record in records.items()}
        alert = self.names["act"] if self.rng.random() < 0.5 else None
        written = []

        def then(item: str) -> None:
            record = records[item]
            if record[have] >= record[need]:
                return
            number = record[amount] if extra else self.work_out(f"{record[need]}-{record[have]}")
            self.write(item, number)
            written.append(number)
            if alert:
                self.script.append((Call(alert, (item,)), f"{item} done"))

        self.read_each(Call(self.names["list"], (group,)), items, _shown(records), then)
        self._writer()
        if alert:
            self.tools[alert] = f"({self.words['noun']}): {alert.replace('_', ' ')} one {self.words['noun']}"
        self.finish_sum(written)
        what = f"its {amount}" if extra else "what is short"
        verb = self.names["write"].replace("_", " ")
        also = f" and {alert.replace('_', ' ')} it" if alert else ""
        return self.rng.choice(
            [
                f"In {group}, for every {self.words['noun']} with {have} under {need}: {verb} {what}{also}. Give the sum.",
                f"Check {group}. Where {have} is below {need}, {verb} {what}{also}, then give the sum of it all.",
            ]
        )

    def judge(self) -> str:
        """Each item wants so many of something, each at a rate: worked out, held against a limit, judged."""
        group, items = self.pick("names"), self.items(1, 3)
        good, bad = self.pick("verdicts").split()
        judge, rate, limit_word = self.say("judge_tools"), self.say("rate_tools"), self.rng.choice(["limit", "most"])
        things = {i: self.pick("things") for i in items}
        rates = {thing: self.rng.randint(3, 19) for thing in things.values()}
        counts = {i: self.rng.randint(2, 9) for i in items}
        sums = {i: counts[i] * rates[things[i]] for i in items}
        limits = {i: max(1, sums[i] + self.rng.choice([-20, -9, -3, 0, 4, 11, 25])) for i in items}
        shown = {i: f"wants {counts[i]} {things[i]}, {limit_word} {limits[i]}" for i in items}
        known: set[str] = set()

        def then(item: str) -> None:
            thing = things[item]
            if thing not in known:
                self.script.append((Call(rate, (thing,)), f"{rates[thing]} each"))
                known.add(thing)
            value = self.work_out(f"{counts[item]}*{rates[thing]}")
            self.script.append((Call(judge, (item, good if value <= limits[item] else bad)), f"{item} noted"))

        self.read_each(Call(self.names["list"], (group,)), items, shown, then)
        self.tools[rate] = "(thing): what one thing counts"
        self.tools[judge] = f"({self.words['noun']}, verdict): {good} or {bad} for one {self.words['noun']}"
        self.finish_sum([sums[i] for i in items if sums[i] <= limits[i]])
        return self.rng.choice(
            [
                f"Settle {group}: {good} where number times value is at most the {limit_word}, else {bad}. Give the {good} sum.",
                f"For each {self.words['noun']} of {group} say {good} or {bad} by its {limit_word}, then the sum of the {good} ones.",
            ]
        )

    def outliers(self) -> str:
        """Within a span, every reading outside its item's range is written; then the sum of those readings."""
        group, items, span = self.pick("names"), self.items(1, 4), self.say("span_tools")
        start = self.rng.randint(1, 12)
        end = start + self.rng.randint(2, 6)
        found, shown = [], {}
        for item in items:
            low = self.rng.randint(5, 30)
            high = low + self.rng.randint(10, 40)
            times = sorted(self.rng.sample(range(start, end + 1), self.rng.randint(1, 2)))
            values = [
                self.rng.choice(
                    [self.rng.randint(low, high)] * 2 + [low - self.rng.randint(1, 4), high + self.rng.randint(1, 9)]
                )
                for _ in times
            ]
            found += [(item, value) for value in values if not low <= value <= high]
            at = self.rng.choice(["t{t} {v}", "at {t} {v}", "{t}h {v}"])
            shown[item] = ", ".join([f"from {low} to {high}", *(at.format(t=t, v=v) for t, v in zip(times, values))])
        if self.rng.random() < 0.7:
            self.tools[span] = "(first, last): keep only what lies between"
            self.script.append(
                (Call(span, (start, end)), self.rng.choice([f"{start} to {end}", "set", f"span {start} {end}"]))
            )
            within = f" between {start} and {end}"
        else:
            within = ""

        def then(item: str) -> None:
            for value in [value for name, value in found if name == item]:
                self.write(item, value)

        self.read_each(Call(self.names["list"], (group,)), items, shown, then)
        self._writer()
        self.finish_sum([value for _, value in found])
        verb = self.names["write"].replace("_", " ")
        return self.rng.choice(
            [
                f"Look at {group}{within}: {verb} every number outside its range and give their sum.",
                f"Which numbers of {group}{within} are out of range? {verb} each, then add them up.",
            ]
        )

    def copy(self) -> str:
        """What each item shows is written down as it stands; then the sum of the numbers in it."""
        group, items = self.pick("names"), self.items(2, 5)
        words = self.rng.sample(WORDS["shown"], 2)
        values = {i: self.rng.randint(2, 99) for i in items}
        kinds = {i: self.rng.choice(words) for i in items}
        shown = {i: f"{kinds[i]} {values[i]}" for i in items}
        only = self.rng.choice([None, words[0]])
        chosen = [i for i in items if only in (None, kinds[i])]

        def then(item: str) -> None:
            if item in chosen:
                self.write(item, shown[item])

        self.read_each(Call(self.names["list"], (group,)), items, shown, then)
        self._writer("text")
        self.finish_sum([values[i] for i in chosen])
        verb = self.names["write"].replace("_", " ")
        which = f"every {only} {self.words['noun']}" if only else f"every {self.words['noun']}"
        return self.rng.choice(
            [
                f"{verb.capitalize()} what {which} in {group} shows, then give the sum of the numbers.",
                f"For {which} of {group}: {verb} its text. What do the numbers add up to?",
            ]
        )

    def change(self) -> str:
        """A name inside short lines is replaced by another, or an argument added, line by line; then a sum."""
        code, other = self.pick("codes"), self.pick("codes")
        old, new = self.rng.sample(WORDS["variables"], 2)
        places = [f"{self.rng.choice('abcdefg')}{n}" for n in self.rng.sample(range(1, 60), self.rng.randint(1, 4))]
        values = {p: self.rng.randint(2, 60) for p in places}
        form = self.rng.choice(["{t} = {c}({o}={v})", "{c}({o}={v})", "{t} = {c}({v}, {o}={v})"])
        extra = self.rng.random() < 0.35
        number, target = self.rng.randint(2, 60), self.rng.choice(WORDS["variables"])
        shown = {p: form.format(t=target, c=code, o=old, v=values[p]) for p in places}
        self.words["noun"] = "place"

        def then(place: str) -> None:
            line = shown[place]
            line = line.replace(")", f", {new}={number})") if extra else line.replace(f"{old}=", f"{new}=")
            self.write(place, line)

        self.read_each(Call(self.names["list"], (code,)), places, shown, then)
        self._writer("line")
        self.finish_sum([values[p] for p in places])
        task = f"add {new}={number} to" if extra else f"rename {old} to {new} in"
        return self.rng.choice(
            [
                f"{task[0].upper()}{task[1:]} every use of {code}, then give the sum of the values of {old}.",
                f"In each line with {code}, not {other}: {task} it. Then add up what {old} is given.",
            ]
        )

    # ---- shared steps

    def write(self, item, value) -> None:
        """Adds one writing step."""
        self.script.append((Call(self.names["write"], (item, value)), self.rng.choice([f"{item} done", "ok", "noted"])))

    def _writer(self, what: str = "number") -> None:
        self.tools[self.names["write"]] = (
            f"({self.words['noun']}, {what}): {self.names['write'].replace('_', ' ')} a {what}"
        )


def _shown(records: dict) -> dict:
    return {item: show_record(record) for item, record in records.items()}
