"""The statistics of the study: intervals for a success rate, and paired differences with their p-value.

Everything random is seeded, so that equal data give equal figures. Successes are fractions from 0 to 1. It knows
nothing about arms or files; `tables` turns played episodes into what is asked for here.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm, t

BOOTSTRAP_DRAWS = 10_000
FLIP_DRAWS = 20_000
DRAWN_TASKS = 5  # from so many on, tasks are drawn anew, too; of fewer, an interval speaks of these tasks alone
EXACT_PAIRS = 16  # up to 2**16 sign patterns are counted one by one
TOLERANCE = 1e-9  # sums of fractions that are equal on paper may differ in the last bit
NAN = float("nan")

Interval = tuple[float, float]
Pair = tuple[str, str]  # (task, instance)
Scores = dict[Pair, dict[int, float]]  # -> training seed -> mean success over trials


@dataclass(frozen=True)
class Difference:
    """A paired difference a - b of mean success; everything is nan where there is no pair."""

    difference: float
    ci_low: float  # 95%, percentiles of a bootstrap over tasks, instances and, where an arm has several, training seeds
    ci_high: float
    p: float  # two-sided, sign flips over instances
    n_pairs: int
    # The true difference that a study of this size finds with 80% power at level 0.05, by the spread of the bootstrap;
    # nan where there is none.
    minimum_detectable: float


def wilson(successes: int, n: int, level: float = 0.95) -> Interval:
    """Wilson's score interval of a rate (Wilson 1927); (nan, nan) for n = 0."""
    if n == 0:
        return NAN, NAN
    z = float(norm.ppf(0.5 + level / 2))
    rate, scale = successes / n, 1 + z * z / n
    centre = (rate + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    return (centre - half if successes else 0.0), (centre + half if successes < n else 1.0)


def clustered_interval(
    values_by_instance: dict[Hashable, Sequence[int]], level: float = 0.95, draws: int = BOOTSTRAP_DRAWS, seed: int = 0
) -> Interval:
    """Interval of a rate when an instance was played several times: whole instances are drawn again.

    values_by_instance: instance -> its verdicts (0 or 1), any number of them; instances without any are left out.
    Where every verdict is the same, a bootstrap has no width; then it is Wilson's interval with n = instances.
    """
    groups = [values for values in values_by_instance.values() if len(values)]
    if not groups:
        return NAN, NAN
    sums, sizes = (np.array([measure(values) for values in groups], dtype=float) for measure in (sum, len))
    if sums.sum() in (0, sizes.sum()):
        return wilson(len(groups) if sums.sum() else 0, len(groups), level)
    drawn = np.random.default_rng(seed).integers(0, len(groups), (draws, len(groups)))
    rates = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    return _percentiles(rates, level)


def paired_difference(a: Scores, b: Scores, level: float = 0.95, seed: int = 0) -> Difference:
    """How much higher `a` scores than `b` on the instances that both played.

    Every instance weighs the same, and so does every training seed of an arm. What only one arm played is left out,
    and `n_pairs` says how many stayed. Where all pairs differ alike a bootstrap has no width; then the interval is Tango's.
    """
    keys = sorted(a.keys() & b.keys())
    if not keys:
        return Difference(NAN, NAN, NAN, NAN, 0, NAN)
    changes = np.array([_mean(a[key]) - _mean(b[key]) for key in keys], dtype=float)
    drawn = _bootstrap(keys, a, b, np.random.default_rng(seed))
    error = float(drawn.std())
    alike = error <= TOLERANCE and np.abs(changes).max() <= 1
    low, high = _tango(changes, level) if alike else _percentiles(drawn, level)
    detectable = (norm.ppf(0.975) + norm.ppf(0.8)) * error if error > TOLERANCE else NAN
    return Difference(float(changes.mean()), low, high, sign_flip_p(changes, seed), len(keys), float(detectable))


def t_interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """Student's interval of a mean, for a handful of values such as one per task; (nan, nan) for fewer than two."""
    if len(values) < 2:
        return NAN, NAN
    values = np.asarray(values, dtype=float)
    half = t.ppf(0.5 + level / 2, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values of a family, in the order given; nan stays nan and does not count (Holm 1979)."""
    order = sorted((p, place) for place, p in enumerate(ps) if not math.isnan(p))
    adjusted, least = [NAN] * len(ps), 0.0
    for rank, (p, place) in enumerate(order):
        least = max(least, min(1.0, (len(order) - rank) * p))
        adjusted[place] = least
    return adjusted


def sign_flip_p(changes: Sequence[float], seed: int = 0) -> float:
    """Two-sided p of a mean change of zero: the share of sign patterns whose sum is at least as far from 0.

    Exact for few changes other than zero, else from seeded draws with the observed pattern counted in.
    """
    changes = np.asarray(changes, dtype=float)
    moved = changes[np.abs(changes) > TOLERANCE]
    if not len(changes):
        return NAN
    if not len(moved):
        return 1.0
    exact = len(moved) <= EXACT_PAIRS
    sums = _all_flips(moved) if exact else _some_flips(moved, seed)
    extreme = np.count_nonzero(np.abs(sums) >= abs(moved.sum()) - TOLERANCE)
    return float(extreme / len(sums)) if exact else float((extreme + 1) / (len(sums) + 1))


def pass_hat_k(values_by_instance: dict[Hashable, Sequence[int]], k: int) -> float:
    """pass^k in tau-bench's convention (arXiv 2406.12045): the chance that k trials of an instance all succeed.

    Unbiased per instance, comb(c, k) / comb(n, k) for c successes in n trials, then the mean over instances; this is
    not pass@k, where one success is enough. Raises ValueError for an instance with fewer than k trials.
    """
    if k < 1 or any(len(values) < k for values in values_by_instance.values()):
        raise ValueError(f"pass^{k} needs k of 1 or more, and at least k trials of every instance")
    rates = [math.comb(int(sum(values)), k) / math.comb(len(values), k) for values in values_by_instance.values()]
    return sum(rates) / len(rates) if rates else NAN


def _mean(by_seed: dict[int, float]) -> float:
    return sum(by_seed.values()) / len(by_seed)


def _bootstrap(keys: list[Pair], a: Scores, b: Scores, rng: np.random.Generator) -> np.ndarray:
    """Mean differences when tasks, their instances, and the training seeds of both arms are drawn anew.

    Drawing with replacement is counting how often each one came: a product of counts and scores, task by task.
    """
    seeds = [_seed_weights(scores, keys, rng) for scores in (a, b)]
    sums, sizes = [], []
    for group in _groups(keys):
        counts = rng.multinomial(len(group), np.full(len(group), 1 / len(group)), BOOTSTRAP_DRAWS)
        means = [
            (counts @ _table(scores, group, names) * weights).sum(axis=1)
            for scores, (names, weights) in zip((a, b), seeds)
        ]
        sums.append(means[0] - means[1])
        sizes.append(len(group))
    sums, sizes = np.array(sums).T, np.array(sizes)
    tasks = np.ones_like(sums)
    if len(sizes) >= DRAWN_TASKS:
        tasks = rng.multinomial(len(sizes), np.full(len(sizes), 1 / len(sizes)), BOOTSTRAP_DRAWS)
    return (tasks * sums).sum(axis=1) / (tasks * sizes).sum(axis=1)


def _seed_weights(scores: Scores, keys: list[Pair], rng: np.random.Generator) -> tuple[list[int], np.ndarray]:
    """The seeds of an arm, and their shares in every draw, shape (draws, seeds)."""
    names = sorted({name for key in keys for name in scores[key]})
    return names, rng.multinomial(len(names), np.full(len(names), 1 / len(names)), BOOTSTRAP_DRAWS) / len(names)


def _table(scores: Scores, group: list[Pair], names: list[int]) -> np.ndarray:
    """Score by instance and seed; where a fault took one away, the instance's mean over the others."""
    return np.array([[scores[key].get(name, _mean(scores[key])) for name in names] for key in group])


def _groups(keys: list[Pair]) -> list[list[Pair]]:
    """The pairs by task; where there are few tasks, those of a single instance, which drawing leaves as it is, form one."""
    groups: dict[str, list[Pair]] = {}
    for key in keys:
        groups.setdefault(key[0], []).append(key)
    if len(groups) >= DRAWN_TASKS:
        return list(groups.values())
    lone = [group[0] for group in groups.values() if len(group) == 1]
    found = [group for group in groups.values() if len(group) > 1]
    return [*found, lone] if lone else found


def _tango(changes: np.ndarray, level: float) -> Interval:
    """Tango's score interval of a paired difference (1998), which has a width where all pairs differ alike."""
    n, gained, lost = len(changes), float(changes[changes > 0].sum()), float(-changes[changes < 0].sum())
    z, middle = float(norm.ppf(0.5 + level / 2)), (gained - lost) / n

    def beyond(difference: float, sign: int) -> float:
        linear = (2 * n - gained + lost) * difference - gained - lost
        root = math.sqrt(max(linear**2 + 8 * n * lost * difference * (1 - difference), 0.0))
        spread = n * (2 * (root - linear) / (4 * n) + difference * (1 - difference))
        return gained - lost - n * difference + sign * z * math.sqrt(max(spread, 0.0))

    low, high = middle - TOLERANCE, middle + TOLERANCE
    return (
        brentq(beyond, -1 + TOLERANCE, low, (-1,)) if low > -1 + TOLERANCE else -1.0,
        brentq(beyond, high, 1 - TOLERANCE, (1,)) if high < 1 - TOLERANCE else 1.0,
    )


def _percentiles(draws: np.ndarray, level: float) -> Interval:
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _all_flips(moved: np.ndarray) -> np.ndarray:
    patterns = np.arange(2 ** len(moved))[:, None] >> np.arange(len(moved)) & 1
    return (1 - 2 * patterns) @ moved


def _some_flips(moved: np.ndarray, seed: int) -> np.ndarray:
    signs = np.random.default_rng(seed).integers(0, 2, (FLIP_DRAWS, len(moved)), dtype=np.int8)
    return (1 - 2 * signs) @ moved
