"""Checks about one task what the study takes for granted: `python -m coevo_lib.check_task attendance`.

One line a check, then one instance as the student meets it and one trajectory of the expert. A check is a function of
a `Trial`: it returns what it found, or raises UserError with the reason and the fix. What a trained student makes of
the task is not checked here; `make room` measures that.
"""

import functools
import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

from coevo_lib.agent import Episode
from coevo_lib.check_report import NO_EXPERT, Check, report, show
from coevo_lib.check_world import (
    FEW,
    errors_change_nothing,
    errors_teach,
    guess_fails,
    idle,
    never_raises,
    random_fails,
    reachable,
    replays,
    success_rate,
    verdict_after,
)
from coevo_lib.command_line import Parser, carry_out
from coevo_lib.errors import UserError
from coevo_lib.grounding import expert_is_grounded, goal_is_shown
from coevo_lib.harness import Harness
from coevo_lib.task import SPLITS, load_task, task_file
from coevo_lib.time_limit import OutOfTime, time_limit, where_it_was
from coevo_lib.trial import DIRECTNESS, DRAWS, Trial, hash_elsewhere, instances_hash, play_alone, told

INSTANCES = 40
EXPERT_SUCCESS = 0.93
BUSY, WAITING = 20.0, 600.0  # seconds for a check of INSTANCES instances: ten times what the slowest shipped task takes


def check(name_or_path: str, instances: int = INSTANCES) -> list[Check]:
    """All checks of the task of a name or file; later ones are left out where they rest on one that failed."""
    checks = [_carry_out(LOADS, _protocol, str(name_or_path))]
    if checks[0].last:
        return checks
    trial = Trial(str(name_or_path), instances)
    for name, function in {**BASIC, **(EXPERT if trial.has_expert else {}), **ANY}.items():
        checks.append(_carry_out(name, function, trial))
        if checks[-1].last:
            return checks
    return checks if trial.has_expert else [*checks, Check("scripted expert", True, NO_EXPERT)]


def _carry_out(name: str, function: Callable, subject: Trial | str) -> Check:
    more = max(1.0, subject.n / INSTANCES) if isinstance(subject, Trial) else 1.0
    try:
        with time_limit(BUSY * more, WAITING * more):
            return Check(name, True, function(subject))
    except OutOfTime as error:
        file = subject.task.file if isinstance(subject, Trial) else task_file(subject)
        return Check(name, False, _endless(error, file), last=True)
    except Exception as error:
        return Check(name, False, told(error), last=name in (LOADS, *BASIC))


def _endless(error: OutOfTime, file: Path) -> str:
    return f"{file}: stopped after {error} in {where_it_was(error, file)}; mend what does not end there"


# ---- the file, its templates and its instances


def _protocol(name_or_path: str) -> str:
    task = load_task(name_or_path)
    for name in task.world.tools():
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,59}", name):
            raise UserError(f"tool {name}: a harness cannot name it; use small letters, digits and _")
        if "\n" in getattr(task.world, name).__doc__.strip():
            raise UserError(f"tool {name}: its docstring has several lines; students read one line a tool")
    return f"{type(task).__name__} with the tools {', '.join(task.world.tools())}"


def _templates(trial: Trial) -> str:
    for name, drawn in trial.drawn.items():
        if any(json.loads(json.dumps(i.data, default=repr)) != i.data for i in drawn):
            raise UserError(
                f"templates.{name}: JSON would change the data of draw; use text keys, lists, text, numbers"
            )
    templates = trial.task.templates.values()
    held_out = [template.get("kind") for template in templates if template.get("test_only")]
    first = next(template.get("kind") for template in templates if not template.get("test_only"))
    if first not in held_out:
        same = f' and kind = "{first}"' if first else ""
        raise UserError(f"templates: add one with test_only = true{same}, so that test asks in words seen nowhere else")
    return f"{len(templates)}, of them {len(held_out)} for test only"


def _variety(trial: Trial) -> str:
    """Without it, looking for an instance of a split might not end."""
    for name, drawn in trial.drawn.items():
        n = len({repr(instance.data) for instance in drawn})
        if n < 0.9 * DRAWS:
            fix = "draw more of the data from rng, from larger pools"
            raise UserError(f"template {name}: {DRAWS} draws give {n} different instances; {fix}")
    return f"at least 90% of {DRAWS} draws differ"


def _equal_everywhere(trial: Trial) -> str:
    if instances_hash(trial.task) != hash_elsewhere(trial.task):
        fix = "draw from rng only, not from a set, hash() or a clock, and keep nothing between draws"
        raise UserError(f"another process draws different instances; {fix}")
    return "another process draws the same"


def _splits(trial: Trial) -> str:
    contents = {split: {repr(instance.data) for instance in trial.instances(split, trial.n)} for split in SPLITS}
    for a, b in itertools.combinations(SPLITS, 2):
        if n := len(contents[a] & contents[b]):
            raise UserError(f"{a} and {b} share the data of {n} instances; do not override instances() of Task")
    return f"no data of {trial.n} instances a split is in another"


# ---- the scripted expert


def _solves(trial: Trial, place: int) -> str:
    if place >= len(trial.harnesses):
        return "does not apply: no tool lists items of which another tool takes one"
    (label, harness), rates = list(trial.harnesses.items())[place], []
    for directness in DIRECTNESS:
        episodes = trial.played(harness, directness)
        rates.append(f"{success_rate(episodes):.0%} at directness {directness:g}")
        if success_rate(episodes) < EXPERT_SUCCESS:
            raise UserError(f"{rates[-1]} ({label}), {EXPERT_SUCCESS:.0%} is wanted; {_failure(episodes)}")
    return f"{', '.join(rates)} ({label})"


def _failure(episodes: list[Episode]) -> str:
    """What to mend, and where the first episode that failed came to its end."""
    episode = next(episode for episode in episodes if not episode.trajectory.success)
    last = [f"{turn.text[:60]} -> {turn.observation[:60]}" for turn in episode.turns[-1:]]
    where = [f"{episode.instance.key}, turn {len(episode.turns)}", *last, episode.trajectory.feedback]
    return f"{_who_is_wrong(episode)}: {'; '.join(where)}"


def _who_is_wrong(episode: Episode) -> str:
    """An expert that broke off is; where it came to its end, that end alone does not tell."""
    if not episode.world.finished:
        return "mend expert()"
    values = [f"the expert ends with {episode.turns[-1].text[:60]}"]
    if "answer" in episode.instance.data:
        values.append(f'draw() put {episode.instance.data["answer"]!r} into data["answer"]')
    return f"expert() and verdict() disagree and either may be wrong, also draw() ({', '.join(values)})"


def _grows(trial: Trial) -> str:
    turns, template = {}, next(iter(trial.task.templates))
    for size in sorted({1, 2, 4, trial.task.size}):
        episodes = [play_alone(trial.task, trial.draw(template, size, i), Harness(), 0.0) for i in range(3)]
        if success_rate(episodes) < 1:
            raise UserError(f"size {size}: the expert fails; {_failure(episodes)}")
        turns[size] = fmean(len(episode.turns) for episode in episodes)
    listed = ", ".join(f"{mean:.0f} at size {size}" for size, mean in turns.items())
    if any(few >= many for few, many in itertools.pairwise(turns.values())):
        raise UserError(f"turns step by step: {listed}; let draw make more to read for a larger size")
    longest = max(len(episode.turns) for episode in trial.played(Harness(), 0.0))
    return f"turns step by step: {listed}, and up to {longest} at the task's size {trial.task.size}; max_turns of a profile has to be above"


def _depends(trial: Trial) -> str:
    """For reading: it cannot know which tools write."""
    missed, doubled = Counter(), Counter()
    for episode in trial.played(Harness(), 0.0)[:FEW]:
        texts = [turn.text for turn in episode.turns]
        for place, turn in enumerate(episode.turns[:-1]):
            missed[turn.call.tool] += not verdict_after(trial, episode, texts[:place] + texts[place + 1 :]).success
            doubled[turn.call.tool] += not verdict_after(trial, episode, texts[: place + 1] + texts[place:]).success
    left_out, twice = (", ".join(tool for tool in found if found[tool]) or "NONE" for found in (missed, doubled))
    advice = "a tool that writes should be in the first list, and in the second unless it refuses to write twice"
    return f"left out, these calls make it fail: {left_out}; made twice: {twice}; {advice}"


LOADS = "the file loads and keeps the protocol"
BASIC = {
    "every template renders": _templates,
    "draws vary": _variety,
    "instances are the same everywhere": _equal_everywhere,
    "splits are disjoint": _splits,
    "the world never raises": never_raises,
    "a replay is exact": replays,
}
EXPERT = {
    "the goal stands in the prompt": goal_is_shown,
    "the expert solves it": functools.partial(_solves, place=0),
    "the expert solves it with a composite": functools.partial(_solves, place=1),
    "the expert solves it with base tools hidden": functools.partial(_solves, place=2),
    "the expert is not clairvoyant": expert_is_grounded,
    "a larger size takes more turns": _grows,
    "what the verdict depends on": _depends,
}
ANY = {
    "tool errors name an argument": errors_teach,
    "a tool error changes nothing": errors_change_nothing,
    "every tool is reachable": reachable,
    "idle play fails": idle,
    "random play fails": random_fails,
    "a blind guess fails": guess_fails,
}


def main(words: list[str] | None = None) -> int:
    parser = Parser(prog="python -m coevo_lib.check_task", description=__doc__.splitlines()[0])
    parser.add_argument("task", help="name of a task under coevo_lib/tasks, or the path of a .py file")
    parser.add_argument("--instances", type=int, default=INSTANCES, help="how many are played, at least 20")
    arguments = parser.parse_args(words)
    return carry_out(lambda: _print_checks(arguments.task, arguments.instances))


def _print_checks(task: str, instances: int) -> int:
    checks = check(task, instances)
    print(report(checks))
    if not checks[-1].last:  # what the trajectory rests on has passed
        print("", show(load_task(task)), sep="\n")
    return int(not all(check.ok for check in checks))


if __name__ == "__main__":
    sys.exit(main())
