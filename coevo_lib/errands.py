"""Invented domains in which text is handled: copied as it is shown, or changed in one place.

The last part of the generic rows, after `scenes` (reading) and `choices` (conditions). Each ends with a number, as
those do.
"""

import re

from coevo_lib.calls import Call
from coevo_lib.choices import Choice
from coevo_lib.scenes import WORDS


class Errand(Choice):
    """A scene whose script may also write text."""

    PLANS = {**Choice.PLANS, "copy": 12, "change": 10}

    def copy(self) -> str:
        """What the items of a kind show is written down as it stands; then the sum of the numbers of a kind."""
        group, items = self.pick("names"), self.items(1, 5)
        label, kinds = self.pick("labels"), self.rng.sample(WORDS["shown"], 2)
        units = self.rng.sample(WORDS["fields"], self.rng.randint(1, 4))
        values = dict(zip(items, self.rng.sample(range(2, 100), len(items))))
        texts = {i: f"{self.rng.choice(units)} {values[i]}" for i in items}
        kind = {i: self.rng.choice(kinds) for i in items}
        wanted = kind[items[0]]
        every = self.rng.random() < 0.35  # all are written, the sum is over a kind
        chosen = items if every else [i for i in items if kind[i] == wanted]
        shown = {i: f"{texts[i]}, {label} {kind[i]}" if self.rng.random() < 0.7 else texts[i] for i in chosen}
        everything = self.rng.choice(["all", "every"])
        first = Call(self.names["list"], (group, everything if every else wanted))
        self.read_each(first, chosen, shown, lambda item: self.write(item, texts[item]))
        self._writer("text")
        of_kind = [i for i in items if kind[i] == wanted]
        if every:
            self.script.append((Call(self.names["list"], (group, wanted)), ", ".join(of_kind)))
        listing = f"({self.words['group']}, {label}): {self.say('docs_list')}, of one {label} or {everything}"
        self.tools[self.names["list"]] = listing
        if self.both:
            self.tools[self.both] = f"({self.words['group']}, {label}): {self.say('docs_both')}"
        self.finish_sum([values[i] for i in of_kind])
        verb, noun = self.names["write"].replace("_", " "), self.words["noun"]
        which = f"every {noun}" if every else f"every {wanted} {noun}"
        total = f"only the {wanted} numbers" if every else "their numbers"
        return self.rng.choice(
            [
                f"{verb.capitalize()} what {which} in {group} shows, then give the sum of {total}.",
                f"For {which} of {group}: {verb} its text. What do {total} add up to?",
            ]
        )

    def change(self) -> str:
        """A name in lines of code is replaced by another, or an argument added, line by line; then a sum."""
        code, other = self.rng.sample(WORDS["codes"], 2)
        old, new, spare, target = self.rng.sample(WORDS["variables"], 4)
        sign = self.rng.choice([":", "", "/"])
        numbers = self.rng.sample(range(1, 60), self.rng.randint(1, 4))
        places = [f"{self.item().lower()}{sign}{n}" for n in numbers]
        values = {p: self.rng.randint(2, 99) for p in places}
        add, added = self.rng.random() < 0.4, self.rng.choice(["True", "None", "0", "1"])
        defined = self.rng.choice(places) if self.rng.random() < 0.6 and len(places) > 1 else None
        shown, changed = {}, {}
        for p in places:
            tail = self.rng.choice(["", "", f" - {old}", f" + {other}({old}={spare})", f" - {other}({old})"])
            line = f"{target} = {code}({old}={values[p]}){tail}"
            end = f"{target} = {code}({old}={values[p]}, {new}={added}){tail}"
            renamed = f"{target} = {code}({new}={values[p]}){tail}"
            if p == defined:
                line = f"def {code}({old}): return {old} * {spare}"
                end = f"def {code}({old}, {new}): return {old} * {spare}"
                renamed = re.sub(rf"\b{old}\b", new, line)
            shown[p], changed[p] = line, end if add else renamed

        self.words["noun"] = "place"
        self.read_each(
            Call(self.names["list"], (code,)), places, shown, lambda place: self.write(place, changed[place])
        )
        self._writer("line")
        self.finish_sum([values[p] for p in places if p != defined])
        task = f"add {new}={added} to" if add else f"rename {old} to {new} in"
        return self.rng.choice(
            [
                f"{task[0].upper()}{task[1:]} every use of {code}, then give the sum of the values of {old}.",
                f"In each line with {code}: {task} it, and leave {other} alone. Then add up what {old} is given.",
            ]
        )
