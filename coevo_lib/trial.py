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
import string
import subprocess
import sys
import traceback
from collections import Counter, defaultdict
from pathlib import Path
from statistics import fmean

from coevo_lib.agent import Episode, expert_text, replay
from coevo_lib.arithmetic import numbers_in
from coevo_lib.calls import Call
from coevo_lib.errors import UserError
from coevo_lib.expert import ScriptedExpert, play_expert
from coevo_lib.files import sha256_text, stable_seed
from coevo_lib.harness import Harness
from coevo_lib.task import SPLITS, TASKS_DIR, Instance, Task, ToolError, Verdict, World, load_task
from coevo_lib.toolbox import Toolbox
from coevo_lib.traces import Traces
from coevo_lib.trajectory import ERROR

MAX_TURNS, RANDOM_TURNS, TRIES, DRAWS, GUESSES = 60, 16, 400, 60, 400
DIRECTNESS = (0.0, 1.0)  # anything between is a mixture of these two
JUNK = ("", " ", "zzz", "Zzz Zzz", "-1", "1/0", "a" * 500, "'\"\\", "\N{SNOWMAN}")


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
            text, known = self.task.templates[template]["text"], dict(goal)
            if strange := [
                name for _, name, *_ in string.Formatter().parse(text) if name is not None and name not in known
            ]:
                raise UserError(
                    f"the text has {{{strange[0]}}}, but the goal of draw has {', '.join(known) or 'nothing'}"
                )
            prompt = text.format_map(known)
        except Exception as error:
            fix = "draw has to return (goal, data), and braces in a text may hold goal values only"
            if isinstance(error, KeyError):
                fix = f"nothing is called {error}: a key that the template lacks"
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
    def random_plays(self) -> list[list[Episode]]:
        """The episodes of a caller that knows nothing, under each harness."""
        instances = self.instances("select", self.n)
        return [[_random_play(self.task, i, harness) for i in instances] for harness in self.harnesses.values()]

    @functools.cached_property
    def all_plays(self) -> list[Episode]:
        """Every episode of the expert and of the random caller."""
        experts = [self.played(*setting) for setting in itertools.product(self.harnesses.values(), DIRECTNESS)]
        return [episode for episodes in [*experts, *self.random_plays] for episode in episodes]

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
            answers[_template(instance)][repr(instance.data["answer"])] += 1
        commonest = {template: counts.most_common(1)[0][0] for template, counts in answers.items()}
        asked = self.instances("select", GUESSES)
        return fmean(repr(i.data["answer"]) == commonest[_template(i)] for i in asked)

    def _by_heart(self) -> float:
        solved = [episode for episode in self.played(Harness(), 1.0) if episode.trajectory.success]
        pairs = [(a, b) for a, b in itertools.permutations(solved, 2) if _template(a.instance) == _template(b.instance)]
        right = []
        for known, other in random.Random(0).sample(pairs, min(len(pairs), GUESSES)):
            texts = [turn.text for turn in known.turns]
            right.append(replay(self.task, other.instance, Harness(), texts, max_turns=MAX_TURNS).trajectory.success)
        return fmean(right) if right else 0.0

    @functools.cached_property
    def probes(self) -> list[tuple[Call, str, str]]:
        """Calls with junk or with what the instance holds; what went wrong, and the tool's error where it refused."""
        probes = []
        for instance in self.instances("train", 10):
            rng, world = random.Random(stable_seed("probe", instance.key)), self.task.world(instance.data)
            data = json.dumps(instance.data, ensure_ascii=False)
            words = [*re.findall(r'"([^"]*)"', data), *JUNK, *JUNK]
            for name, kinds in [*self.tools.items()] * 2:  # the second time most worlds are finished
                for _ in range(5):
                    args = _random_arguments(rng, kinds, words, [*numbers_in(data), 0, -1.5, 1e9])
                    probes.append((Call(name, args), *_tried(world, Call(name, args))))
        return probes


def play_alone(task: Task, instance: Instance, harness: Harness, directness: float, expert: Task | None = None):
    """The expert's episode from an empty prefix; `feedback` says why it broke off. Another task may be the expert."""
    episode = Episode(task, instance, harness, max_turns=MAX_TURNS)
    episode.task = expert or task
    try:
        play_expert(ScriptedExpert(directness=directness), episode)
        reason = "no next call"
    except Exception as error:
        reason = told(error)
    if not episode.done:
        episode.trajectory.feedback = reason
    return episode


def _template(instance: Instance) -> str:
    return instance.goal["template"]


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


def _random_play(task: Task, instance: Instance, harness: Harness) -> Episode:
    """Rule 1's caller of random legal calls, with what it was shown; a call that is refused is taken back."""
    rng, name = random.Random(stable_seed("random", instance.key, harness.id)), ""
    episode = Episode(task, instance, harness, max_turns=RANDOM_TURNS)
    for _ in range(TRIES):
        if episode.done:
            break
        lists = [fact.value for fact in episode.trajectory.facts if isinstance(fact.value, list)]
        text, items = episode.past.text(), [str(item) for items in lists for item in items]
        known = items + [str(value) for value in instance.goal.values() if str(value) in text]
        words = known if known and rng.random() < 0.8 else re.findall(r"\w+", text)
        name = name or rng.choice(episode.toolbox.visible)
        args = _random_arguments(rng, episode.toolbox.signature(name), words, numbers_in(text) or [1])
        turn = episode.step(expert_text(Call(name, args), harness))
        if turn.status == ERROR:
            episode.turns.pop()
        if turn.status != ERROR or rng.random() < 0.1:
            name = ""
    return episode


def _random_arguments(rng: random.Random, kinds: dict[str, type], words: list[str], numbers: list[float]) -> tuple:
    """One of the words, or a sum, for a text."""
    sums = ["+".join(f"{n:g}" for n in rng.choices(numbers, k=rng.randint(2, 9))) for _ in kinds]
    texts = [total if rng.random() < 0.2 else rng.choice(words) for total in sums]
    return tuple(text if kind is str else kind(rng.choice(numbers)) for text, kind in zip(texts, kinds.values()))


def _tried(world: World, call: Call) -> tuple[str, str]:
    """What went wrong in a call or the verdict after it, and the tool's error where it refused."""
    try:
        [fact] = Toolbox(world, Harness()).run(call)
        verdict = world.verdict()
    except ToolError as error:
        return "", str(error)
    except Exception as error:
        return f"{told(error)}; answer, or raise ToolError('argument: what is wrong with it')", ""
    if {type(item) for item in (fact.value if isinstance(fact.value, list) else [fact.value])} - {str, int, float}:
        return f"the answer {str(fact.value)[:60]!r} is not a text, a number or a list of these; return one", ""
    if not isinstance(verdict, Verdict) or not isinstance(verdict.success, bool):
        return f"then verdict() gives {verdict!r}; return Verdict(True or False, 'one sentence')", ""
    return "", ""
