"""The statistics give known values, and say nan or 1 where there is nothing to say."""

import math

import pytest

from coevo_lib import paper
from coevo_lib.stats import clustered_interval, holm, paired_difference, pass_hat_k, sign_flip_p, t_interval, wilson


def difference(a, b):
    """The paired difference of arms with one training seed: (task, instance) -> score."""
    return paired_difference(*({key: {0: value} for key, value in scores.items()} for scores in (a, b)))


def test_wilson_gives_the_textbook_interval():
    assert wilson(50, 100) == pytest.approx((0.404, 0.596), abs=5e-4)
    assert wilson(0, 10) == pytest.approx((0.0, 0.278), abs=5e-4)
    assert wilson(10, 10)[1] == 1.0
    assert all(math.isnan(bound) for bound in wilson(0, 0))


def test_wider_confidence_gives_a_wider_interval():
    low, high = wilson(30, 60, level=0.99)
    assert low < wilson(30, 60)[0] and high > wilson(30, 60)[1]


def test_clusters_of_one_verdict_come_close_to_wilson():
    values = {i: [int(i < 60)] for i in range(120)}
    assert clustered_interval(values) == pytest.approx(wilson(60, 120), abs=0.01)


def test_repeating_an_instance_adds_no_certainty_when_its_trials_agree():
    once = clustered_interval({i: [int(i < 30)] for i in range(60)})
    thrice = clustered_interval({i: [int(i < 30)] * 3 for i in range(60)})
    assert thrice == pytest.approx(once)


def test_a_cluster_interval_never_claims_certainty():
    assert clustered_interval({i: [1, 1] for i in range(10)}) == wilson(10, 10)
    assert clustered_interval({i: [0, 0] for i in range(10)}) == wilson(0, 10)
    assert all(math.isnan(bound) for bound in clustered_interval({}))


@pytest.mark.parametrize(("arm", "p"), [("imit_hstar", 0.015625), ("corr_hstar", 0.0625)])
def test_the_papers_seven_tasks_give_their_known_p(arm, p):
    changes = {(task, "mean"): figure.value for task, figure in paper.CHANGE[arm].items()}
    result = difference(changes, dict.fromkeys(changes, 0.0))
    assert result.p == pytest.approx(p)
    assert result.n_pairs == 7
    assert result.difference == pytest.approx(sum(changes.values()) / 7)
    assert result.ci_low < result.difference < result.ci_high


def test_many_pairs_agree_with_the_exact_count():
    few = [1.0] * 12 + [-1.0] * 4
    many = [1.0] * 13 + [-1.0] * 4
    exact = sum(math.comb(17, k) for k in range(5)) * 2 / 2**17
    assert sign_flip_p(few) == pytest.approx(sum(math.comb(16, k) for k in range(5)) * 2 / 2**16)
    assert sign_flip_p(many) == pytest.approx(exact, abs=0.005)
    assert sign_flip_p(many) == sign_flip_p(many)


def test_pairs_that_never_move_carry_no_weight_in_the_p():
    assert sign_flip_p([1.0] * 5 + [0.0] * 500) == pytest.approx(2 / 2**5)
    assert sign_flip_p([0.0] * 9) == 1.0
    assert math.isnan(sign_flip_p([]))


def test_only_instances_that_both_played_are_compared():
    a = {("t", "1"): 1.0, ("t", "2"): 1.0, ("t", "3"): 0.0}
    b = {("t", "2"): 0.0, ("t", "3"): 0.0, ("t", "4"): 1.0}
    result = difference(a, b)
    assert (result.n_pairs, result.difference) == (2, 0.5)


def test_nothing_in_common_is_no_result():
    result = difference({("t", "1"): 1.0}, {("t", "2"): 1.0})
    assert result.n_pairs == 0
    assert all(math.isnan(v) for v in (result.difference, result.ci_low, result.p, result.minimum_detectable))


def test_equal_arms_differ_by_exactly_zero():
    same = {("t", str(i)): float(i % 2) for i in range(20)}
    result = difference(same, same)
    assert (result.difference, result.p) == (0.0, 1.0)
    # Of 20 pairs none differs: no more than z^2 / (n + z^2) can, by Tango's score interval.
    assert (result.ci_low, result.ci_high) == pytest.approx((-0.1611, 0.1611), abs=1e-4)


def test_an_interval_of_pairs_that_all_differ_alike_has_a_width():
    """It ends where Tango's score statistic for 40 pairs that all changed is 1.96."""
    ones, zeros = ({("t", str(i)): value for i in range(40)} for value in (1.0, 0.0))
    result = difference(ones, zeros)
    assert (result.ci_low, result.ci_high) == pytest.approx((0.8248, 1.0), abs=1e-4)
    assert difference(zeros, ones).ci_low == -1.0 and math.isnan(result.minimum_detectable)


@pytest.mark.parametrize("gains", [{"one": 0.0}, {"one": 1.0}, {"one": 0.1}, {"one": 0.3, "two": -0.1}])
def test_nothing_is_detectable_where_no_pair_differs_from_the_others_of_its_task(gains):
    a = {(task, str(i)): 0.1 * (i % 3) + gain for task, gain in gains.items() for i in range(20)}
    result = difference(a, {(task, i): a[task, i] - gains[task] for task, i in a})
    assert result.difference == pytest.approx(sum(gains.values()) / len(gains))
    assert math.isnan(result.minimum_detectable)


def test_differences_between_tasks_do_not_widen_the_interval():
    def width(one, two):
        a = {(task, str(i)): gain for task, gain in (("one", one), ("two", two)) for i in range(30)}
        result = difference(a, dict.fromkeys(a, 0.0))
        return result.ci_high - result.ci_low

    assert width(0.9, 0.1) == pytest.approx(width(0.5, 0.5), abs=1e-6)


def test_minimum_detectable_shrinks_with_the_root_of_the_pairs():
    def detectable(n):
        return difference({("t", str(i)): i % 2 for i in range(n)}, {("t", str(i)): 0 for i in range(n)})

    small, large = detectable(100).minimum_detectable, detectable(400).minimum_detectable
    assert small == pytest.approx(2.8 * 0.5 / 10, rel=0.03)
    assert small / large == pytest.approx(2, rel=0.03)


def test_with_five_tasks_or_more_the_interval_speaks_of_other_tasks_too():
    gains = dict(zip("abcdefg", (0.9, 0.1, 0.5, 0.0, 0.3, 0.7, 0.2)))
    made = {(task, str(i)): gain for task, gain in gains.items() for i in range(30)}
    result = difference(made, dict.fromkeys(made, 0.0))
    spread = math.sqrt(sum((g - result.difference) ** 2 for g in gains.values()) / 7 / 7)
    assert result.ci_high - result.ci_low == pytest.approx(2 * 1.96 * spread, rel=0.1)


def test_training_seeds_that_disagree_widen_the_interval_and_those_that_agree_do_not():
    keys = [("t", str(i)) for i in range(200)]
    base = {key: {0: 0.0} for key in keys}
    agreeing = {key: {s: float(i % 2) for s in range(3)} for i, key in enumerate(keys)}
    lucky = {key: {s: float((i + s) % 4 < 1 + s) for s in range(3)} for i, key in enumerate(keys)}
    one = {key: {0: float(i % 2)} for i, key in enumerate(keys)}
    width = {name: (r := paired_difference(arm, base)).ci_high - r.ci_low for name, arm in
             (("agreeing", agreeing), ("lucky", lucky), ("one", one))}  # fmt: skip
    assert width["agreeing"] == pytest.approx(width["one"], rel=0.1)
    assert width["lucky"] > 2 * width["one"]
    assert paired_difference(lucky, base).difference == pytest.approx((0.25 + 0.5 + 0.75) / 3)


def test_a_seed_that_met_a_fault_is_filled_by_the_others():
    keys = [("t", str(i)) for i in range(40)]
    whole = {key: {0: float(i % 2), 1: float(i % 2)} for i, key in enumerate(keys)}
    holed = {key: dict(seeds) for key, seeds in whole.items()}
    del holed["t", "7"][1]
    base = {key: {0: 0.0} for key in keys}
    assert paired_difference(holed, base) == paired_difference(whole, base)


def test_the_papers_seven_differences_give_their_t_intervals():
    imitation, correction = ([f.value for f in paper.CHANGE[arm].values()] for arm in ("imit_hstar", "corr_hstar"))
    assert t_interval(imitation) == pytest.approx((-0.227, -0.071), abs=1e-3)
    assert t_interval(correction) == pytest.approx((-0.002, 0.036), abs=1e-3)
    assert all(math.isnan(bound) for bound in t_interval([1.0]))


def test_over_seven_tasks_alone_p_cannot_fall_below_one_in_sixty_four():
    assert sign_flip_p([1.0] * 7) == pytest.approx(1 / 64)


def test_holm_multiplies_the_smallest_by_the_family_and_never_falls():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == pytest.approx([1.0, 1.0]) and holm([]) == []
    with_gap = holm([0.02, float("nan"), 0.03])
    assert with_gap[0] == pytest.approx(0.04) and math.isnan(with_gap[1]) and with_gap[2] == pytest.approx(0.04)


def test_pass_hat_k_asks_for_every_trial():
    assert pass_hat_k({"x": [1, 1, 0, 0]}, 1) == 0.5
    assert pass_hat_k({"x": [1, 1, 0, 0]}, 2) == pytest.approx(1 / 6)
    assert pass_hat_k({"x": [1, 1, 1], "y": [1, 1, 0]}, 3) == 0.5
    with pytest.raises(ValueError, match="at least k trials"):
        pass_hat_k({"x": [1]}, 2)
