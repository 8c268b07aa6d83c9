"""Rule 2 of the study: what an expert's call may rest on.

An argument was shown before the call, counts what was, or is what the calculator gives for such numbers. So has the
goal to be shown in the prompt, because an expert is told it. `check_task` asks both of a task.
"""

import itertools
import re

from coevo_lib.agent import Episode, expert_text, replay
from coevo_lib.arithmetic import numbers_in
from coevo_lib.errors import UserError
from coevo_lib.expert import view_of
from coevo_lib.task import Style, load_task
from coevo_lib.trajectory import OK
from coevo_lib.trial import DIRECTNESS, Trial, play_alone

CLOSE, LONGEST_SUM = 0.005, 40
UNITS = (1, 7, 10, 12, 24, 60, 100, 1000)  # numbers that a sum may use without having been shown them


def goal_is_shown(trial: Trial) -> str:
    """Whatever varies in the goals of a template stands in its prompts."""
    for name, drawn in trial.drawn.items():
        for key in drawn[0].goal:
            varies = len({str(instance.goal.get(key)) for instance in drawn}) > 1
            if varies and not all(_was_shown(str(i.goal.get(key)), i.prompt) for i in drawn):
                fix = f"put {{{key}}} into the text, or keep it in data only"
                raise UserError(f"templates.{name}: an expert knows the goal value {key!r}, no student does; {fix}")
    return "every goal value that varies within a template is in the prompt"


def expert_is_grounded(trial: Trial) -> str:
    """Every argument of the expert is known by then, and an expert that met no world calls the same."""
    n, twin = 0, load_task(trial.name)
    for (label, harness), directness in itertools.product(trial.harnesses.items(), DIRECTNESS):
        for episode in trial.played(harness, directness):
            for index, turn in enumerate(episode.turns):
                if (strange := strange_argument(episode, index)) is not None:
                    at = f"{episode.instance.key}, turn {index + 1}, {turn.text[:60]} ({label})"
                    fix = "an expert may use view.goal and view.facts only"
                    raise UserError(f"{at}: {strange!r} was neither shown before nor follows from what was; {fix}")
                n += len(turn.call.args)
            blind = play_alone(trial.task, episode.instance, harness, directness, expert=twin)
            if [turn.text for turn in blind.turns] != [turn.text for turn in episode.turns]:
                fix = "keep nothing of a draw or a world where expert() can read it"
                raise UserError(f"{episode.instance.key}: an expert that met no world calls something else; {fix}")
    return f"{n} arguments were shown before or follow from what was"


def strange_argument(episode: Episode, index: int) -> str | float | None:
    """The first argument of a turn that was neither shown before it nor follows from what was."""
    turn, before = episode.turns[index], episode.turns[:index]
    # Some descriptions show an example; its numbers say nothing about the instance.
    docs = [line for line in episode.toolbox.describe().split("\n") if not line.startswith(("calc(", "compare("))]
    text = "\n".join([*docs, episode.instance.prompt, *(turn.observation for turn in before)])
    lists = [fact.value for turn in before for fact in turn.facts if isinstance(fact.value, list)]
    most = max(len(numbers_in(text)), sum(map(len, lists)))
    for arg in turn.call.args if turn.call else ():
        if not _was_shown(str(arg), text, most) and (isinstance(arg, str) or not _worked_out(episode, index, arg)):
            return arg
    return None


def _was_shown(arg: str, text: str, most: int = 0) -> bool:
    """Each word and number of it was; numbers up to `most` may count, and a sum may use units."""
    units = UNITS if re.fullmatch(r"[\d\s.+*/()-]*[+*/-][\d\s.+*/()-]*", arg) else ()
    free, shown = {*range(1, most + 1), *units}, numbers_in(text)
    return _words(arg) <= _words(text) and all(n in free or _among(n, shown) for n in numbers_in(arg))


def _worked_out(episode: Episode, index: int, number: float) -> bool:
    """Whether the same expert, step by step from here, reaches the number with nothing but sums and comparisons of known numbers."""
    texts = [turn.text for turn in episode.turns[:index]]
    fork = replay(episode.task, episode.instance, episode.harness, texts, max_turns=episode.max_turns + LONGEST_SUM)
    for _ in range(LONGEST_SUM):
        step = episode.task.expert(view_of(fork), Style())
        if step is None or step[0].tool not in ("compare", "calc") or fork.done:
            return False
        turn = fork.step(expert_text(step[0], episode.harness))
        if turn.status != OK or strange_argument(fork, len(fork.turns) - 1) is not None:
            return False
        if step[0].tool == "calc" and _among(number, [turn.facts[0].value]):
            return True
    return False


def _words(text: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[^\W\d]+", text)}


def _among(number: float, numbers: list[float]) -> bool:
    return any(abs(number - other) < CLOSE for other in numbers)
