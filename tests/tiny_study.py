"""Stages 01 to 04 and 06 on a tiny profile with a scripted student: `python tests/tiny_study.py PROFILE CACHE`.

A third word `taught` puts a chat model on a loopback server in the place of expert, localiser and meta-agent, and ends
with the training rows. Every reply prints a line, so that a reader can count them.
"""

import hashlib
import os
import re
import sys
import threading
import time
from pathlib import Path

from coevo_lib.arms import Quota, arm_rows
from coevo_lib.cache import CachedEngine, ReplyCache
from coevo_lib.engines.scripted import ScriptedEngine
from coevo_lib.engines.serve import make_server
from coevo_lib.evolution import evolve
from coevo_lib.pipeline import ablate, correct_failures, evaluate, localize_failures, roll_out_train, score_localizers
from coevo_lib.stage import open_stage
from coevo_lib.study import material, open_chat, read_failures


def student(request) -> str:
    """Reads every box, but adds up wrongly for about half of the prompts; every reply takes a moment."""
    time.sleep(0.02)
    print("asked", flush=True)
    said, seen = _said(request)
    if not said:
        return "boxes()"
    left = [box for box in seen[0].split(", ") if f'open("{box}")' not in said]
    if left:
        return f'open("{left[0]}")'
    if said[-1].startswith("calc"):
        return f"submit({seen[-1]})"
    coins = re.findall(r"\d+", " ".join(seen[1:]))
    drawn = request.sample if request.temperature else 0
    odd = (int(hashlib.sha256(str(coins).encode()).hexdigest(), 16) + drawn) % 2
    return 'calc("' + "+".join(coins[odd:]) + '")'


def teacher(request) -> str:
    """Knows the next call, with a sentence before it; blames the first sum; would change no harness."""
    print("taught", flush=True)
    task, asked = request.messages[0]["content"], request.messages[-1]["content"]
    if "Find the first turn that made it fail" in task:
        blamed = re.search(r"Turn (\d+): calc", asked)
        return f"turn: {blamed[1] if blamed else 1}, class: knowledge"
    if "from whom a small model learns" not in task:
        return "I would change nothing."
    said, seen = _said(request)
    seen = [text.split("\n\nAn agent")[0] for text in seen]
    left = [box for box in seen[0].split(", ") if f'open("{box}")' not in said] if said else []
    if not said:
        return "The names first.\nboxes()"
    if left:
        return f'It is not open yet.\nopen("{left[0]}")'
    if said[-1].startswith("calc"):
        return f"That is it.\nsubmit({seen[-1]})"
    return 'All is read.\ncalc("' + "+".join(re.findall(r"\d+", " ".join(seen[1:]))) + '")'


def _said(request) -> tuple[list[str], list[str]]:
    texts = [message["content"] for message in request.messages[2:]]
    return texts[::2], texts[1::2]


def main(profile: str, cache: str, taught: bool = False) -> None:
    if taught:
        serve_teacher(Path(profile))
        os.environ["COEVO_CACHE"] = str(Path(cache).parent)
    engine, names = (
        CachedEngine(ScriptedEngine(student), ReplyCache(cache), "scripted"),
        {"profile": profile, "round": 1},
    )
    stage = open_stage("01", dict(names))
    chat = open_chat(stage)
    evolve(stage, engine, chat)
    stage.close()
    stage = open_stage("02", dict(names))
    for unit in stage.todo:
        (ablate if unit.part else roll_out_train)(stage, unit, engine)
    stage = open_stage("03", dict(names))
    for unit in [unit for unit in stage.todo if not unit.part]:
        localize_failures(stage, unit, chat)
    for unit in stage.todo:
        score_localizers(stage, unit, engine, chat)
    stage = open_stage("04", dict(names))
    for unit in stage.todo:
        correct_failures(stage, unit, read_failures(stage, unit), engine)
    if taught:
        stage = open_stage("05", dict(names))
        [unit] = stage.units
        rows = arm_rows(unit.arm, [material(stage, unit, name) for name in unit.task_sources], Quota(4, 0), 0)
        print("rows", [row["messages"][-1]["content"] for row in rows])
        return
    stage = open_stage("06", dict(names))
    for unit in stage.todo:
        evaluate(stage, unit, engine)


def serve_teacher(profile: Path) -> None:
    """Starts the server and writes its address into the profile."""
    os.environ["OPENAI_API_KEY"] = "any"
    server = make_server(ScriptedEngine(teacher))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f'chat_url = "http://127.0.0.1:{server.server_port}/v1"\nchat_model = "teacher"\n'
    profile.write_text(address + profile.read_text())


if __name__ == "__main__":
    main(*sys.argv[1:3], taught=sys.argv[3:] == ["taught"])
