"""Rule 2 of the study: what the arguments of an expert's call may rest on.

An argument was shown before the call, counts what was, or is what a calculator gives for shown numbers. Which
episodes are looked at is the business of `check_task`.
"""

import re

from coevo_lib.agent import Episode, expert_text, replay
from coevo_lib.arithmetic import ArithmeticSyntaxError, evaluate, numbers_in
from coevo_lib.expert import view_of
from coevo_lib.task import Style
from coevo_lib.trajectory import OK, Turn

CLOSE, LONGEST_SUM = 0.005, 12
UNITS = (1, 7, 10, 12, 24, 60, 100, 1000)  # numbers that a sum may use without having been shown them


def strange_argument(episode: Episode, index: int) -> str | float | None:
    """The first argument of a turn that was neither shown before it nor follows from what was."""
    turn, before = episode.turns[index], episode.turns[:index]
    # A calculator's description shows a sum as an example; its numbers say nothing about the instance.
    docs = [line for line in episode.toolbox.describe().split("\n") if not line.startswith("calc(")]
    text = "\n".join([*docs, episode.instance.prompt, *(turn.observation for turn in before)])
    lists = [fact.value for turn in before for fact in turn.facts if isinstance(fact.value, list)]
    most = max(len(numbers_in(text)), sum(map(len, lists)))
    for arg in turn.call.args if turn.call else ():
        if not _was_shown(arg, text, most) and (isinstance(arg, str) or not _worked_out(episode, index, arg)):
            return arg
    return None


def _was_shown(arg: str | float, text: str, most: int) -> bool:
    """The whole of it, or each word and number in it; numbers up to `most` may count, and a sum may use units."""
    if occurs(str(arg), text):
        return True
    words, numbers, shown = _words(str(arg)), numbers_in(str(arg)), numbers_in(text)
    units = UNITS if isinstance(arg, str) and re.fullmatch(r"[\d\s.+*/()-]+", arg) else ()
    told = all(among(n, shown) or n in units or n in range(1, most + 1) for n in numbers)
    return bool(words or numbers) and words <= _words(text) and told


def _worked_out(episode: Episode, index: int, number: float) -> bool:
    """Whether the same expert, step by step from here, reaches the number with nothing but sums of known numbers."""
    texts = [turn.text for turn in episode.turns[:index]]
    fork = replay(episode.task, episode.instance, episode.harness, texts, max_turns=episode.max_turns + LONGEST_SUM)
    for _ in range(LONGEST_SUM):
        step = episode.task.expert(view_of(fork), Style())
        turn = fork.step(expert_text(step[0], episode.harness)) if step and not fork.done else None
        if turn is None or not _is_sum(turn) or strange_argument(fork, len(fork.turns) - 1) is not None:
            return False
        if among(number, [turn.facts[0].value]):
            return True
    return False


def _is_sum(turn: Turn) -> bool:
    """A calculator at work: one text goes in, its value comes out."""
    try:
        return turn.status == OK and [evaluate(arg) for arg in turn.call.args] == [fact.value for fact in turn.facts]
    except (ArithmeticSyntaxError, TypeError):
        return False


def _words(text: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[^\W\d]+", text)}


def occurs(phrase: str, text: str) -> bool:
    """Whether the text holds the phrase, as whole words."""
    return bool(phrase.strip()) and bool(re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text, re.I))


def among(number: float, numbers: list[float]) -> bool:
    return any(abs(number - other) < CLOSE for other in numbers)
