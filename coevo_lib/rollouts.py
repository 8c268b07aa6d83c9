"""Many episodes at once: students through an engine, experts and random callers without one.

An episode is a plain function in a thread pool; its next turn goes out as soon as its last reply is
in, so the engine's batches stay full. Nothing is stored here: the reply cache makes a repeat free.
"""

import random
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from coevo_lib.agent import Episode, expert_text, play
from coevo_lib.calls import Call
from coevo_lib.engines.base import Engine
from coevo_lib.expert import Expert, has_script, play_expert
from coevo_lib.files import stable_seed
from coevo_lib.harness import Harness
from coevo_lib.task import Instance, Task

FAULT_RETRIES = 2
CHATS = 8  # episodes that a chat model plays at once


def roll_out(
    engine: Engine,
    jobs: Iterable[Callable[[], Episode]],
    *,
    temperature: float = 0.0,
    concurrency: int = 64,
    progress: Callable[[Iterable], Iterable] = iter,
) -> list[Episode]:
    """Plays every job's episode to its end; returns them in the order of the jobs.

    A job makes a fresh episode, because an infrastructure fault is retried from the start (rule 9).
    """
    with ThreadPoolExecutor(concurrency) as pool:
        futures = [pool.submit(_play_job, engine, job, temperature) for job in jobs]
        return [future.result() for future in progress(futures)]


def _play_job(engine: Engine, job: Callable[[], Episode], temperature: float) -> Episode:
    for _ in range(FAULT_RETRIES + 1):
        episode = job()
        play(engine, episode, temperature=temperature)
        if episode.trajectory.status != "fault":
            break
    return episode


def student_jobs(
    task: Task, instances: list[Instance], harness: Harness, max_turns: int, samples: Iterable[int] = (0,)
) -> list:
    """One job per instance and sample; another sample is played anew, an equal one may come from the cache."""

    def job(instance, sample):
        return lambda: Episode(task, instance, harness, max_turns=max_turns, sample=sample)

    return [job(instance, sample) for instance in instances for sample in samples]


def expert_episodes(
    expert: Expert, task: Task, instances: list[Instance], harness: Harness, max_turns: int
) -> list[Episode]:
    """The expert's episodes from an empty prefix."""
    episodes = [Episode(task, instance, harness, max_turns=max_turns) for instance in instances]
    with ThreadPoolExecutor(1 if has_script(task) else CHATS) as pool:
        list(pool.map(lambda episode: play_expert(expert, episode), episodes))
    return episodes


def random_episode(task: Task, instance: Instance, harness: Harness, max_turns: int, seed: int = 0) -> Episode:
    """A caller that picks random visible tools with arguments it has seen: rule 1's check of a harness."""
    rng = random.Random(stable_seed("random", seed, instance.key, harness.id))
    episode = Episode(task, instance, harness, max_turns=max_turns)
    while not episode.done:
        words = episode.past.text().replace(",", " ").replace("?", " ").replace(":", " ").split()
        listed = [str(i) for fact in episode.trajectory.facts if isinstance(fact.value, list) for i in fact.value]
        words = listed if listed and rng.random() < 0.7 else words
        name = rng.choice(episode.toolbox.visible)
        args = [_random_argument(rng, words, kind) for kind in episode.toolbox.signature(name).values()]
        episode.step(expert_text(Call(name, tuple(args)), harness))
    episode.trajectory.author = "random"
    return episode


def _random_argument(rng: random.Random, words: list[str], kind: type):
    numbers = [word for word in words if word.replace(".", "", 1).isdigit()] or ["1"]
    if kind is str:
        return "+".join(rng.choices(numbers, k=rng.randint(2, 6))) if rng.random() < 0.3 else rng.choice(words)
    return kind(float(rng.choice(numbers)))
