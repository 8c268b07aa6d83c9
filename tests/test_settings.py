"""The learning rate is chosen by held-out rows of both primary arms, and by nothing else."""

from coevo_lib.settings import choose, split_rows


def row(index, kind="expert"):
    return {"source": f"mock/train/{index:04d}", "kind": kind}


def test_no_instance_is_on_both_sides_and_own_successes_only_train():
    rows = [row(i, kind) for i in range(60) for kind in ("expert", "own")]
    trained, held = split_rows(rows)
    assert {r["kind"] for r in held} == {"expert"} and 8 <= len(held) <= 25
    assert not {r["source"] for r in trained} & {r["source"] for r in held}
    assert len({r["source"] for r in trained}) + len(held) == 60
    assert split_rows(list(reversed(rows)))[1] == list(reversed(held)), "whatever their order"


def test_the_rate_with_the_smallest_mean_loss_over_the_arms_is_chosen():
    def made(arm, rate, loss):
        return {"arm": arm, "learning_rate": rate, "loss_after": loss}

    measured = [made("a", 1e-4, 0.9), made("b", 1e-4, 0.5), made("a", 5e-4, 0.5), made("b", 5e-4, 0.6)]
    assert choose(measured) == 5e-4
    assert choose([*measured, made("a", 1e-3, 0.4), made("b", 1e-3, 0.7)]) == 5e-4, "a tie goes to the smaller"
    assert choose([*measured, made("a", 1e-3, 0.1), made("b", 1e-3, 0.7)]) == 1e-3
