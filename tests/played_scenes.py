"""Scenes of the generic rows, and what was read, written and answered in them."""

import random

from coevo_lib.errands import Errand


def scenes_of(composition, n=25):
    """(prompt, tool names, script) of scenes of one composition."""
    found, seed = [], 0
    while len(found) < n:
        scene = Errand(random.Random(f"scene {seed}"))
        seed += 1
        if scene.composition == composition:
            found.append((scene.plan(), scene.names, scene.script))
    return found


def read_items(names, script):
    """Item -> what was shown of it, by single reads or by one composite call."""
    shown = {call.args[0]: seen for call, seen in script if call.tool == names["read"]}
    for _, seen in script if not shown else []:
        shown |= dict(line.split(": ", 1) for line in seen.split("\n") if ": " in line)
    return shown


def written_items(names, script):
    return [call.args for call, _ in script if call.tool == names["write"]]


def result_of(script):
    return script[-1][0].args[0]
