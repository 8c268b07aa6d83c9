"""Checks about one task what the study takes for granted: `python -m coevo_lib.check_task attendance`.

One line a check, then one instance as the student meets it and one trajectory of the expert. A check is a function of
a `Trial`: it returns what it found, or raises `Failed` with the reason and the fix. What a trained student makes of the
task is not checked here; `make room` measures that.
"""

import argparse
import contextlib
import copy
import functools
import hashlib
import itertools
import json
import os
import random
import re
import shutil
import string
import subprocess
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from coevo_lib.agent import Episode, expert_text, replay
from coevo_lib.arithmetic import ArithmeticSyntaxError, evaluate, numbers_in
from coevo_lib.calls import Call, render_call
from coevo_lib.errors import UserError
from coevo_lib.expert import ScriptedExpert, play_expert, view_of
from coevo_lib.files import stable_seed
from coevo_lib.harness import Harness, parse_harness
from coevo_lib.rollouts import random_episode
from coevo_lib.task import SPLITS, TASKS_DIR, Instance, Style, Task, ToolError, Verdict, load_task
from coevo_lib.toolbox import Toolbox, show_value
from coevo_lib.traces import Traces
from coevo_lib.trajectory import OK, Turn

MAX_TURNS, LONG = 60, 200
EXPERT_SUCCESS, RANDOM_SUCCESS, GUESS_SUCCESS = 0.93, 0.10, 0.05
DIRECTNESS = (0.0, 0.5, 1.0)
SIZES = (1, 2, 4)
CLOSE = 0.005
UNITS = (1, 7, 10, 12, 24, 60, 100, 1000)  # numbers that a sum may use without having been shown them
JUNK = {
    str: ("", " ", "zzz", "Zzz Zzz", "-1", "0", "1/0", "a" * 500, "'\"\\", "\N{SNOWMAN}"),
    int: (0, -1, 10**9),
    float: (0.0, -1.5, 1e9),
}
NO_EXPERT = "no scripted expert: expert and meta-agent must be chat models"


@dataclass(frozen=True)
class Check:
    name: str
    ok: bool
    detail: str


class Failed(Exception):
    """A check's reason to refuse the task, with the fix."""


@dataclass(frozen=True)
class Probe:
    """One call with odd arguments: what went wrong where something did, and the tool's error where it refused."""

    call: Call
    wrong: str = ""
    error: str = ""


class Trial:
    """A task being checked. What several checks look at is drawn and played once."""

    def __init__(self, name_or_path: str, instances: int):
        self.name, self.n = name_or_path, instances
        self.task = load_task(name_or_path)
        self.twin = load_task(name_or_path)  # never draws an instance and never meets a world
        self.tools = self.task.world.tools()
        self.has_expert = type(self.task).expert is not Task.expert
        self._played: dict[tuple[str, float], list[Episode]] = {}

    @functools.cached_property
    def drawn(self) -> dict[str, list[tuple[dict, dict]]]:
        """Template -> (goal, data) of 60 draws, of no split in particular."""
        return {
            name: [self._draw(random.Random(stable_seed("check", name, i)), name) for i in range(60)]
            for name in self.task.templates
        }

    def _draw(self, rng: random.Random, template: str) -> tuple[dict, dict]:
        made = self.task.draw(rng, self.task.size, template)
        if not (isinstance(made, tuple) and len(made) == 2 and all(isinstance(part, dict) for part in made)):
            raise Failed(f"draw gave {str(made)[:60]!r} for template {template}; return (goal, data), two dicts")
        return made

    def instances(self, split: str, n: int) -> list[Instance]:
        return self.task.instances(split, n, diversity=len(self.task.templates))

    @functools.cached_property
    def sample(self) -> list[Instance]:
        """Instances of every split, with every template among them."""
        n = max(self.n // len(SPLITS), len(self.task.templates))
        return [instance for split in SPLITS for instance in self.instances(split, n)]

    @functools.cached_property
    def pair(self) -> tuple[str, str] | None:
        """(first, each): a tool that lists items and a tool that takes one of them, learned from played episodes."""
        if self.has_expert:
            known = [episode.trajectory for episode in self.played("h0", 0.0)]
        else:
            known = [_legal_episode(self.task, instance, Harness()).trajectory for instance in self.sample]
        traces = Traces(known, [])
        others = {*traces.finishers, *traces.computers}
        return next((p for p in traces.pairs if len(self.tools[p[1]]) == 1 and p[1] not in others), None)

    @functools.cached_property
    def harnesses(self) -> dict[str, Harness]:
        """h0 and, where the task has a pair, a composite tool of it with its two base tools shown and hidden."""
        if self.pair is None:
            return {"h0": Harness()}
        first, each = self.pair
        composite = f'name = "{first}_and_{each}"\nfirst = "{first}"\neach = "{each}"\ndoc = "all at once"'
        shown = f"[[tools.composite]]\n{composite}"
        hidden = f'[tools]\nhide = ["{first}", "{each}"]\n{shown}'
        return {"h0": Harness(), "composite": parse_harness(shown), "hidden": parse_harness(hidden)}

    def played(self, name: str, directness: float) -> list[Episode]:
        """The expert's episodes on the sample."""
        if (name, directness) not in self._played:
            harness = Harness() if name == "h0" else self.harnesses[name]
            episodes = [expert_play(self.task, instance, harness, directness) for instance in self.sample]
            self._played[name, directness] = episodes
        return self._played[name, directness]

    def all_plays(self) -> Iterator[Episode]:
        """Every episode of the expert and of the random callers."""
        for name, directness in itertools.product(self.harnesses, DIRECTNESS if self.has_expert else ()):
            yield from self.played(name, directness)
        for episodes in self.random_plays.values():
            yield from episodes

    @functools.cached_property
    def random_plays(self) -> dict[tuple[str, str], list[Episode]]:
        """(caller, harness) -> episodes of two callers that know nothing."""
        instances = self.instances("select", self.n)
        plays = {}
        for name, harness in self.harnesses.items():
            plays["any call", name] = [random_episode(self.task, i, harness, max_turns=16) for i in instances]
            plays["legal calls", name] = [_legal_episode(self.task, i, harness) for i in instances]
        return plays

    @functools.cached_property
    def probes(self) -> list[Probe]:
        """Every tool with junk in fresh worlds, then 300 random calls in ten worlds that live on."""
        probes, instances = [], self.instances("train", 10)
        for name, kinds in self.tools.items():
            for args in itertools.islice(itertools.product(*(JUNK[kind] for kind in kinds.values())), 200):
                probes.append(_probe(self.task.world(copy.deepcopy(instances[0].data)), Call(name, args)))
        for instance in instances:
            rng = random.Random(stable_seed("probe", instance.key))
            world, words = self.task.world(copy.deepcopy(instance.data)), [*_leaves(instance.data)]
            for _ in range(30):
                name = rng.choice(list(self.tools))
                args = tuple(_odd_argument(rng, words, kind) for kind in self.tools[name].values())
                probes.append(_probe(world, Call(name, args)))
        return probes


def check(task: str, instances: int = 40) -> list[Check]:
    """All checks of the task of a name or file; later ones are left out where they rest on one that failed."""
    try:
        trial = Trial(str(task), instances)
        checks = [Check(LOADS, True, _protocol(trial))]
    except (UserError, Failed) as error:
        return [Check(LOADS, False, str(error))]
    except Exception as error:
        return [Check(LOADS, False, f"{task}: {_told(error)}; mend the file so that it can be imported")]
    for name, function in BASIC.items():
        checks.append(_carry_out(name, function, trial))
        if not checks[-1].ok:
            return checks
    for name, function in {**(EXPERT if trial.has_expert else {}), **ANY}.items():
        checks.append(_carry_out(name, function, trial))
    if not trial.has_expert:
        checks.append(Check("scripted expert", True, NO_EXPERT))
    return checks


def _carry_out(name: str, function: Callable[[Trial], str], trial: Trial) -> Check:
    try:
        return Check(name, True, function(trial))
    except Failed as failed:
        return Check(name, False, str(failed))
    except Exception as error:
        return Check(name, False, f"{_told(error)}; mend the task's code there")


def _told(error: Exception) -> str:
    """An exception with the place in the task's file, or wherever it came from."""
    trace, place = error.__traceback__, ""
    while trace:
        code = trace.tb_frame.f_code
        place = f" ({code.co_filename.rsplit(os.sep, 1)[-1]}, line {trace.tb_lineno}, in {code.co_name})"
        trace = trace.tb_next
    return f"{type(error).__name__}: {error}{place}"


# ---- the file, its templates and its instances


def _protocol(trial: Trial) -> str:
    for name in trial.tools:
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,59}", name):
            raise Failed(f"tool {name}: a harness cannot name it; use small letters, digits and _")
        if "\n" in getattr(trial.task.world, name).__doc__.strip():
            raise Failed(f"tool {name}: its docstring has several lines; students read one line a tool")
    return f"{type(trial.task).__name__} with the tools {', '.join(trial.tools)}"


def _templates(trial: Trial) -> str:
    for name, drawn in trial.drawn.items():
        text = trial.task.templates[name]["text"]
        try:
            fields = [
                re.split(r"[.\[]", field)[0] for _, field, _, _ in string.Formatter().parse(text) if field is not None
            ]
        except ValueError as error:
            raise Failed(f"templates.{name}: {error}; write braces only around a goal value") from None
        for goal, data in drawn:
            for field in fields:
                if field not in goal:
                    raise Failed(f"templates.{name}: draw gives no goal value {field!r}; it gives {', '.join(goal)}")
            text.format_map(goal)
            try:
                same = json.loads(json.dumps(data)) == data
            except (TypeError, ValueError):
                same = False
            if not same:
                raise Failed(
                    f"templates.{name}: the data of draw is not what JSON keeps; use dicts with text keys, lists, text and numbers"
                )
    held_out = sum(bool(template.get("test_only")) for template in trial.task.templates.values())
    return f"{len(trial.task.templates)}, of them {held_out} for test only"


def _variety(trial: Trial) -> str:
    """Without it, looking for an instance of a split might not end."""
    for name, drawn in trial.drawn.items():
        different = {json.dumps(data, sort_keys=True) for _, data in drawn}
        if len(different) < 0.9 * len(drawn):
            raise Failed(
                f"template {name}: {len(drawn)} draws give {len(different)} different instances; "
                "draw more of the data from rng, from larger pools"
            )
    return f"at least 90% of {len(drawn)} draws differ"


def _goal_is_shown(trial: Trial) -> str:
    """An expert is told the goal, so all of it has to follow from the prompt (rule 2)."""
    for name, drawn in trial.drawn.items():
        prompts = [trial.task.templates[name]["text"].format_map(goal) for goal, _ in drawn]
        keys = list(drawn[0][0])
        shown = [key for key in keys if all(_all_in(goal.get(key), p) for p, (goal, _) in zip(prompts, drawn))]
        for key in [key for key in keys if key not in shown]:
            values = defaultdict(set)
            for goal, _ in drawn:
                values[repr([goal.get(k) for k in shown])].add(repr(goal.get(key)))
            constant = len(set().union(*values.values())) == 1
            if not constant and (any(len(v) > 1 for v in values.values()) or len(values) > 0.8 * len(drawn)):
                raise Failed(
                    f"templates.{name}: goal value {key!r} is not in the prompt and does not follow from it, so an expert "
                    f"would know more than the student; put {{{key}}} into the text, or keep it in data only"
                )
    return "every goal value follows from the prompt"


def _all_in(value, text: str) -> bool:
    leaves = list(_leaves(value))
    return bool(leaves) and all(
        _occurs(str(leaf), text) or (not isinstance(leaf, str) and _among(leaf, numbers_in(text))) for leaf in leaves
    )


def _equal_everywhere(trial: Trial) -> str:
    here = instances_hash(trial.task)
    if instances_hash(load_task(trial.name)) != here:
        raise Failed(
            "loading the file twice gives different instances; draw everything from rng, keep nothing between draws"
        )
    code = (
        "import sys\nfrom coevo_lib.check_task import instances_hash\nfrom coevo_lib.task import load_task\n"
        "print(instances_hash(load_task(sys.argv[1])))"
    )
    known = {
        "PYTHONHASHSEED": "7",
        "PYTHONPATH": os.pathsep.join([str(TASKS_DIR.parents[1]), *filter(None, sys.path)]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-c", code, trial.name]
    ran = subprocess.run(command, env=os.environ | known, capture_output=True, text=True, timeout=300)
    if ran.stdout.strip() != here:
        last = ran.stderr.strip().split("\n")[-1]
        raise Failed(
            last or "another process draws different instances; do not draw from a set, from hash() or from a clock"
        )
    return "two loads and another process agree"


def instances_hash(task: Task) -> str:
    """A hash of some instances of every split."""
    rows = [task.instances(split, 8, diversity=len(task.templates)) for split in SPLITS]
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def _splits(trial: Trial) -> str:
    contents = {s: {json.dumps(i.data, sort_keys=True) for i in trial.instances(s, max(trial.n, 40))} for s in SPLITS}
    for one, other in itertools.combinations(SPLITS, 2):
        both = len(contents[one] & contents[other])
        if both:
            raise Failed(f"{one} and {other} share the data of {both} instances; do not override instances() of Task")
    return f"no data of {max(trial.n, 40)} instances a split is in another"


# ---- tools and worlds


def _never_raises(trial: Trial) -> str:
    wrong = next((probe for probe in trial.probes if probe.wrong), None)
    if wrong:
        raise Failed(f"{_short(wrong.call)}: {wrong.wrong}")
    return f"{len(trial.probes)} calls with odd arguments"


def _errors_teach(trial: Trial) -> str:
    refused = [probe for probe in trial.probes if probe.error]
    for probe in refused:
        kinds = trial.tools[probe.call.tool]
        if kinds and not re.match(rf"({'|'.join(kinds)})\b", probe.error):
            raise Failed(
                f"{_short(probe.call)}: the error {probe.error!r} does not begin with the argument; "
                f"raise ToolError('{next(iter(kinds))}: what is wrong with it')"
            )
        if "\n" in probe.error:
            raise Failed(f"{_short(probe.call)}: the error has several lines; write one")
    return f"{len(refused)} of those calls were refused"


def _probe(world, call: Call) -> Probe:
    """A call and the verdict after it; also a finished world is asked."""
    try:
        [fact] = Toolbox(world, Harness()).run(call)
        if not _plain(fact.value):
            return Probe(
                call, f"the answer {str(fact.value)[:60]!r} is not a text, a number or a list of these; return one"
            )
    except ToolError as error:
        return Probe(call, error=str(error))
    except Exception as error:
        return Probe(call, f"{_told(error)}; answer, or raise ToolError('argument: what is wrong with it')")
    try:
        verdict = world.verdict()
    except Exception as error:
        return Probe(call, f"then verdict() raises {_told(error)}")
    if not isinstance(verdict, Verdict) or not isinstance(verdict.success, bool):
        return Probe(call, f"then verdict() gives {verdict!r}; return Verdict(True or False, 'one sentence')")
    return Probe(call)


def _plain(value) -> bool:
    if isinstance(value, list):
        return all(_plain(item) and not isinstance(item, list) for item in value)
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _odd_argument(rng: random.Random, words: list, kind: type):
    """Something from the instance's own data, or junk."""
    fitting = [w for w in words if kind is str or isinstance(w, int | float)]
    if fitting and rng.random() < 0.6:
        return kind(rng.choice(fitting))
    return rng.choice(JUNK[kind]) if kind is str or rng.random() < 0.5 else kind(rng.randint(-3, 60))


def _short(call: Call) -> str:
    text = render_call(call)
    return text if len(text) <= 80 else text[:77] + "..."


def _leaves(value) -> Iterator:
    """Every text and number in nested data, keys of dicts included."""
    if isinstance(value, dict):
        value = itertools.chain(value.keys(), value.values())
    if isinstance(value, str | int | float):
        yield value
    elif value is not None:
        for part in value:
            yield from _leaves(part)


# ---- callers that know nothing


def _legal_episode(task: Task, instance: Instance, harness: Harness) -> Episode:
    """A stricter caller than the library's random one: its calls are accepted, on items and numbers that it was shown."""
    rng = random.Random(stable_seed("legal", instance.key, harness.id))
    episode = Episode(task, instance, harness, max_turns=16)
    while not episode.done:
        call = next((c for c in (_seen_call(rng, episode) for _ in range(12)) if _accepted(episode, c)), None)
        episode.step(expert_text(call or _seen_call(rng, episode), harness))
    episode.trajectory.author = "random"
    return episode


def _seen_call(rng: random.Random, episode: Episode) -> Call:
    name = rng.choice(episode.toolbox.visible)
    facts, text = episode.trajectory.facts, episode.past.text()
    listed = [str(item) for fact in facts if isinstance(fact.value, list) for item in fact.value]
    asked = [str(leaf) for leaf in _leaves(episode.instance.goal) if _occurs(str(leaf), text)]
    numbers = [f"{n:g}" for n in numbers_in(text)] or ["1"]
    words = listed + asked if (listed or asked) and rng.random() < 0.8 else re.findall(r"\w+", text)

    def argument(kind: type):
        if kind is str:
            return "+".join(rng.choices(numbers, k=rng.randint(2, 9))) if rng.random() < 0.2 else rng.choice(words)
        return kind(float(rng.choice([w for w in words if re.fullmatch(r"\d+", w)] or numbers)))

    return Call(name, tuple(argument(kind) for kind in episode.toolbox.signature(name).values()))


def _accepted(episode: Episode, call: Call) -> bool:
    try:
        Toolbox(_copied_world(episode), episode.harness).run(call)
    except ToolError:
        return False
    return True


def _copied_world(episode: Episode):
    try:
        return copy.deepcopy(episode.world)
    except Exception:  # it holds what has no copy, such as a data base
        world = episode.task.world(copy.deepcopy(episode.instance.data))
        for turn in episode.turns:
            with contextlib.suppress(ToolError):
                Toolbox(world, episode.harness).run(turn.call)
        return world


def _idle(trial: Trial) -> str:
    texts = [["I give up."] * 4, *([["submit(0)"]] if "submit" in trial.tools else [])]
    for instance in trial.sample:
        if trial.task.world(instance.data).verdict().success:
            raise Failed(f"{instance.key}: a fresh world is a success already; verdict() has to ask for something done")
        for reply in texts:
            if replay(trial.task, instance, Harness(), reply).trajectory.success:
                raise Failed(f"{instance.key}: {reply[0]!r} succeeds; verdict() has to ask for more")
    return f"{len(trial.sample)} instances"


def _random_fails(trial: Trial) -> str:
    worst = 0.0
    for (caller, name), episodes in trial.random_plays.items():
        rate = sum(episode.trajectory.success for episode in episodes) / len(episodes)
        if rate >= RANDOM_SUCCESS:
            raise Failed(
                f"{rate:.0%} success with {caller} at random ({_under(trial, name)}), at most {RANDOM_SUCCESS:.0%} is wanted; "
                "make the answer depend on more of what is read"
            )
        worst = max(worst, rate)
    return f"at most {worst:.0%} success, with any calls and with legal calls only"


def _guess_fails(trial: Trial) -> str:
    """The commonest answer of each template on `evolve`, handed in on `select`; and solutions of other instances."""
    found = []
    if all("answer" in i.data for i in trial.sample):
        n = 400
        answers = defaultdict(Counter)
        for instance in trial.instances("evolve", n):
            answers[instance.goal["template"]][json.dumps(instance.data["answer"])] += 1
        commonest = {template: counts.most_common(1)[0][0] for template, counts in answers.items()}
        right = [json.dumps(i.data["answer"]) == commonest[i.goal["template"]] for i in trial.instances("select", n)]
        rate = sum(right) / n
        if rate >= GUESS_SUCCESS:
            raise Failed(
                f"{rate:.1%} success by the commonest answer of each template, below {GUESS_SUCCESS:.0%} is wanted; "
                "widen the range of the answers"
            )
        found.append(f"the commonest answer is right in {rate:.1%}")
    if trial.has_expert:
        rate = _by_heart(trial)
        if rate >= GUESS_SUCCESS:
            raise Failed(
                f"{rate:.1%} success by the calls that solve another instance of the template, below {GUESS_SUCCESS:.0%} "
                "is wanted; let instances differ more"
            )
        found.append(f"another instance's solution in {rate:.1%}")
    return ", ".join(found) or 'not measured: there is neither data["answer"] nor a scripted expert'


def _by_heart(trial: Trial) -> float:
    groups = defaultdict(list)
    for episode in trial.played("h0", 1.0):
        if episode.trajectory.success:
            groups[episode.instance.goal["template"]].append(episode)
    right = []
    for group, step in itertools.product(groups.values(), (1, 2, 3)):
        for source, target in zip(group, group[step:]):
            texts = [turn.text for turn in source.turns]
            right.append(replay(trial.task, target.instance, Harness(), texts, max_turns=MAX_TURNS).trajectory.success)
    return sum(right) / len(right) if right else 0.0


def _reachable(trial: Trial) -> str:
    answered = {fact.call.tool for episode in trial.all_plays() for fact in episode.trajectory.facts}
    missing = [name for name in trial.tools if name not in answered]
    if missing:
        raise Failed(f"nobody gets an answer from {', '.join(missing)}; mend or remove what cannot be used")
    return f"all {len(trial.tools)} gave an answer"


def _replays(trial: Trial) -> str:
    n = max(trial.n, len(trial.task.templates))
    fresh = {instance.key: instance.data for split in SPLITS for instance in trial.instances(split, n)}
    episodes = list(trial.all_plays())
    for episode in episodes:
        instance, old = episode.instance, episode.trajectory
        if instance.data != fresh[instance.key]:
            raise Failed(f"{instance.key}: playing changed the instance's data; copy what a tool changes in start()")
        texts = [turn.text for turn in old.turns]
        new = replay(trial.task, instance, episode.harness, texts, max_turns=episode.max_turns).trajectory
        turn = next((i for i, pair in enumerate(zip(old.turns, new.turns), 1) if pair[0] != pair[1]), None)
        if turn:
            was, now = old.turns[turn - 1].observation, new.turns[turn - 1].observation
            raise Failed(
                f"{instance.key}, turn {turn}: {was[:50]!r} became {now[:50]!r}; worlds may use no chance and no clock"
            )
        if (old.success, old.status) != (new.success, new.status):
            raise Failed(
                f"{instance.key}: the verdict {old.feedback!r} became {new.feedback!r}; it has to follow from the calls"
            )
    return f"{len(episodes)} episodes repeat from their texts"


# ---- the scripted expert


def expert_play(
    task: Task,
    instance: Instance,
    harness: Harness,
    directness: float,
    expert: Task | None = None,
    max_turns: int = MAX_TURNS,
) -> Episode:
    """The expert's episode, from an empty prefix; what it raises stands in the trajectory's `error`."""
    episode = Episode(task, instance, harness, max_turns=max_turns)
    episode.task = expert or task
    try:
        play_expert(ScriptedExpert(directness=directness), episode)
    except Exception as error:
        episode.trajectory.error = _told(error)
    return episode


def _under(trial: Trial, name: str) -> str:
    if name == "h0" or trial.pair is None:
        return name
    return f"{trial.pair[0]}_and_{trial.pair[1]} {'shown' if name == 'composite' else 'in place of its tools'}"


def _solves(trial: Trial, name: str) -> str:
    if name not in trial.harnesses:
        return "does not apply: no tool lists items of which another tool takes one"
    rates = []
    for directness in DIRECTNESS:
        played = trial.played(name, directness)
        failed = [episode for episode in played if not episode.trajectory.success]
        rates.append(1 - len(failed) / len(played))
        if rates[-1] < EXPERT_SUCCESS:
            raise Failed(
                f"{rates[-1]:.0%} of {len(played)} at directness {directness:g} ({_under(trial, name)}), "
                f"{EXPERT_SUCCESS:.0%} is wanted; mend expert(): {_ending(failed[0])}"
            )
    shares = ", ".join(f"{rate:.0%}" for rate in rates)
    return f"{shares} at directness {', '.join(f'{d:g}' for d in DIRECTNESS)} ({_under(trial, name)})"


def _ending(episode: Episode) -> str:
    """Where an episode that failed came to its end."""
    last, trajectory = episode.turns[-1] if episode.turns else None, episode.trajectory
    turn = f"turn {len(episode.turns)}, {last.text[:60]} -> {last.observation[:60]}; " if last else "no turn; "
    end = trajectory.error or (trajectory.feedback if episode.done else "no next call")
    return f"{episode.instance.key}, {turn}{end}"


def _rule_two(trial: Trial) -> str:
    n = 0
    for name, directness in itertools.product(trial.harnesses, (0.0, 1.0)):
        for episode in trial.played(name, directness):
            for index, turn in enumerate(episode.turns):
                strange = strange_argument(episode, index)
                if strange is not None:
                    raise Failed(
                        f"{episode.instance.key}, turn {index + 1}, {turn.text[:60]} ({_under(trial, name)}): {strange!r} was neither "
                        "shown before nor follows from what was; an expert may use view.goal and view.facts only"
                    )
                n += len(turn.call.args)
    for directness in (0.0, 1.0):
        for episode in trial.played("h0", directness):
            blind = expert_play(trial.task, episode.instance, episode.harness, directness, trial.twin)
            if [turn.text for turn in blind.turns] != [turn.text for turn in episode.turns]:
                raise Failed(
                    f"{episode.instance.key}: an expert that met no world calls something else ({_ending(blind)}); "
                    "keep nothing of a draw or a world where expert() can read it"
                )
    return f"{n} arguments were shown before or follow from what was"


def _grows(trial: Trial) -> str:
    turns = {}
    for size in sorted({*SIZES, trial.task.size}):
        try:
            episodes = _at_size(trial.task, size)
        except Exception as error:
            raise Failed(
                f"size {size}: {error if isinstance(error, Failed) else _told(error)}; mend draw for this size"
            ) from None
        turns[size] = sum(len(episode.turns) for episode in episodes) / len(episodes)
    sizes = list(turns)
    for small, large in zip(sizes, sizes[1:]):
        if turns[small] >= turns[large]:
            raise Failed(
                f"{turns[large]:.1f} turns at size {large}, {turns[small]:.1f} at size {small}; "
                "let draw make more to read for a larger size"
            )
    listed = ", ".join(f"{turns[size]:.0f} at size {size}" for size in sizes)
    return f"turns step by step: {listed} (default {trial.task.size}); max_turns of a profile has to be above"


def _at_size(task: Task, size: int) -> list[Episode]:
    """The expert's episodes on a few instances of a size."""
    draws = [task.draw(random.Random(stable_seed("size", i)), size, next(iter(task.templates)))[1] for i in range(60)]
    if len({json.dumps(data, sort_keys=True) for data in draws}) < len(draws) / 3:
        raise Failed("most draws are equal")  # and the instances of a split might not be found
    episodes = [expert_play(task, i, Harness(), 0.0, max_turns=LONG) for i in task.instances("train", 3, size=size)]
    failed = next((episode for episode in episodes if not episode.trajectory.success), None)
    if failed:
        raise Failed(f"the expert fails: {_ending(failed)}")
    return episodes


# ---- rule 2: what a call may rest on


def strange_argument(episode: Episode, index: int) -> str | float | None:
    """The first argument of a turn that was neither shown before it nor follows from what was (rule 2)."""
    turn, shown = episode.turns[index], Shown(episode, index)
    for arg in turn.call.args if turn.call else ():
        known = shown.text_known(arg) if isinstance(arg, str) else shown.number_known(arg)
        if not known and (isinstance(arg, str) or not _worked_out(episode, index, arg)):
            return arg
    return None


class Shown:
    """What stands in the messages before a turn: the tools' descriptions, the prompt, the answers."""

    def __init__(self, episode: Episode, index: int):
        # A calculator's description shows a sum as an example; its numbers say nothing about the instance.
        docs = [line for line in episode.toolbox.describe().split("\n") if not line.startswith("calc(")]
        before = episode.turns[:index]
        self.text = "\n".join([*docs, episode.instance.prompt, *(turn.observation for turn in before)])
        self.words = {word.lower() for word in re.findall(r"[^\W\d]+", self.text)}
        self.numbers = numbers_in(self.text)
        self.facts = [fact for turn in before for fact in turn.facts]
        items = [item for fact in self.facts if isinstance(fact.value, list) for item in fact.value]
        self.most = max(len(items), len(self.facts), sum(len(numbers_in(show_value(f.value))) for f in self.facts))

    def text_known(self, arg: str) -> bool:
        """Strict: the whole text was shown, or each word and number in it was; a sum may also count and use units."""
        if _occurs(arg, self.text):
            return True
        numbers = numbers_in(arg)
        if numbers and re.fullmatch(r"[\d\s.+*/()-]+", arg):
            return all(self._told(number) or number in UNITS for number in numbers)
        words = re.findall(r"[^\W\d]+", arg)
        return bool(words or numbers) and all(w.lower() in self.words for w in words) and all(map(self._told, numbers))

    def number_known(self, arg: float) -> bool:
        """The number was shown, is a count of what was, or is a plain sum, average or product of it."""
        return self._told(abs(arg)) or any(abs(abs(arg) - value) < CLOSE for value in self._computed())

    def _told(self, number: float) -> bool:
        return _among(number, self.numbers) or (number == int(number) and 0 < number <= self.most)

    def _computed(self) -> Iterator[float]:
        told = sorted(set(self.numbers))
        for a, b in itertools.product(told, told):
            yield from (a + b, a - b, a * b, *([a / b] if b else []))
        for rows in self._tables():
            columns = list(zip(*rows))
            columns += [tuple(a * b for a, b in zip(x, y)) for x, y in itertools.combinations(columns, 2)]
            for column in columns:
                yield from (sum(column), sum(column) / len(column), max(column) - min(column))

    def _tables(self) -> Iterator[list[list[float]]]:
        """Answers that read alike, as rows of numbers: whole ones and their parts, all of a tool or those with a word."""
        tables = defaultdict(list)
        newest = {fact.call: show_value(fact.value) for fact in self.facts}
        for call, answer in newest.items():
            for text in {answer, *answer.split(", ")}:
                numbers = numbers_in(text)
                for word in {"", *re.findall(r"[^\W\d]+", text)} if numbers else ():
                    tables[call.tool, text == answer, word, len(numbers)].append(numbers)
        yield from tables.values()


def _worked_out(episode: Episode, index: int, number: float) -> bool:
    """Whether the same expert, step by step from here, reaches the number with nothing but sums of known numbers."""
    texts = [turn.text for turn in episode.turns[:index]]
    fork = replay(episode.task, episode.instance, episode.harness, texts, max_turns=episode.max_turns + 12)
    fork.trajectory.author = "expert"
    for _ in range(12):
        step = episode.task.expert(view_of(fork), Style())
        turn = fork.step(expert_text(step[0], episode.harness)) if step and not fork.done else None
        if turn is None or not _is_sum(turn) or strange_argument(fork, len(fork.turns) - 1) is not None:
            return False
        if abs(turn.facts[0].value - number) < CLOSE:
            return True
    return False


def _is_sum(turn: Turn) -> bool:
    """A calculator at work: one text goes in, its value comes out."""
    if turn.status != OK or len(turn.facts) != 1 or not isinstance(turn.facts[0].value, int | float):
        return False
    try:
        return [evaluate(arg) for arg in turn.call.args] == [turn.facts[0].value]
    except (ArithmeticSyntaxError, TypeError):
        return False


def _occurs(phrase: str, text: str) -> bool:
    return bool(phrase.strip()) and bool(re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text, re.I))


def _among(number: float, numbers: list[float]) -> bool:
    return any(abs(number - other) < CLOSE for other in numbers)


LOADS = "the file loads and keeps the protocol"
BASIC = {
    "every template renders": _templates,
    "draws vary": _variety,
    "instances are the same everywhere": _equal_everywhere,
    "splits are disjoint": _splits,
    "the world never raises": _never_raises,
}
EXPERT = {
    "the goal stands in the prompt": _goal_is_shown,
    "the expert solves it": functools.partial(_solves, name="h0"),
    "the expert solves it with a composite": functools.partial(_solves, name="composite"),
    "the expert solves it with base tools hidden": functools.partial(_solves, name="hidden"),
    "the expert is not clairvoyant": _rule_two,
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
    episode = Episode(task, instance, Harness(), max_turns=MAX_TURNS)
    episode.trajectory.author = "expert"
    lines = [f"One instance, {instance.key}, as the student sees it under h0", ""]
    lines += [_wrapped(episode.system, "  system  "), _wrapped(instance.prompt, "  user    "), ""]
    if type(task).expert is Task.expert:
        return "\n".join([*lines, NO_EXPERT])
    lines.append("The expert's trajectory, step by step")
    expert = ScriptedExpert(directness=0.0)
    while not episode.done and (step := expert.next(episode)):
        turn = episode.step(expert_text(step[0], episode.harness))
        lines += ["", _wrapped(turn.text, f"  {len(episode.turns):>4}  "), _wrapped(step[1], "        why: ")]
        lines.append(_wrapped(turn.observation, "        -> "))
        if turn.status != OK:
            break
    trajectory = episode.trajectory
    end = f"{trajectory.status}: {trajectory.feedback}" if episode.done else "the expert knows no next call"
    return "\n".join(
        [*lines, "", f"  {len(episode.turns)} turns, {'success' if trajectory.success else 'failure'}, {end}"]
    )


def _wrapped(text: str, head: str) -> str:
    """Text within the terminal's width; its own lines and its further ones stand under the first."""
    width = min(max(shutil.get_terminal_size((100, 24)).columns, 80), 120)
    rest = " " * len(head)
    parts = [textwrap.wrap(line, width - len(head)) or [""] for line in text.split("\n")]
    lines = list(itertools.chain.from_iterable(parts))
    return "\n".join([head + lines[0], *(rest + line for line in lines[1:])])


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m coevo_lib.check_task", description=__doc__.splitlines()[0])
    parser.add_argument("task", help="name of a task under coevo_lib/tasks, or the path of a .py file")
    parser.add_argument("--instances", type=int, default=40, help="how many are played, at least 5")
    arguments = parser.parse_args(words)
    checks = check(arguments.task, max(arguments.instances, 5))
    print(report(checks))
    ok = all(check.ok for check in checks)
    if len(checks) > len(BASIC) + 1:  # those that the other checks rest on have passed
        try:
            print("", show(load_task(arguments.task)), sep="\n")
        except Exception as error:
            print(f"\nno trajectory to show: {_told(error)}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
