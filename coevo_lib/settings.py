"""The learning rate by a stated rule: the one at which held-out training rows become likeliest, over both primary arms.

`make settings` takes the rows that stage 05 will train on, holds out a quarter of the instances, trains each primary arm
on the others at each rate, and measures the loss on what was held out. Nothing of `select` or `test` is read, and
no success: the rule cannot favour an arm. Rank, epochs and batch are the paper's. Writes outputs/settings/.
What was measured is kept in the cache, so that a run cut short goes on where it was.
"""

import argparse
import dataclasses
import json
import tempfile
from pathlib import Path
from statistics import fmean

import pandas as pd

from coevo_lib.files import sha256_json, stable_seed, write_text_atomic
from coevo_lib.models import default_cache_dir, merge_adapter, student_dir
from coevo_lib.pipeline import rows_of
from coevo_lib.profile import find_root, load_profile
from coevo_lib.stage import Stage
from coevo_lib.table_format import write_table
from coevo_lib.tables import PRIMARY
from coevo_lib.training import Recipe, row_losses, train_adapter

RATES = (1e-4, 2e-4, 5e-4, 1e-3)
HELD_OUT = 4  # one instance in so many


def split_rows(rows: list[dict]) -> tuple[list[dict], list[dict]]:
    """(rows to train on, rows held out): by instance, so that no instance is on both sides; own successes train only."""
    held = [row["kind"] != "own" and stable_seed("held out", row["source"]) % HELD_OUT == 0 for row in rows]
    sources = {row["source"] for row, out in zip(rows, held) if out}
    return [row for row in rows if row["source"] not in sources], [row for row, out in zip(rows, held) if out]


def measure(arm: str, rows: list[dict], recipe: Recipe) -> dict:
    """The loss on held-out rows under the student, and after training on the others; from the cache if it was measured."""
    content = sha256_json([rows, dataclasses.asdict(recipe), student_dir().name])
    kept = Path(default_cache_dir()) / "settings" / f"{content[:16]}.json"
    if kept.is_file():
        return json.loads(kept.read_text(encoding="utf-8"))
    trained, held = split_rows(rows)
    with tempfile.TemporaryDirectory() as folder:
        train_adapter(student_dir(), trained, Path(folder), recipe)
        after = fmean(row_losses(merge_adapter(student_dir(), Path(folder, "adapter")), held))
    numbers = {"rows": len(trained), "held_out": len(held), "loss_before": fmean(row_losses(student_dir(), held))}
    measured = {"arm": arm, "learning_rate": recipe.learning_rate, **numbers, "loss_after": after}
    write_text_atomic(kept, json.dumps(measured) + "\n")
    return measured


def choose(measured: list[dict]) -> float:
    """The rate with the smallest mean loss over the arms; ties go to the smaller one."""
    rates = sorted({row["learning_rate"] for row in measured})
    return min(rates, key=lambda rate: fmean(row["loss_after"] for row in measured if row["learning_rate"] == rate))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m coevo_lib.settings", description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="cpu")
    parser.add_argument("--rates", nargs="+", type=float, default=list(RATES))
    options = parser.parse_args()
    root = find_root()
    profile = load_profile(options.profile, root, 1)
    names = ("rank", "alpha", "epochs", "batch")
    stage = Stage("05_training", profile)
    units = {arm: stage.unit(arm=arm, seed=profile.values["lora_seeds"][0]) for arm in PRIMARY}
    rows = {arm: rows_of(stage, unit) for arm, unit in units.items()}
    measured: list[dict] = []
    for rate in options.rates:
        for arm in PRIMARY:
            recipe = Recipe(learning_rate=rate, **{name: profile.values[name] for name in names})
            measured.append(measure(arm, rows[arm], recipe))
            print(f"{arm} at {rate:g}: held-out loss {measured[-1]['loss_after']:.3f}", flush=True)
    chosen = choose(measured)
    frame = pd.DataFrame([{**row, "chosen": row["learning_rate"] == chosen} for row in measured])
    for path in write_table(frame, root / "outputs" / "settings", "learning_rate"):
        print(path.relative_to(root))


if __name__ == "__main__":
    main()
