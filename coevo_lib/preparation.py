"""Generic tool-use rows: what a small model must have seen to read a harness at all (rule 4).

Every row is one scene (see `scenes` and `errands`), played step by step with the furniture of a harness around it: recipes,
examples, notes, refusals and recovery. Breadth matters more than repetition, so everything varies. Injected
mistakes carry no loss. Tests check that the words share nothing with the tasks.
"""

import random
import re

from coevo_lib.calls import Call, render_call
from coevo_lib.errands import Errand
from coevo_lib.scenes import WORDS

MAX_CHARACTERS = 1400


def generic_rows(n: int, seed: int = 0) -> list[dict]:
    """`n` rows {messages, mask}: chat messages, and per message whether it carries loss.

    Long ones are left out: on a CPU each new length costs time, and a few long rows cost the most.
    """
    rows, index = [], 0
    while len(rows) < n:
        row = Lesson(random.Random(f"generic-{seed}-{index}")).row()
        index += 1
        if sum(len(message["content"]) + 12 for message in row["messages"]) <= MAX_CHARACTERS:
            rows.append(row)
    return rows


class Lesson(Errand):
    """A scene as a training row."""

    def row(self) -> dict:
        example = self.example() if self.chance("example") else None
        return self.render(self.plan(), example)

    def render(self, prompt: str, example: str | None) -> dict:
        if self.chance("spare"):
            for name in self.rng.sample(WORDS["spare_tools"], self.rng.randint(1, 2)):
                self.tools[name] = "(text): " + name.replace("_", " ")
        names = list(self.tools)
        if self.rng.random() < 0.5:
            self.rng.shuffle(names)
        bullet = "- " if self.rng.random() < 0.2 else ""
        system = self.pick("systems").format(tools="\n".join(f"{bullet}{name}{self.tools[name]}" for name in names))
        if self.form == "json":
            system += '\nWrite calls as {"tool": name, "args": [..]}.'
        if self.chance("recipe"):
            system += "\n\n" + self.recipe()
        if example:
            system += "\n\n" + example
        return self.chat(system, prompt)

    def recipe(self) -> str:
        used = list(dict.fromkeys(call.tool for call, _ in self.script))
        says = ["use {t}", "call {t}", "{t} until nothing is left", "then {t}"]
        lines = [self.rng.choice(says).format(t=name) for name in used]
        return "Steps:\n" + "\n".join(f"{i}. {line}" for i, line in enumerate(lines, 1))

    def example(self) -> str:
        """The same composition played once before, on other items and numbers."""
        prompt = self.plan()
        lines = [f"{render_call(call, self.form)}\n-> {seen}" for call, seen in self.script]
        self.script = []
        return "\n".join([f"Example: {prompt}", *lines])

    def chat(self, system: str, prompt: str) -> dict:
        messages, mask = [_message("system", system), _message("user", prompt)], [False, False]
        wrong_at = self.rng.randrange(len(self.script)) if self.chance("mistake") else -1
        wrong_sum = self.chance("wrong sum")
        noting = self.rng.choice(["left", "known"]) if self.chance("notes") and not self.both else None
        self.wording = {key: self.pick(key) for key in ("notes_left", "notes_none", "notes_known")}
        for index, (call, seen) in enumerate(self.script):
            wrongs = [self.mistake(index)] if index == wrong_at else []
            if wrong_sum and call.tool == self.names["compute"]:
                wrongs += [self.wrong_sum(index)]
            for wrong, reason in wrongs:
                messages += [_message("assistant", wrong), _message("user", reason)]
                mask += [False, False]
            messages += [
                _message("assistant", render_call(call, self.form)),
                _message("user", seen + self.note(index, noting)),
            ]
            mask += [True, False]
        return {"messages": messages[:-1], "mask": mask[:-1]}

    def reads(self, index: int) -> tuple[list, dict]:
        """(items still unread after `index`, item -> answer read so far)."""
        reads = [
            (i, call.args[0], seen) for i, (call, seen) in enumerate(self.script) if call.tool == self.names["read"]
        ]
        return [item for i, item, _ in reads if i > index], {item: seen for i, item, seen in reads if i <= index}

    def note(self, index: int, noting: str | None) -> str:
        left, known = self.reads(index)
        if noting == "left" and (left or known):
            open_items = self.wording["notes_left"].format(items=", ".join(map(str, left)))
            return f"\n({open_items if left else self.wording['notes_none']})"
        if noting == "known" and known:
            return f"\n({self.wording['notes_known'].format(facts='; '.join(f'{i} {s}' for i, s in known.items()))})"
        return ""

    def mistake(self, index: int) -> tuple[str, str]:
        """A wrong reply at this point and what is said to it."""
        left, _ = self.reads(index - 1)
        call = self.script[index][0]
        options = ["strange", "form", "tool", "tool"] + ["early"] * 3 * bool(left) + ["repeat"] * bool(index)
        options += ["order"] * 4 * (call.tool == self.names["choose"])
        what, words = self.rng.choice(options), {"read": f"{self.names['read']}({self.words['noun']})"}
        if what == "early":
            tool = self.rng.choice([self.names["finish"], self.names["compute"]])
            value = (
                self.rng.randint(5, 90)
                if tool == self.names["finish"]
                else f"{self.rng.randint(2, 60)}+{self.rng.randint(2, 60)}"
            )
            return render_call(Call(tool, (value,)), self.form), self.pick("refused_missing").format(
                items=", ".join(map(str, left)), **words
            )
        if what == "repeat":
            return render_call(self.script[index - 1][0], self.form), self.pick("refused_repeat")
        if what == "order":
            return render_call(self.script[index + 1][0], self.form), self.pick("refused_order").format(
                item=f"{call.tool}(kind)"
            )
        if what == "tool":
            slip = self.rng.choice(
                [call.tool + "s", "get_" + call.tool, call.tool[:-1], call.tool.split("_")[0] + "_it"]
            )
            reason = self.pick("refused_tool").format(item=slip, tools=", ".join(self.tools))
            return render_call(Call(slip, call.args), self.form), reason
        if what == "strange":
            return render_call(Call(self.names["read"], (strange := self.item(),)), self.form), self.pick(
                "refused_strange"
            ).format(item=strange)
        return self.rng.choice([prompt_like(self.rng), self.names["read"]]), self.pick("refused_form")

    def wrong_sum(self, index: int) -> tuple[str, str]:
        """The computation with one term left out, doubled or misread, and what is said to it."""
        expression = self.script[index][0].args[0]
        head, body, tail = re.fullmatch(r"(\(?)(.*?)(\)/\d+)?", expression).groups(default="")
        terms = body.split("+")
        place = self.rng.randrange(len(terms))
        number = re.split(r"[*-]", terms[place])[0]
        what = self.rng.choice(["drop", "drop", "double", "misread"]) if len(terms) > 1 else "misread"
        if what == "drop":
            del terms[place]
            reason = self.pick("refused_sum").format(item=self.rng.choice([number, self.item_with(number)]))
        else:
            wrong = number if what == "double" else str(self.rng.randint(61, 99))
            terms[place : place + 1] = (
                [terms[place]] * 2 if what == "double" else [terms[place].replace(number, wrong, 1)]
            )
            reason = self.pick("refused_number").format(item=wrong)
        return render_call(Call(self.names["compute"], (f"{head}{'+'.join(terms)}{tail}",)), self.form), reason

    def item_with(self, number: str) -> str:
        """The first item whose answer shows the number."""
        return next((str(item) for item, seen in self.reads(len(self.script))[1].items() if number in seen), number)


def prompt_like(rng: random.Random) -> str:
    return rng.choice(["I will look it up.", "Let me see.", "The result is ready.", "Next step"])


def _message(role: str, content: str) -> dict:
    return {"role": role, "content": content}
