"""The prepared student: SmolLM2-135M-Instruct plus one small adapter, the same for every arm (rule 4).

The adapter and its manifest are committed under student/, so that nobody has to wait for it;
`python -m coevo_lib.student rebuild` makes both again from the code. The preparation stands for the
post-training and domain exposure that a large instruct model brings along.
"""

import argparse
import dataclasses
import hashlib
import json
import shutil
import time
from pathlib import Path

from coevo_lib.agent import Episode
from coevo_lib.expert import ScriptedExpert, play_expert
from coevo_lib.files import sha256_text, write_text_atomic
from coevo_lib.harness import Harness
from coevo_lib.models import STUDENT_FOLDER
from coevo_lib.preparation import generic_rows
from coevo_lib.profile import find_root
from coevo_lib.rows import whole_rows
from coevo_lib.task import load_task
from coevo_lib.training import Recipe

TASKS = ("attendance", "budget", "stock", "anomaly", "webtest", "shopadmin", "refactor")
GENERIC_ROWS = 1800
ROWS_PER_TASK = 9
PREPARE_SIZES = {  # at most as long as in the study
    "attendance": 5, "budget": 2, "stock": 3, "anomaly": 2, "webtest": 2, "shopadmin": 3, "refactor": 2,
}  # fmt: skip
SEED = 0
RECIPE = Recipe(learning_rate=1e-3, epochs=1, batch=6)


def preparation_rows(
    generic: int = GENERIC_ROWS, per_task: int = ROWS_PER_TASK, tasks: tuple[str, ...] = TASKS
) -> list[dict]:
    """All rows of the preparation: generic ones, then a few a task under h0 in the stepwise style."""
    rows = generic_rows(generic, SEED)
    for name in tasks:
        task, harness = load_task(name), Harness()
        for instance in task.instances("prepare", per_task, size=PREPARE_SIZES[name]):
            episode = Episode(task, instance, harness, max_turns=40)
            play_expert(ScriptedExpert(directness=0.0), episode)
            rows += whole_rows(episode)
    return rows


def rows_hash(rows: list[dict]) -> str:
    """Content hash of training rows."""
    return sha256_text(json.dumps([[row["messages"], row["mask"]] for row in rows], sort_keys=True))


def rebuild(out: Path) -> dict:
    """Trains the preparation's adapter into `out` and writes its manifest; returns the manifest."""
    from coevo_lib.models import base_model_dir, model_id
    from coevo_lib.training import train_adapter

    rows, started = preparation_rows(), time.time()
    base = base_model_dir()
    checkpoints = out / "checkpoints"
    result = train_adapter(base, rows, out, RECIPE, checkpoints)
    shutil.rmtree(out / "checkpoints", ignore_errors=True)
    write_text_atomic(out / "replies.json", json.dumps(first_replies(out / "adapter"), indent=1) + "\n")
    weights = (out / "adapter" / "adapter_model.safetensors").read_bytes()
    manifest = {
        "base": model_id(base),
        "licence": "Apache-2.0 (SmolLM2-135M-Instruct)",
        "tasks": list(TASKS),
        "generic_rows": GENERIC_ROWS,
        "rows_per_task": ROWS_PER_TASK,
        "rows_sha256": rows_hash(rows),
        "recipe": dataclasses.asdict(RECIPE),
        "adapter_sha256": hashlib.sha256(weights).hexdigest(),
        **result,
        "seconds": round(time.time() - started),
    }
    write_text_atomic(out / "manifest.json", json.dumps(manifest, indent=2) + "\n")
    return manifest


def first_replies(adapter: Path, n: int = 6) -> dict[str, str]:
    """Prompt -> the prepared student's first greedy reply, for `n` prompts a task: what a rebuilt adapter must give."""
    from coevo_lib.engines.base import Request
    from coevo_lib.engines.hf_engine import TransformersEngine
    from coevo_lib.models import base_model_dir, merge_adapter

    tasks = [load_task(name) for name in TASKS]
    episodes = [
        Episode(task, i, Harness())
        for task in tasks
        for i in task.instances("prepare", n, size=PREPARE_SIZES[task.name])
    ]
    with TransformersEngine(merge_adapter(base_model_dir(), adapter)) as engine:
        futures = [engine.submit(Request(tuple(episode.messages()), max_tokens=48)) for episode in episodes]
        return {e.instance.prompt: future.result().text for e, future in zip(episodes, futures)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m coevo_lib.student", description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["rebuild"])
    parser.parse_args()
    print(json.dumps(rebuild(find_root() / STUDENT_FOLDER), indent=2))


if __name__ == "__main__":
    main()
