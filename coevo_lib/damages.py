"""What can go wrong in one known turn: nine ways to damage a success, for planting failures.

Nothing here knows a task or a tool by name. What lists, reads, computes and finishes is learned from the success:
answers that are lists, answers that show new numbers, texts of several numbers that a number answers, the last call.
A damaged call never stands in the success itself: a call from later on would only change the order of the work.
"""

import random
import re
from functools import partial

from coevo_lib.agent import Episode, expert_text, replay
from coevo_lib.arithmetic import evaluate, numbers_in
from coevo_lib.calls import Call
from coevo_lib.harness import Harness
from coevo_lib.task import Instance, Task
from coevo_lib.toolbox import show_value
from coevo_lib.trajectory import OK, Trajectory

NUMBER = r"\d+(?:\.\d+)?"
TERM = rf"{NUMBER}(?:\s*\*\s*{NUMBER})*"
ADDED = re.compile(rf"\s*\+\s*({TERM})(?=\s*(?:[-+)]|$))|(?:^|(?<=\())\s*({TERM})\s*\+\s*")


class Success:
    """A successful trajectory and what can be learned from it. Turns are named by their index."""

    def __init__(self, task: Task, instance: Instance, harness: Harness, trajectory: Trajectory):
        self.task, self.instance, self.harness, self.trajectory = task, instance, harness, trajectory
        self.turns = trajectory.turns
        self.toolbox = Episode(task, instance, harness).toolbox
        self.replay = lambda texts: replay(task, instance, harness, texts)
        self.texts = [turn.text for turn in self.turns]
        self.calls = [turn.call for turn in self.turns]
        self.answers = ["\n".join(show_value(fact.value) for fact in turn.facts) for turn in self.turns]
        self.answered = [n for n, turn in enumerate(self.turns) if turn.status == OK]
        self.lists = [fact.value for fact in trajectory.facts if isinstance(fact.value, list)]
        self.finish = self.calls[-1] if trajectory.status == "finished" else None
        self.first_list = next((n for n in self.answered if self.listing(n)), len(self.turns))
        reads = [n for n in self.answered if n > self.first_list and not self.listing(n) and not self.computing(n)]
        self.readers = {self.calls[n].tool for n in reads if numbers_in(" ".join(self.fresh(n)))}

    def listing(self, n: int) -> bool:
        return any(isinstance(fact.value, list) for fact in self.turns[n].facts)

    def computing(self, n: int) -> bool:
        """Whether a text of numbers was answered with a number: of several, or of one with that one."""
        values = [fact.value for fact in self.turns[n].facts]
        texts = [arg for arg in self.calls[n].args if isinstance(arg, str)]
        sums = any(len(numbers_in(t)) > 1 or re.fullmatch(NUMBER, t) and values == numbers_in(t) for t in texts)
        return sums and all(isinstance(value, (int, float)) for value in values)

    def shown(self, n: int) -> str:
        """The prompt and all answers before a turn."""
        return "\n".join([self.trajectory.prompt, *self.answers[:n]])

    def fresh(self, n: int) -> set[str]:
        """Words and numbers that a turn's answer was the first to show."""
        return _pieces(self.answers[n]) - _pieces(self.shown(n))


def _pieces(text: str) -> set[str]:
    return set(re.findall(rf"[A-Za-z]+|{NUMBER}", text))


def _stands_in(value, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(str(value))}(?!\w)", text) is not None


def _numbers(text: str) -> list[int | float]:
    return sorted({int(n) if n == int(n) else n for n in numbers_in(text)})


def _with(call: Call, place: int, value) -> Call:
    return Call(call.tool, (*call.args[:place], value, *call.args[place + 1 :]))


def _without_a_term(expression) -> list[tuple[str, str]]:
    """(term, the sum without it) for each term that a sum adds up."""
    found = ADDED.finditer(expression) if isinstance(expression, str) else ()
    return [(m[1] or m[2], expression[: m.start()] + expression[m.end() :]) for m in found]


# ---- the damages: each gives the call or text that takes the place of turn n, None where it is not possible there


def wrong_argument(success: Success, n: int, rng: random.Random) -> Call | None:
    """Another value of the same kind that was shown before."""
    for _, shown, exchange in _spots(success, n, rng):
        for new in rng.sample(shown, len(shown)):
            if (made := exchange(new)) not in success.calls:
                return made
    return None


def hallucinated_value(success: Success, n: int, rng: random.Random) -> Call | None:
    """A value of the same kind that is shown nowhere."""
    everything = success.shown(len(success.turns))
    for old, _, exchange in _spots(success, n, rng):
        for new in [_made_up(old, rng) for _ in range(20)]:
            if not _stands_in(new, everything) and (made := exchange(new)) not in success.calls:
                return made
    return None


def _spots(success: Success, n: int, rng: random.Random) -> list[tuple]:
    """(value, values of its kind shown before, the call with another) for each argument, or number in a text."""
    call, shown, spots = success.calls[n], success.shown(n), []
    for place, value in enumerate(call.args):
        listed = next((items for items in success.lists if str(value) in map(str, items)), None)
        if isinstance(value, str) and numbers_in(value) and not listed:
            for m in re.finditer(NUMBER, value):
                head, tail = value[: m.start()], value[m.end() :]
                within = partial(lambda p, head, tail, new: _with(call, p, f"{head}{new}{tail}"), place, head, tail)
                spots.append((_numbers(m[0])[0], _numbers(shown), within))
            continue
        same_place = [c.args[place] for c in success.calls if c and c.tool == call.tool and len(c.args) > place]
        kin = listed or (same_place if isinstance(value, str) else _numbers(shown))
        kin = sorted({type(value)(other) for other in kin if _stands_in(other, shown)})
        spots.append((value, kin, partial(_with, call, place)))
    return rng.sample(spots, len(spots))


def _made_up(value, rng: random.Random):
    """A number of about the same size, or a text whose last word is another."""
    if not isinstance(value, str):
        return rng.randint(1, max(9, 2 * abs(int(value))))

    def letter(c):
        return rng.choice("123456789" if c.isdigit() else "AEILMNORST" if c.isupper() else "aeilmnorst")

    return re.sub(r"\w+(?=\W*$)", lambda word: "".join(map(letter, word[0])), value)


def skipped_read(success: Success, n: int, rng: random.Random) -> Call | None:
    """The last reading before other work is left out, with all that rests on it: the call after it comes too early.

    A reading left out in the middle of others would be no damage yet, only another order.
    """
    call, fresh = success.calls[n], success.fresh(n)
    for later in [m for m in success.answered if m > n] if call.tool in success.readers else ():
        other = success.calls[later]
        if success.computing(later):  # what was read, but is not in the sum, was not needed for it: no damage
            terms = [_without_answer(arg, success.answers[n], fresh) for arg in other.args]
            if other == Call(other.tool, tuple(terms)):
                return None
            other = Call(other.tool, tuple(terms))
        if not _pieces(" ".join(map(str, other.args))) & fresh:
            return None if other.tool == call.tool or other == success.finish else other
    return None


def _without_answer(expression, answer: str, fresh: set[str]):
    """The sum without the terms at its end that an answer gave."""
    more = True
    while more and (shorter := _without_a_term(expression)) and _pieces(shorter[-1][0]) <= _pieces(answer):
        expression = shorter[-1][1]
        more = _pieces(expression) & fresh
    return expression


def premature_finish(success: Success, n: int, rng: random.Random) -> Call | None:
    """The finishing call now, with a number shown or computed so far that is not the right one."""
    if success.finish is None or n == len(success.turns) - 1:
        return None
    made, shown = success.finish, _numbers(success.shown(n))
    for place, arg in enumerate(made.args):
        wrong = [number for number in shown if number != arg]
        if wrong and not isinstance(arg, str):
            made = _with(made, place, rng.choice(wrong))
    return None if made == success.finish and made.args else made


def wrong_tool(success: Success, n: int, rng: random.Random) -> Call | None:
    """Another visible tool that takes the same kinds of arguments, with the same arguments."""
    call, finish = success.calls[n], success.finish and success.finish.tool
    kinds = {name: list(success.toolbox.signature(name).values()) for name in success.toolbox.visible}
    others = [Call(name, call.args) for name in kinds if kinds[name] == kinds[call.tool] and name != finish]
    others = [other for other in others if other not in success.calls]
    return rng.choice(others) if others else None


def repeated_call(success: Success, n: int, rng: random.Random) -> Call | None:
    """An earlier call again, instead of this one."""
    earlier = [success.calls[m] for m in success.answered if m < n and success.calls[m] != success.calls[n]]
    return rng.choice(earlier) if earlier else None


def ignored_filter(success: Success, n: int, rng: random.Random) -> Call | None:
    """A call before the listing that changes what later calls answer is left out: the next call comes instead."""
    if n >= success.first_list or success.computing(n):
        return None
    without = success.replay(success.texts[:n] + success.texts[n + 1 :]).turns[n:]
    if [turn.facts for turn in without] == [turn.facts for turn in success.turns[n + 1 :]]:
        return None
    return next((success.calls[m] for m in success.answered if m > n), None)


def dropped_item(success: Success, n: int, rng: random.Random) -> Call | None:
    """A computing call with one term of its sum left out."""
    call = success.calls[n]
    places = enumerate(call.args) if success.computing(n) else ()
    shorter = [_with(call, p, less) for p, arg in places for term, less in _without_a_term(arg) if evaluate(term)]
    shorter = [other for other in shorter if other not in success.calls]
    return rng.choice(shorter) if shorter else None


def malformed_call(success: Success, n: int, rng: random.Random) -> str:
    """A text that holds no readable call."""
    text = expert_text(success.calls[n], success.harness)
    broken = [f"Now {text[:-1]}", text[:-1], f"Next: {text}", f"{text[:-1]},", f"I use {success.calls[n].tool} next."]
    return rng.choice(broken)


DAMAGES = (wrong_argument, hallucinated_value, skipped_read, premature_finish, wrong_tool, repeated_call,
           ignored_filter, dropped_item, malformed_call)  # fmt: skip
