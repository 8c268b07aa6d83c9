"""The verdicts of the tasks that end in a number alone: wrong ends are refused, right ones accepted by any route.

The tasks that also write have the same checks in their own files, on their side effects.
"""

import random
import re

import pytest

from coevo_lib.agent import Episode
from coevo_lib.arithmetic import evaluate, numbers_in
from coevo_lib.calls import Call, render_call
from coevo_lib.expert import ScriptedExpert
from coevo_lib.harness import Harness
from coevo_lib.rollouts import expert_episodes


@pytest.fixture(params=["attendance", "shopadmin"])
def task(request, tasks):
    return tasks[request.param]


def expert_calls(task, n=30):
    """(instance, the expert's calls) for instances of several templates."""
    instances = task.instances("train", n, diversity=8)
    episodes = expert_episodes(ScriptedExpert(directness=0.0), task, instances, Harness(), max_turns=40)
    return [(episode.instance, episode.trajectory.calls) for episode in episodes]


def ends_well(task, instance, calls):
    """Whether these calls, played until the episode is over, are a success."""
    episode = Episode(task, instance, Harness(), max_turns=60)
    for call in calls:
        if not episode.done:
            episode.step(render_call(call))
    return episode.trajectory.success


def damaged(calls, rng):
    """Call lists with one thing wrong: a term lost, doubled, changed or taken from elsewhere; the answer is off or missing."""
    *reads, calc, submit = calls
    head, body, tail = re.fullmatch(r"(\(?)(.*?)(\)/\d+)?", calc.args[0]).groups(default="")
    terms = body.split("+")
    place = rng.randrange(len(terms))
    for changed in ([*terms[:place], *terms[place + 1 :]], [*terms, terms[place]]):
        expression = f"{head}{'+'.join(changed)}{tail}"
        yield [*reads, Call("calc", (expression,)), Call("submit", (evaluate(expression),))]
    right = submit.args[0]
    for off in (right + 1, right - 1, right * 10, -right, numbers_in(terms[place])[0]):
        yield [*reads, calc, Call("submit", (off,))]
    yield [*reads, calc]
    yield [*reads, calc, Call("submit", (0,)), submit]


def other_routes(calls, rng):
    """Other ways to the same end: reads in another order or twice, an error between, no calculator, the number as text."""
    *reads, calc, submit = calls
    singles = [call for call in reads if call.args and call.tool == reads[-1].tool]
    before = [call for call in reads if call not in singles]
    mixed = rng.sample(singles, len(singles))
    yield [*before, *mixed, calc, submit]
    yield [*before, *singles, *mixed, submit]
    yield [*before, Call("nothing", ()), *singles, calc, calc, submit]
    yield [*before, *singles, Call("submit", (str(submit.args[0]),))]
    yield [submit]


def test_wrong_ends_are_refused(task):
    rng, refused = random.Random(1), 0
    for instance, calls in expert_calls(task):
        for attempt in damaged(calls, rng):
            if attempt[-1].args == calls[-1].args and attempt[-2].args != (0,):
                continue  # the damage made no difference to the number
            assert not ends_well(task, instance, attempt), attempt
            refused += 1
    assert refused >= 200


def test_right_ends_are_accepted_by_other_routes(task):
    rng, accepted = random.Random(2), 0
    for instance, calls in expert_calls(task):
        for attempt in other_routes(calls, rng):
            assert ends_well(task, instance, attempt), attempt
            accepted += 1
    assert accepted >= 50
