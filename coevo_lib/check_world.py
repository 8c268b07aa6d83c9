"""Checks about a task's world: its tools, their errors, its verdict, and callers that know nothing.

Each is a function of a `Trial`, as all checks of `check_task`, which lists them.
"""

import re
from statistics import fmean

from coevo_lib.agent import Episode, replay
from coevo_lib.calls import render_call
from coevo_lib.errors import UserError
from coevo_lib.harness import Harness
from coevo_lib.task import SPLITS, Verdict
from coevo_lib.trajectory import ERROR
from coevo_lib.trial import Trial, told

FEW = 6  # episodes that are cut short, or changed call by call
HALFWAY = "verdict() has to ask for all that is due"
RANDOM_SUCCESS, GUESS_SUCCESS = 0.10, 0.05


def never_raises(trial: Trial) -> str:
    for call, wrong, _ in trial.probes:
        if wrong:
            raise UserError(f"{render_call(call)[:80]}: {wrong}")
    return f"{len(trial.probes)} calls with odd arguments"


def errors_teach(trial: Trial) -> str:
    refused = [(call, error) for call, _, error in trial.probes if error]
    for call, error in refused:
        arguments = list(trial.tools[call.tool])
        if arguments and not re.fullmatch(rf"({'|'.join(arguments)})\b.*", error):
            fix = f"write one line that begins with the argument, as ToolError('{arguments[0]}: what is wrong with it')"
            raise UserError(f"{render_call(call)[:80]}: the error is {error!r}; {fix}")
    return f"{len(refused)} of those calls were refused"


def reachable(trial: Trial) -> str:
    answered = {fact.call.tool for episode in trial.all_plays for fact in episode.trajectory.facts}
    missing = [name for name in trial.tools if name not in answered]
    if missing and not trial.has_expert:  # random callers alone cannot tell
        return f"callers at random got no answer from {', '.join(missing)}; see to it that they can be used"
    if missing:
        raise UserError(f"nobody gets an answer from {', '.join(missing)}; mend or remove what cannot be used")
    return f"all {len(trial.tools)} gave an answer"


def replays(trial: Trial) -> str:
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


def errors_change_nothing(trial: Trial) -> str:
    """A harness may draw a call again that a tool answers with an error, as if it had never been made."""
    wrong, n = [render_call(call) for call, _, error in trial.probes if error], 0
    for place, episode in enumerate(trial.all_plays if wrong else ()):
        shift, inserted = place * len(episode.turns), []
        disturbed = replay(trial.task, episode.instance, episode.harness, [], max_turns=10_000)
        for step, turn in enumerate(episode.turns):
            meant = replay(
                trial.task, episode.instance, episode.harness, [t.text for t in disturbed.turns], max_turns=10_000
            )
            if not meant.done and meant.step(wrong[(shift + step) % len(wrong)]).status == ERROR:
                inserted.append((step, wrong[(shift + step) % len(wrong)]))
                disturbed.step(inserted[-1][1])
                n += 1
            disturbed.step(turn.text)
        now = [turn.observation for turn in disturbed.turns if turn.status != ERROR]
        was = [turn.observation for turn in episode.turns if turn.status != ERROR]
        if (was, episode.world.verdict()) != (now, disturbed.world.verdict()):
            fix = "raise ToolError before a tool changes anything"
            raise UserError(
                f"{episode.instance.key}: with {_culprit(episode, inserted)} in between, which meets an error, it ends "
                f"otherwise; {fix}"
            )
    return f"{n} calls that meet an error, put in between, change no episode"


def _culprit(episode: Episode, inserted: list[tuple[int, str]]) -> str:
    """The first of these calls that alone makes the episode end otherwise; all of them if it takes more than one."""
    for step, text in inserted:
        texts = [turn.text for turn in episode.turns]
        alone = [*texts[:step], text, *texts[step:]]
        again = replay(episode.task, episode.instance, episode.harness, alone, max_turns=len(alone) + 1)
        if again.world.verdict() != episode.world.verdict():
            return text[:80]
    return " and ".join(text[:40] for _, text in inserted[:3])


# ---- callers that know nothing


def idle(trial: Trial) -> str:
    for instance in trial.sample:
        for what, texts in {"a fresh world": [], "submit(0)": ["submit(0)"]}.items():
            if replay(trial.task, instance, Harness(), texts).world.verdict().success:
                raise UserError(f"{instance.key}: {what} is a success; verdict() has to ask for more to be done")
    for episode in trial.played(Harness(), 0.0)[:FEW] if trial.has_expert else ():
        texts = [turn.text for turn in episode.turns]
        for n in range(1, len(texts)):
            if verdict_after(trial, episode, texts[:n]).success:
                raise UserError(
                    f"{episode.instance.key}: a success after {n} of the expert's {len(texts)} calls; {HALFWAY}"
                )
    return f"{len(trial.sample)} instances, and the expert's episodes cut short"


def verdict_after(trial: Trial, episode: Episode, texts: list[str]) -> Verdict:
    """The verdict after these replies, which a world has to be able to give at any moment."""
    try:
        return replay(trial.task, episode.instance, episode.harness, texts, max_turns=len(texts) + 2).world.verdict()
    except Exception as error:
        fix = "it has to hold at any moment; a start() of your own begins with super().start()"
        raise UserError(f"verdict() after {texts[-1][:60]}: {told(error)}; {fix}") from None


def random_fails(trial: Trial) -> str:
    rate = max(map(success_rate, trial.random_plays))
    if rate >= RANDOM_SUCCESS:
        fix = "make the answer depend on more of what is read"
        raise UserError(f"{rate:.0%} success with legal calls at random, below {RANDOM_SUCCESS:.0%} is wanted; {fix}")
    return f"at most {rate:.0%} success with legal calls"


def success_rate(episodes: list[Episode]) -> float:
    return fmean(episode.trajectory.success for episode in episodes)


def guess_fails(trial: Trial) -> str:
    found = ", ".join(f"{rate:.1%} success by {guess}" for guess, rate in trial.guesses.items())
    if max(trial.guesses.values(), default=0) >= GUESS_SUCCESS:
        raise UserError(f"{found}, below {GUESS_SUCCESS:.0%} is wanted; let instances and their answers differ more")
    return found or 'not measured: there is neither data["answer"] nor a scripted expert'
