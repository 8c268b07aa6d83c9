"""Checks about one task what the study takes for granted: `python -m coevo_lib.check_task attendance`.

One line a check, then one instance as the student meets it and one trajectory of the expert. A check is a function of
a `Trial`: it returns what it found, or raises UserError with the reason and the fix. What a trained student makes of
the task is not checked here; `make room` measures that.
"""

import argparse
import contextlib
import functools
import itertools
import json
import re
import shutil
import sys
import textwrap
from collections.abc import Callable
from statistics import fmean
from typing import NamedTuple

from coevo_lib.agent import Episode, expert_text, replay
from coevo_lib.calls import render_call
from coevo_lib.errors import UserError
from coevo_lib.expert import ScriptedExpert
from coevo_lib.grounding import expert_is_grounded, goal_is_shown
from coevo_lib.harness import Harness
from coevo_lib.task import SPLITS, Task, load_task
from coevo_lib.trial import DIRECTNESS, DRAWS, MAX_TURNS, Trial, hash_elsewhere, instances_hash, play_alone, told

EXPERT_SUCCESS, RANDOM_SUCCESS, GUESS_SUCCESS = 0.93, 0.10, 0.05
NO_EXPERT = "no scripted expert: expert and meta-agent must be chat models"


class Check(NamedTuple):
    name: str
    ok: bool
    detail: str


def check(name_or_path: str, instances: int = 40) -> list[Check]:
    """All checks of the task of a name or file; later ones are left out where they rest on one that failed."""
    checks = [_carry_out(LOADS, _protocol, str(name_or_path))]
    trial = Trial(str(name_or_path), instances) if checks[0].ok else None
    for name, function in BASIC.items():
        if checks[-1].ok:
            checks.append(_carry_out(name, function, trial))
    if not checks[-1].ok:
        return checks
    checks += [_carry_out(name, function, trial) for name, function in EXPERT.items() if trial.has_expert]
    checks += [_carry_out(name, function, trial) for name, function in ANY.items()]
    return checks if trial.has_expert else [*checks, Check("scripted expert", True, NO_EXPERT)]


def _carry_out(name: str, function: Callable, subject: Trial | str) -> Check:
    try:
        return Check(name, True, function(subject))
    except Exception as error:
        return Check(name, False, told(error))


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
    held_out = sum(bool(template.get("test_only")) for template in trial.task.templates.values())
    return f"{len(trial.task.templates)}, of them {held_out} for test only"


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


# ---- tools and worlds


def _never_raises(trial: Trial) -> str:
    for call, wrong, _ in trial.probes:
        if wrong:
            raise UserError(f"{render_call(call)[:80]}: {wrong}")
    return f"{len(trial.probes)} calls with odd arguments"


def _errors_teach(trial: Trial) -> str:
    refused = [(call, error) for call, _, error in trial.probes if error]
    for call, error in refused:
        arguments = list(trial.tools[call.tool])
        if arguments and not re.fullmatch(rf"({'|'.join(arguments)})\b.*", error):
            fix = f"write one line that begins with the argument, as ToolError('{arguments[0]}: what is wrong with it')"
            raise UserError(f"{render_call(call)[:80]}: the error is {error!r}; {fix}")
    return f"{len(refused)} of those calls were refused"


def _reachable(trial: Trial) -> str:
    answered = {fact.call.tool for episode in trial.all_plays for fact in episode.trajectory.facts}
    missing = [name for name in trial.tools if name not in answered]
    if missing:
        raise UserError(f"nobody gets an answer from {', '.join(missing)}; mend or remove what cannot be used")
    return f"all {len(trial.tools)} gave an answer"


def _replays(trial: Trial) -> str:
    fresh = {instance.key: instance for split in SPLITS for instance in trial.instances(split, trial.n)}
    for episode in trial.all_plays:
        key, texts = episode.instance.key, [turn.text for turn in episode.turns]
        if episode.instance != fresh[key]:
            raise UserError(f"{key}: playing changed the instance's data; copy what a tool changes in start()")
        again = replay(trial.task, episode.instance, episode.harness, texts, max_turns=episode.max_turns)
        for place, (was, now) in enumerate(zip(_seen(episode), _seen(again)), 1):
            if was != now:
                fix = "worlds may use no chance and no clock, and a refused call may change nothing"
                raise UserError(f"{key}, observation {place}: {was[:50]!r} became {now[:50]!r}; {fix}")
    return f"{len(trial.all_plays)} episodes repeat from their texts"


def _seen(episode: Episode) -> list[str]:
    return [*(turn.observation for turn in episode.turns), str(episode.world.verdict())]


# ---- callers that know nothing


def _idle(trial: Trial) -> str:
    for instance in trial.sample:
        for what, texts in {"a fresh world": [], "submit(0)": ["submit(0)"]}.items():
            if replay(trial.task, instance, Harness(), texts).world.verdict().success:
                raise UserError(f"{instance.key}: {what} is a success; verdict() has to ask for more to be done")
    return f"{len(trial.sample)} instances"


def _random_fails(trial: Trial) -> str:
    rate = max(map(_success, trial.random_plays))
    if rate >= RANDOM_SUCCESS:
        fix = "make the answer depend on more of what is read"
        raise UserError(f"{rate:.0%} success with legal calls at random, below {RANDOM_SUCCESS:.0%} is wanted; {fix}")
    return f"at most {rate:.0%} success with legal calls"


def _success(episodes: list[Episode]) -> float:
    return fmean(episode.trajectory.success for episode in episodes)


def _guess_fails(trial: Trial) -> str:
    found = ", ".join(f"{rate:.1%} success by {guess}" for guess, rate in trial.guesses.items())
    if max(trial.guesses.values(), default=0) >= GUESS_SUCCESS:
        raise UserError(f"{found}, below {GUESS_SUCCESS:.0%} is wanted; let instances and their answers differ more")
    return found or 'not measured: there is neither data["answer"] nor a scripted expert'


# ---- the scripted expert


def _solves(trial: Trial, place: int) -> str:
    if place >= len(trial.harnesses):
        return "does not apply: no tool lists items of which another tool takes one"
    (label, harness), rates = list(trial.harnesses.items())[place], []
    for directness in DIRECTNESS:
        episodes = trial.played(harness, directness)
        rates.append(f"{_success(episodes):.0%} at directness {directness:g}")
        if _success(episodes) < EXPERT_SUCCESS:
            wanted = f"{EXPERT_SUCCESS:.0%} is wanted; mend expert()"
            raise UserError(f"{rates[-1]} ({label}), {wanted}: {_failure(episodes)}")
    return f"{', '.join(rates)} ({label})"


def _failure(episodes: list[Episode]) -> str:
    """Where the first episode that failed came to its end."""
    episode = next(episode for episode in episodes if not episode.trajectory.success)
    last = [f"{turn.text[:60]} -> {turn.observation[:60]}" for turn in episode.turns[-1:]]
    return "; ".join([f"{episode.instance.key}, turn {len(episode.turns)}", *last, episode.trajectory.feedback])


def _grows(trial: Trial) -> str:
    turns, template = {}, next(iter(trial.task.templates))
    for size in sorted({1, 2, 4, trial.task.size}):
        episodes = [play_alone(trial.task, trial.draw(template, size, i), Harness(), 0.0) for i in range(3)]
        if _success(episodes) < 1:
            raise UserError(f"size {size}: the expert fails: {_failure(episodes)}")
        turns[size] = fmean(len(episode.turns) for episode in episodes)
    listed = ", ".join(f"{mean:.0f} at size {size}" for size, mean in turns.items())
    if any(few >= many for few, many in itertools.pairwise(turns.values())):
        raise UserError(f"turns step by step: {listed}; let draw make more to read for a larger size")
    return f"turns step by step: {listed} (default {trial.task.size}); max_turns of a profile has to be above"


LOADS = "the file loads and keeps the protocol"
BASIC = {
    "every template renders": _templates,
    "draws vary": _variety,
    "instances are the same everywhere": _equal_everywhere,
    "splits are disjoint": _splits,
    "the world never raises": _never_raises,
}
EXPERT = {
    "the goal stands in the prompt": goal_is_shown,
    "the expert solves it": functools.partial(_solves, place=0),
    "the expert solves it with a composite": functools.partial(_solves, place=1),
    "the expert solves it with base tools hidden": functools.partial(_solves, place=2),
    "the expert is not clairvoyant": expert_is_grounded,
    "a larger size takes more turns": _grows,
}
ANY = {
    "tool errors name an argument": _errors_teach,
    "every tool is reachable": _reachable,
    "a replay is exact": _replays,
    "idle play fails": _idle,
    "random play fails": _random_fails,
    "a blind guess fails": _guess_fails,
}


# ---- what a person reads


def report(checks: list[Check]) -> str:
    lines = [_wrapped(f"{check.name}: {check.detail}", "ok      " if check.ok else "FAILED  ") for check in checks]
    failed = sum(not check.ok for check in checks)
    end = f"{failed} of {len(checks)} checks failed" if failed else f"all {len(checks)} checks passed"
    if not checks[-1].ok and checks[-1].name in (LOADS, *BASIC):
        end = "the further checks rest on this one"
    return "\n".join([*lines, "", end])


def show(task: Task) -> str:
    """One instance as the student sees it, and the expert's trajectory on it, turn by turn."""
    [instance] = task.instances("train", 1)
    episode, expert = Episode(task, instance, Harness(), max_turns=MAX_TURNS), ScriptedExpert(directness=0.0)
    episode.trajectory.author = "expert"
    lines = [f"One instance, {instance.key}, as the student sees it under h0", ""]
    lines += [_wrapped(episode.system, "  system  "), _wrapped(instance.prompt, "  user    "), ""]
    if type(task).expert is Task.expert:
        return "\n".join([*lines, NO_EXPERT])
    lines.append("The expert's trajectory, step by step")
    with contextlib.suppress(Exception):  # a check has told what the expert raises
        while not episode.done and (step := expert.next(episode)):
            turn = episode.step(expert_text(step[0], episode.harness))
            said = f"{turn.text}\nwhy: {step[1]}\n-> {turn.observation}"
            lines += ["", _wrapped(said, f"  {len(episode.turns):>4}  ")]
    result = "success" if episode.trajectory.success else "failure"
    return "\n".join(
        [*lines, "", f"  {len(episode.turns)} turns, {result}: {episode.trajectory.feedback or 'no next call'}"]
    )


def _wrapped(text: str, head: str) -> str:
    """Text within the terminal's width; its own lines and its further ones stand under the first."""
    width = min(max(shutil.get_terminal_size((100, 24)).columns, 80), 120) - len(head)
    lines = "\n".join(textwrap.fill(line, width) for line in text.split("\n"))
    return head + lines.replace("\n", "\n" + " " * len(head))


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m coevo_lib.check_task", description=__doc__.splitlines()[0])
    parser.add_argument("task", help="name of a task under coevo_lib/tasks, or the path of a .py file")
    parser.add_argument("--instances", type=int, default=40, help="how many are played, at least 20")
    arguments = parser.parse_args(words)
    checks = check(arguments.task, arguments.instances)
    print(report(checks))
    if len(checks) > len(BASIC) + 1:  # those that the trajectory rests on have passed
        print("", show(load_task(arguments.task)), sep="\n")
    return int(not all(check.ok for check in checks))


if __name__ == "__main__":
    sys.exit(main())
