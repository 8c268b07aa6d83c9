"""Rows of the study's files, made up for tests of tables."""

import pandas as pd

from coevo_lib.harness import Harness

HSTAR = "0123456789ab"
CHOSEN = ("x", "w")  # what the two searches below chose


def row(arm, index, success, *, task="mock", seed=0, sample=0, calls=(), status="finished", **fields):
    turns = [
        {"text": str(call), "call": list(call), "observation": "", "status": "ok", "facts": [], "events": [],
         "prompt_tokens": 9, "output_tokens": 5} for call in calls
    ]  # fmt: skip
    harness = Harness().id if arm.endswith("_h0") else HSTAR
    return {
        "arm": arm, "seed": seed, "key": f"{task}/{index}", "instance": f"{task}/test/{index:04d}", "task": task,
        "split": "test", "harness": harness, "model": "m", "author": "student", "prompt": "", "turns": turns,
        "status": status, "success": success, "feedback": "", "sample": sample, "error": "", **fields,
    }  # fmt: skip


def arms(*names):
    return [{"name": name, "rows": "none"} for name in names]


def one(frame, **key):
    found = frame[(frame[list(key)] == pd.Series(key)).all(axis=1)]
    assert len(found) == 1
    return found.iloc[0]


def edit(iteration, harness, element, parent, accepted, successes=None, elements=(), seed=0):
    known = {"select_successes": successes, "select_n": 20} if successes is not None else {}
    kind = "seed" if not element else "hook"
    return {"task": "mock", "seed": seed, "iteration": iteration, "harness": harness, "element": element, "kind": kind,
            "elements": list(elements), "parent": parent, "accepted": accepted, "chosen": harness in CHOSEN, **known}  # fmt: skip
