"""The statistics of the study: intervals for a success rate, and paired differences with their p-value.

Everything random is seeded, so that equal data give equal figures. Successes are fractions from 0 to 1. It knows
nothing about arms or files; `tables` turns played episodes into what is asked for here.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

BOOTSTRAP_DRAWS = 10_000
FLIP_DRAWS = 20_000
EXACT_PAIRS = 16  # up to 2**16 sign patterns are counted one by one
TOLERANCE = 1e-9  # sums of fractions that are equal on paper may differ in the last bit
NAN = float("nan")

Interval = tuple[float, float]
Pair = tuple[str, str]


@dataclass(frozen=True)
class Difference:
    """A paired difference a - b of mean success; everything is nan where there is no pair."""

    difference: float
    ci_low: float  # 95%, percentiles of a bootstrap over instances within each task
    ci_high: float
    p: float  # two-sided, sign flips over instances
    n_pairs: int
    # The true difference that this many pairs find with 80% power at level 0.05; nan where no pair differs from the
    # others of its task, because there is no spread to estimate it from.
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


def paired_difference(a: dict[Pair, float], b: dict[Pair, float], level: float = 0.95, seed: int = 0) -> Difference:
    """How much higher `a` scores than `b` on the instances that both played.

    a, b: (task, instance) -> mean success over seeds and trials. Every instance weighs the same. What only one of
    them played is left out, and `n_pairs` says how many stayed.
    """
    keys = sorted(a.keys() & b.keys())
    if not keys:
        return Difference(NAN, NAN, NAN, NAN, 0, NAN)
    changes = np.array([a[key] - b[key] for key in keys], dtype=float)
    strata = _strata([task for task, _ in keys], changes)
    low, high = _bootstrap(strata, level, seed)
    error = _standard_error(strata)
    detectable = (norm.ppf(0.975) + norm.ppf(0.8)) * error if error > TOLERANCE else NAN
    return Difference(float(changes.mean()), low, high, sign_flip_p(changes, seed), len(keys), float(detectable))


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


def _strata(tasks: list[str], changes: np.ndarray) -> list[np.ndarray]:
    """The changes by task; tasks of a single instance, which cannot be drawn anew alone, form one stratum."""
    groups: dict[str, list[float]] = {}
    for task, change in zip(tasks, changes):
        groups.setdefault(task, []).append(change)
    lone = [group[0] for group in groups.values() if len(group) == 1]
    found = [np.array(group) for group in groups.values() if len(group) > 1]
    return [*found, np.array(lone)] if lone else found


def _bootstrap(strata: list[np.ndarray], level: float, seed: int) -> Interval:
    rng = np.random.default_rng(seed)
    total = np.zeros(BOOTSTRAP_DRAWS)
    for values in strata:
        total += values[rng.integers(0, len(values), (BOOTSTRAP_DRAWS, len(values)))].sum(axis=1)
    return _percentiles(total / sum(map(len, strata)), level)


def _standard_error(strata: list[np.ndarray]) -> float:
    if any(len(values) < 2 for values in strata):
        strata = [np.concatenate(strata)]
    n = sum(map(len, strata))
    return math.sqrt(sum(len(values) * values.var(ddof=1) for values in strata)) / n if n > 1 else NAN


def _percentiles(draws: np.ndarray, level: float) -> Interval:
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _all_flips(moved: np.ndarray) -> np.ndarray:
    patterns = np.arange(2 ** len(moved))[:, None] >> np.arange(len(moved)) & 1
    return (1 - 2 * patterns) @ moved


def _some_flips(moved: np.ndarray, seed: int) -> np.ndarray:
    signs = np.random.default_rng(seed).integers(0, 2, (FLIP_DRAWS, len(moved)), dtype=np.int8)
    return (1 - 2 * signs) @ moved
