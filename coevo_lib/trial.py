"""A task on trial: what its checks look at, drawn and played once.

That is instances, calls with odd arguments, and the episodes of the scripted expert and of a caller that knows
nothing. What they prove about the task is said in `check_task`.
"""

import functools
import itertools
import random
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from coevo_lib.agent import Episode
from coevo_lib.calls import Call
from coevo_lib.errors import UserError
from coevo_lib.expert import ScriptedExpert, play_expert
from coevo_lib.files import stable_seed
from coevo_lib.harness import Harness
from coevo_lib.rollouts import random_episode
from coevo_lib.task import SPLITS, Instance, Task, ToolError, Verdict, World, load_task
from coevo_lib.toolbox import Toolbox
from coevo_lib.traces import Traces

MAX_TURNS, RANDOM_TURNS, DRAWS = 60, 16, 60
DIRECTNESS = (0.0, 0.5, 1.0)
JUNK = ("", " ", "zzz", "Zzz Zzz", "-1", "1/0", "a" * 500, "'\"\\", "\N{SNOWMAN}", 0, -1, 10**9, -1.5)


class Probe(NamedTuple):
    """One call with odd arguments: what went wrong where something did, and the tool's error where it refused."""

    call: Call
    wrong: str = ""
    error: str = ""


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
        settings = itertools.product(self.harnesses.values(), DIRECTNESS if self.has_expert else ())
        groups = [*(self.played(*setting) for setting in settings), *self.random_plays.values()]
        return [episode for group in groups for episode in group]

    @functools.cached_property
    def probes(self) -> list[Probe]:
        """Every tool with junk and with what the instance holds, twice over: most worlds are finished by then."""
        probes = []
        for instance in self.instances("train", 10):
            rng, words = random.Random(stable_seed("probe", instance.key)), [*leaves(instance.data)]
            world = self.task.world(instance.data)
            for name, kinds in [*self.tools.items()] * 2:
                for _ in range(5):
                    args = tuple(_odd_argument(rng, words, kind) for kind in kinds.values())
                    probes.append(_probe(world, Call(name, args)))
        return probes


def play_alone(task: Task, instance: Instance, harness: Harness, directness: float, expert: Task | None = None):
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
    """An exception and the place that it came from."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno}, in {place.name})"


def leaves(value) -> Iterator[str | float]:
    """Every text and number in nested data, keys of dicts included."""
    if isinstance(value, dict | list | tuple):
        for part in value.items() if isinstance(value, dict) else value:
            yield from leaves(part)
    elif value is not None:
        yield value


def _odd_argument(rng: random.Random, words: list, kind: type):
    """Something from the instance's own data, or junk."""
    source = JUNK if rng.random() < 0.5 else words
    fitting = [word for word in source if kind is str or isinstance(word, int | float)]
    return kind(rng.choice(fitting or [0]))


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
