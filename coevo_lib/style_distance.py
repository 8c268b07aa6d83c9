"""How far the work that an arm trains on is from the student's own way of working.

A way of working is which tool follows which: pairs of successive calls. Two of them are compared by the Jensen-Shannon
divergence (base 2: 0 where they are alike, 1 where they share no pair), task by task.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

from scipy.spatial.distance import jensenshannon

from coevo_lib.calls import FORMATS, CallSyntaxError, parse_call

START = ""  # stands before the first call
Pairs = dict[str, Counter]  # task -> (tool, next tool) -> how often


def pairs_of_rows(rows: Iterable[dict]) -> Pairs:
    """Pairs whose second call carries loss, of training rows {messages, mask, source}."""
    found: Pairs = defaultdict(Counter)
    for row in rows:
        before = START
        for message, trained in zip(row["messages"], row["mask"]):
            if message["role"] == "assistant":
                tool = _tool(message["content"])
                if trained:
                    found[row["source"].split("/")[0]][before, tool] += 1
                before = tool
    return found


def pairs_of_rollouts(rows: Iterable[dict]) -> Pairs:
    """Pairs of every turn of played episodes, rows of rollouts.jsonl."""
    found: Pairs = defaultdict(Counter)
    for row in rows:
        tools = [turn["call"][0] if turn["call"] else START for turn in row["turns"]]
        found[row["task"]].update(zip([START, *tools], tools))
    return found


def divergence(one: Pairs, other: Pairs) -> float:
    """Mean Jensen-Shannon divergence over the tasks of `one`, weighted by its pairs; nan where nothing can be compared."""
    shared = [task for task in one if other.get(task) and one[task]]
    weights = {task: one[task].total() for task in shared}
    total = sum(weights.values())
    return (
        sum(w * _divergence(one[task], other[task]) for task, w in weights.items()) / total if total else float("nan")
    )


def _divergence(one: Counter, other: Counter) -> float:
    keys = sorted({*one, *other})
    return float(jensenshannon([one[key] for key in keys], [other[key] for key in keys], base=2) ** 2)


def _tool(text: str) -> str:
    for form in FORMATS:
        try:
            return parse_call(text, form).tool
        except CallSyntaxError:
            continue
    return START
