"""A task on trial: what its checks look at, drawn and played once.

That is instances, calls with odd arguments, and the episodes of the scripted expert and of a caller that knows
nothing. What they prove about the task is said in `check_task` and `grounding`.
"""

import functools
import itertools
import json
import os
import random
import re
import subprocess
import sys
import traceback
from collections import Counter, defaultdict
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from coevo_lib.agent import Episode, replay
from coevo_lib.arithmetic import numbers_in
from coevo_lib.calls import Call, render_call
from coevo_lib.errors import UserError
from coevo_lib.expert import ScriptedExpert, play_expert
from coevo_lib.files import sha256_text, stable_seed
from coevo_lib.harness import Harness
from coevo_lib.rollouts import random_episode
from coevo_lib.task import SPLITS, TASKS_DIR, Instance, Task, ToolError, Verdict, World, load_task
from coevo_lib.toolbox import Toolbox
from coevo_lib.traces import Traces

MAX_TURNS, RANDOM_TURNS, DRAWS, GUESSES = 60, 16, 60, 400
DIRECTNESS = (0.0, 1.0)  # anything between is a mixture of these two
JUNK = ("", " ", "zzz", "Zzz Zzz", "-1", "1/0", "a" * 500, "'\"\\", "\N{SNOWMAN}")


class Probe(NamedTuple):
    """One call with odd arguments: what went wrong where something did, and the tool's error where it refused."""

    call: Call
    wrong: str = ""
    error: str = ""

    def __str__(self) -> str:
        return render_call(self.call)[:80]


class Trial:
    """A task being checked."""

    def __init__(self, name_or_path: str, instances: int):
        self.name, self.task = name_or_path, load_task(name_or_path)
        self.tools = self.task.world.tools()
        self.has_expert = type(self.task).expert is not Task.expert
        # Enough instances of a split for a share to mean something, and for every template.
        self.n = max(instances, 20, len(self.task.templates))
        self._played: dict[tuple[str, float], list[Episode]] = {}

    def instances(self, split: str, n: int) -> list[Instance]:
        return self.task.instances(split, n, diversity=len(self.task.templates))

    @functools.cached_property
    def sample(self) -> list[Instance]:
        """Instances of every split, with every template among them."""
        n = max(self.n // len(SPLITS), len(self.task.templates))
        return [instance for split in SPLITS for instance in self.instances(split, n)]

    @functools.cached_property
    def drawn(self) -> dict[str, list[Instance]]:
        """Template -> draws of it, of no split in particular."""
        size = self.task.size
        return {name: [self.draw(name, size, i) for i in range(DRAWS)] for name in self.task.templates}

    def draw(self, template: str, size: int, index: int) -> Instance:
        """One draw as an instance, without the search for one of a split, which might not end."""
        try:
            goal, data = self.task.draw(random.Random(stable_seed("check", template, size, index)), size, template)
            prompt = self.task.templates[template]["text"].format_map(goal)
        except Exception as error:
            fix = "draw has to return (goal, data), and braces in a text may hold goal values only"
            raise UserError(f"templates.{template} at size {size}: {told(error)}; {fix}") from None
        key = f"{self.task.name}/size {size}/{index:04d}"
        return Instance(key, self.task.name, "train", prompt, {**goal, "template": template}, data)

    @functools.cached_property
    def harnesses(self) -> dict[str, Harness]:
        """h0 and, where one tool lists items of which another takes one, their composite beside and instead of them."""
        traces = Traces([episode.trajectory for episode in self.played(Harness(), 0.0)], [])
        others = {*traces.finishers, *traces.computers}
        pairs = [pair for pair in traces.pairs if len(self.tools[pair[1]]) == 1 and pair[1] not in others]
        harnesses = {"h0": Harness()}
        for first, each in pairs[:1]:
            composite = {"name": f"{first}_and_{each}", "first": first, "each": each, "doc": "all at once"}
            for place, hide in (("shown", []), ("in place of its tools", [first, each])):
                tools = {"composite": [composite], "hide": hide}
                harnesses[f"{composite['name']} {place}"] = Harness.model_validate({"tools": tools})
        return harnesses

    def played(self, harness: Harness, directness: float) -> list[Episode]:
        """The expert's episodes on the sample."""
        key = harness.id, directness
        if key not in self._played:
            self._played[key] = [play_alone(self.task, instance, harness, directness) for instance in self.sample]
        return self._played[key]

    @functools.cached_property
    def random_plays(self) -> dict[str, list[Episode]]:
        """Name of a harness -> the episodes under it of a caller that knows nothing."""
        instances = self.instances("select", self.n)
        return {
            label: [random_episode(self.task, instance, harness, RANDOM_TURNS) for instance in instances]
            for label, harness in self.harnesses.items()
        }

    @functools.cached_property
    def all_plays(self) -> list[Episode]:
        """Every episode of the expert and of the random caller."""
        experts = [self.played(*setting) for setting in itertools.product(self.harnesses.values(), DIRECTNESS)]
        return [episode for episodes in [*experts, *self.random_plays.values()] for episode in episodes]

    @functools.cached_property
    def guesses(self) -> dict[str, float]:
        """What could be known before an instance is read -> the share that it solves."""
        rates = {}
        if all("answer" in instance.data for instance in self.sample):
            rates["the commonest answer of the template"] = self._commonest()
        if self.has_expert:
            rates["the calls that solve another instance of the template"] = self._by_heart()
        return rates

    def _commonest(self) -> float:
        """Success of the commonest answers on `evolve`, handed in on `select`."""
        answers = defaultdict(Counter)
        for instance in self.instances("evolve", GUESSES):
            answers[instance.goal["template"]][repr(instance.data["answer"])] += 1
        commonest = {template: counts.most_common(1)[0][0] for template, counts in answers.items()}
        asked = self.instances("select", GUESSES)
        return fmean(repr(i.data["answer"]) == commonest[i.goal["template"]] for i in asked)

    def _by_heart(self) -> float:
        solved = [episode for episode in self.played(Harness(), 1.0) if episode.trajectory.success]
        pairs = [
            pair for pair in itertools.permutations(solved, 2) if len({e.instance.goal["template"] for e in pair}) == 1
        ]
        right = []
        for known, other in random.Random(0).sample(pairs, min(len(pairs), GUESSES)):
            texts = [turn.text for turn in known.turns]
            right.append(replay(self.task, other.instance, Harness(), texts, max_turns=MAX_TURNS).trajectory.success)
        return fmean(right) if right else 0.0

    @functools.cached_property
    def probes(self) -> list[Probe]:
        """Every tool with junk and with what the instance holds, twice over: most worlds are finished by then."""
        probes = []
        for instance in self.instances("train", 10):
            rng, world = random.Random(stable_seed("probe", instance.key)), self.task.world(instance.data)
            words = [word.strip('"') for word in re.findall(r'"[^"]*"|[\d.]+', json.dumps(instance.data))]
            for name, kinds in [*self.tools.items()] * 2:
                for _ in range(5):
                    args = tuple(_odd_argument(rng, words, kind) for kind in kinds.values())
                    probes.append(_probe(world, Call(name, args)))
        return probes


def play_alone(
    task: Task, instance: Instance, harness: Harness, directness: float, expert: Task | None = None
) -> Episode:
    """The expert's episode from an empty prefix; what it raises stands in the trajectory's `error`.

    expert: a task that gives the calls without having met the instance or the world.
    """
    episode = Episode(task, instance, harness, max_turns=MAX_TURNS)
    episode.task = expert or task
    try:
        play_expert(ScriptedExpert(directness=directness), episode)
    except Exception as error:
        episode.trajectory.error = told(error)
    return episode


def told(error: Exception) -> str:
    """What a person can mend, or an exception and the place that it came from."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}, line {place.lineno}, in {place.name}"
    return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error} ({where})"


def instances_hash(task: Task) -> str:
    """A hash of some instances of every split."""
    return sha256_text(repr([task.instances(split, 8, diversity=len(task.templates)) for split in SPLITS]))


def hash_elsewhere(task: Task) -> str:
    """The same in another process, where sets have another order."""
    code = "import sys, coevo_lib.trial as t; print(t.instances_hash(t.load_task(sys.argv[1])))"
    command, env = [sys.executable, "-c", code, str(task.file.resolve())], os.environ | {"PYTHONHASHSEED": "7"}
    return subprocess.check_output(command, env=env, cwd=TASKS_DIR.parents[1], text=True).strip()


def _odd_argument(rng: random.Random, words: list[str], kind: type):
    """Something from the instance's own data, or junk."""
    word = rng.choice(rng.choice([JUNK, words or JUNK]))
    return word if kind is str else kind(rng.choice([*numbers_in(word), 0, -1.5, 1e9]))


def _probe(world: World, call: Call) -> Probe:
    """A call and the verdict after it."""
    try:
        [fact] = Toolbox(world, Harness()).run(call)
        verdict = world.verdict()
    except ToolError as error:
        return Probe(call, error=str(error))
    except Exception as error:
        return Probe(call, f"{told(error)}; answer, or raise ToolError('argument: what is wrong with it')")
    if {type(item) for item in (fact.value if isinstance(fact.value, list) else [fact.value])} - {str, int, float}:
        return Probe(
            call, f"the answer {str(fact.value)[:60]!r} is not a text, a number or a list of these; return one"
        )
    if not isinstance(verdict, Verdict) or not isinstance(verdict.success, bool):
        return Probe(call, f"then verdict() gives {verdict!r}; return Verdict(True or False, 'one sentence')")
    return Probe(call)
