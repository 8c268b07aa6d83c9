"""Room for the study (rule 7): the prepared student under h0, by task and size, on `select` only.

`make room` writes outputs/room/room.csv and room.md; for one task it prints the table. Sizes are chosen from it before
any arm is trained: h0 between 10 % and 50 %. What h* reaches is for the search to find; blind guessing is bounded here by
the most frequent answer.
"""

import argparse
from collections import Counter
from pathlib import Path

import pandas as pd

from coevo_lib.cache import ReplyCache
from coevo_lib.engines import open_engine
from coevo_lib.engines.base import Engine
from coevo_lib.harness import Harness
from coevo_lib.models import default_cache_dir, student_dir
from coevo_lib.profile import find_root
from coevo_lib.rollouts import roll_out, student_jobs
from coevo_lib.stats import wilson
from coevo_lib.student import TASKS
from coevo_lib.table_format import markdown, write_table
from coevo_lib.task import load_task

MAX_TURNS = 20
DIVERSITY = 1
SIZES = {
    "attendance": (6, 7, 8), "budget": (1, 2, 3), "stock": (2, 3, 4), "anomaly": (1, 2, 3),
    "webtest": (2, 3, 4), "shopadmin": (3, 4, 5), "refactor": (2, 3, 4),
}  # fmt: skip


def around(size: int) -> tuple[int, ...]:
    """The sizes that are tried for a task of one's own."""
    return tuple(sorted({max(1, size // 2), max(1, size - 1), size, size + 1}))


def measure(engine: Engine, task_name: str, size: int, n: int) -> dict:
    """One row: success under h0 with its 95 % interval, turns, and the share of the most frequent right answer."""
    task = load_task(task_name)
    instances = task.instances("select", n, size=size, diversity=DIVERSITY)
    played = [e.trajectory for e in roll_out(engine, student_jobs(task, instances, Harness(), MAX_TURNS))]
    successes = sum(t.success for t in played)
    low, high = wilson(successes, n)
    answers = Counter(i.data.get("answer") for i in task.instances("evolve", 400, size=size, diversity=DIVERSITY))
    return {
        "task": task_name,
        "size": size,
        "chosen": size == task.size,
        "n": n,
        "success_h0": successes / n,
        "ci_low": low,
        "ci_high": high,
        "mean_turns": sum(len(t.turns) for t in played) / n,
        "best_guess": answers.most_common(1)[0][1] / 400,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m coevo_lib.room", description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("-n", type=int, default=32)
    options = parser.parse_args()
    cache = ReplyCache(default_cache_dir() / "replies.sqlite")
    with open_engine("auto", student_dir(), cache=cache) as engine:
        rows = []
        for task in options.tasks:
            for size in SIZES.get(task) or around(load_task(task).size):
                rows.append(measure(engine, task, size, options.n))
                print(f"{task} size {size}: h0 {rows[-1]['success_h0']:.0%} of {options.n}", flush=True)
    if options.tasks != list(TASKS):  # the files are those of the shipped tasks, all together
        print(markdown(pd.DataFrame(rows)))
        return
    folder: Path = find_root() / "outputs" / "room"
    for path in write_table(pd.DataFrame(rows), folder, "room"):
        print(path.relative_to(find_root()))


if __name__ == "__main__":
    main()
