"""The results in the README: written from the tables of a committed run, so that no number there is typed by hand.

    python -m coevo_lib.readme --profile cpu            writes the text between the two marks
    python -m coevo_lib.readme --profile cpu --check    ends with status 1 when that text is out of date

What the numbers mean is for the README's author.
"""

import argparse
import csv
import math
import sys
from collections.abc import Iterator
from pathlib import Path

from coevo_lib.errors import UserError
from coevo_lib.files import rebuild_hint, write_text_atomic
from coevo_lib.profile import find_root, load_profile
from coevo_lib.show import duration
from coevo_lib.stages import outputs_base
from coevo_lib.tables import PRIMARY_NAME

READING = (
    "In points; **bold** where the 95% interval holds no zero. An interval draws tasks anew and so speaks of tasks like these; p and "
    "Holm's p flip the signs of instances and so speak of these tasks. With few tasks the bootstrap covers somewhat less than its "
    "95%: the t interval over the tasks stands beside. Detectable: with 80% power. Seeds: training seeds of the two arms.\n"
)
START, END = "<!-- results:start -->", "<!-- results:end -->"


def update_readme(readme_path: str | Path, results_dir: str | Path, check: bool = False) -> bool:
    """Replace the README's results by those of `results_dir` (a 07_results folder); True if they differed.

    With `check` nothing is written. Raises UserError for a README without the two marks, or a missing table.
    """
    path = Path(readme_path)
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise UserError(f"{path.name}: needs the line {START} and, after it, the line {END}")
    new = f"{before}{START}\n{results_text(Path(results_dir))}{END}{after}"
    if new != text and not check:
        write_text_atomic(path, new)
    return new != text


def results_text(results_dir: Path) -> str:
    """The Markdown for a 07_results folder: success, the contrasts, and, where they are there, room and localisers; costs."""
    success, contrasts, costs = (
        _read(results_dir / "tables" / f"{name}.csv") for name in ("table1_success", "table1_contrasts", "costs")
    )
    measured = [row for row in contrasts if int(row["n_pairs"])]
    primary = [row for row in measured if row["contrast"] == PRIMARY_NAME]
    others = [row for row in measured if row["contrast"] != PRIMARY_NAME and row["task"] == "all"]
    parts = [_success_table(success), _contrasts([*primary[-1:], *primary[:-1], *others])]
    tasks, splits, scores, clock = (
        _read_if_there(results_dir / "tables" / f"{name}.csv")
        for name in ("tasks", "by_split", "localization_scores", "clock")
    )
    doses, wordings, trends, searches = (
        _read_if_there(results_dir / "tables" / f"{name}.csv")
        for name in ("dose_response", "by_wording", "dose_trend", "search_controls")
    )
    more = [
        _trained(doses, costs, wordings),
        _trends(trends),
        _room(tasks),
        _splits(splits),
        _searches(searches),
        _localizers(scores),
    ]
    more += [_costs(costs), _clock(clock)]
    return "\n".join(part for part in [*parts, *more] if part)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m coevo_lib.readme", description="Write the README's results.")
    parser.add_argument("--profile", default="cpu", help="whose results, e.g. cpu")
    parser.add_argument("--round", type=int, default=1, help="pass of the loop, from 1")
    parser.add_argument("--check", action="store_true", help="only say whether the README is out of date")
    arguments = parser.parse_args(words)
    try:
        root = find_root()
        profile = load_profile(arguments.profile, root, arguments.round)
        results = outputs_base(profile) / f"r{profile.round}" / "07_results"
        changed = update_readme(root / "README.md", results, arguments.check)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if changed and arguments.check:
        print(f"README.md: results out of date; run: python -m coevo_lib.readme --profile {profile.reference}")
        return 1
    print(f"README.md: results {'written' if changed else 'up to date'}")
    return 0


def _read(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        raise UserError(f"{path.name} is missing; {rebuild_hint(path)}")
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _read_if_there(path: Path) -> list[dict[str, str]]:
    return _read(path) if path.is_file() else []


def _table(head: list[str], lines: list[list[str]]) -> str:
    """A Markdown table whose first column is words and whose others are numbers; columns without any entry are left out."""
    kept = [place for place in range(len(head)) if not place or any(line[place] for line in lines)]
    rows = [head, ["---", *["---:"] * (len(head) - 1)], *lines]
    return "".join(f"| {' | '.join(row[place] for place in kept)} |\n" for row in rows) if lines else ""


def _room(tasks: list[dict]) -> str:
    """The student on `select` under both harnesses, task by task."""
    known = [row for row in tasks if row["student_h0"] and row["student_hstar"]]
    lines = [
        [name, *(_percent(row[f"student_{key}"]) for row in known)] for name, key in (("h0", "h0"), ("h*", "hstar"))
    ]
    table = _table(["room", *(row["task"] for row in known)], lines)
    return f"The untrained student on `select`, percent:\n\n{table}" if known else ""


def _splits(rows: list[dict]) -> str:
    """What the gain of h* is worth on each split, over all tasks."""
    rates = {(row["split"], row["harness"]): _percent(row["success"]) for row in rows if row["task"] == "all"}
    names = list(dict.fromkeys(split for split, _ in rates if (split, "h0") in rates and (split, "hstar") in rates))
    lines = [[name, *(rates[split, key] for split in names)] for name, key in (("h0", "h0"), ("h*", "hstar"))]
    table = _table(["all tasks", *names], lines)
    return f"The same over all tasks, from the split that the proposer sees on:\n\n{table}" if names else ""


def _trained(doses: list[dict], costs: list[dict], wordings: list[dict]) -> str:
    """What one seed of each arm was trained on, and its success in known and in new words."""
    tokens = {
        row["arm"]: _number(row["trained_tokens"]) for row in costs if row["stage"] == "05_training" and row["arm"]
    }
    taught = {
        row["arm"]: (f"{_number(row['examples']):.0f}", f"{tokens[row['arm']] / int(row['seeds']) / 1000:.1f}")
        for row in doses
        if row["arm"] in tokens
    }
    shares = {(row["arm"], row["wording"]): _percent(row["success"]) for row in wordings if row["success"]}
    arms = dict.fromkeys([*(arm for arm, _ in shares), *taught])
    lines = [
        [arm, *taught.get(arm, ("", "")), shares.get((arm, "same"), ""), shares.get((arm, "other"), "")] for arm in arms
    ]
    head = ["arm", "training rows", "thousands of trained tokens", "success in known words", "in new words"]
    what = "What one seed is trained on, over all epochs, and success in percent in the words of the other splits and in new ones"
    return f"{what}:\n\n{_table(head, lines)}" if lines else ""


def _trends(rows: list[dict]) -> str:
    """What a dial of the expert does from end to end, by the line through the arms that vary it."""
    names = {"expert": "Imitation", "correction": "Correction"}
    texts = []
    for row in rows:
        change, low, high = (_points(row[name]) for name in ("change", "ci_low", "ci_high"))
        texts.append(
            f"{names[row['rows']]}, {row['dial']} from its least to its greatest: {change} points [{low}, {high}] ({row['arms']})"
        )
    return f"Dose-response, all tasks: {'; '.join(texts)}.\n" if texts else ""


def _searches(rows: list[dict]) -> str:
    """The best of each kind of search on `select`, as a mean over tasks, where there is more than one kind."""
    kinds = dict.fromkeys((row["search"], row["seed"]) for row in rows if row["select_best"])
    if len(kinds) < 2:
        return ""
    mine = {kind: [r for r in rows if (r["search"], r["seed"]) == kind and r["select_best"]] for kind in kinds}
    shares = [
        f"{search}, seed {seed}: {100 * sum(_number(row['select_best']) for row in found) / len(found):.0f}"
        for (search, seed), found in mine.items()
    ]
    return f"The best harness of each search on `select`, percent, mean over tasks: {'; '.join(shares)}.\n"


def _localizers(scores: list[dict]) -> str:
    """How often each localiser names the planted failing turn, over all tasks and classes."""
    whole = [row for row in scores if row["class"] == "all"]
    texts = []
    for method in dict.fromkeys(row["method"] for row in whole):
        mine = [row for row in whole if row["method"] == method]
        n = sum(int(row["n"]) for row in mine)
        exact, near = (sum(_number(row[name]) * int(row["n"]) for row in mine) / n for name in ("exact", "within_one"))
        texts.append(f"`{method}` {exact:.0%} exactly, {near:.0%} within one turn (n = {n})")
    return f"Localisers on planted failures: {'; '.join(texts)}.\n" if texts else ""


def _percent(text: str) -> str:
    return f"{100 * _number(text):.0f}"


def _success_table(rows: list[dict]) -> str:
    """A line for every arm, in the profile's order, and a column for every task."""
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    tasks = sorted(dict.fromkeys(row["task"] for row in rows), key=lambda task: task != "all")
    cells = {(row["task"], row["arm"]): _cell(row) for row in rows}
    table = _table(["arm", *tasks], [[arm, *(cells.get((task, arm), "") for task in tasks)] for arm in arms])
    counts = [int(row["n_instances"]) for row in rows if row["task"] == "all"]
    text = f"Success on `test` in percent, with 95% intervals; up to {max(counts, default=0)} instances an arm.\n"
    noted = [arm for arm in arms if any(row["arm"] == arm and row.get("note") for row in rows)]
    if noted:
        text += f"By construction, no evidence: {', '.join(noted)} (a scripted expert).\n"
    faults = sum(int(row.get("faults") or 0) for row in rows if row["task"] == "all")
    text += f"Infrastructure faults, which are no scores: {faults}.\n"
    return f"{table}\n{text}" if arms else ""


def _cell(row: dict) -> str:
    value, low, high = (_number(row[name]) * 100 for name in ("success", "ci_low", "ci_high"))
    return "" if math.isnan(value) else f"{value:.0f} [{low:.0f}, {high:.0f}]"


def _contrasts(rows: list[dict]) -> str:
    """A line for each contrast, the primary one first: over all tasks, then task by task."""
    head = [
        "contrast",
        "tasks",
        "difference",
        "95% interval",
        "t interval",
        "p",
        "Holm",
        "pairs",
        "detectable",
        "paper",
        "seeds",
    ]
    return f"{_table(head, [_contrast(row) for row in rows])}\n{READING}" if rows else ""


def _contrast(row: dict) -> list[str]:
    low, high = _number(row["ci_low"]), _number(row["ci_high"])
    change, detectable = _points(row["difference"]), _points(row["minimum_detectable"]).lstrip("+")
    return [
        f"`{row['contrast']}`",
        row["task"],
        change if low <= 0 <= high else f"**{change}**",
        f"[{_points(row['ci_low'])}, {_points(row['ci_high'])}]",
        f"[{_points(row['t_low'])}, {_points(row['t_high'])}]" if row.get("t_low") else "",
        _chance(row["p"]),
        _chance(row.get("p_holm", "")),
        row["n_pairs"],
        detectable,
        _points(row["paper_difference"]),
        row.get("seeds") or "",
    ]


def _chance(text: str) -> str:
    return "" if not text else "< 0.001" if float(text) < 0.001 else f"{float(text):.3f}"


def _costs(rows: list[dict]) -> str:
    if not rows:
        return ""
    stages = dict.fromkeys(row["stage"] for row in rows)
    total = duration(sum(_number(row["seconds"]) for row in rows))
    what = "Unit time (units that share an engine run side by side, so the clock shows less)"
    return f"{what}: {total} in all ({', '.join(_stage_costs(rows, stages))}).\n"


def _clock(rows: list[dict]) -> str:
    known = {row["stage"]: _number(row["minutes"]) for row in rows}
    if not known or any(map(math.isnan, known.values())):
        return ""
    each = ", ".join(f"{stage} {minutes:.0f}" for stage, minutes in known.items())
    return f"On the clock: {sum(known.values()):.0f} minutes after set-up ({each}).\n"


def _stage_costs(rows: list[dict], stages: dict) -> Iterator[str]:
    for stage in stages:
        mine = [row for row in rows if row["stage"] == stage]
        seconds, rollouts = (sum(_number(row[name]) for row in mine) for name in ("seconds", "rollouts"))
        yield f"{stage} {duration(seconds)}" + (f" for {rollouts:,.0f} rollouts" if rollouts else "")


def _points(text: str) -> str:
    """A fraction as percentage points with its sign; no sign on what rounds to zero; nothing where nothing is known."""
    shown = f"{100 * _number(text):+.1f}"
    return {"+0.0": "0.0", "-0.0": "0.0", "+nan": ""}.get(shown, shown)


def _number(text: str) -> float:
    return float(text) if text else math.nan


if __name__ == "__main__":
    sys.exit(main())
