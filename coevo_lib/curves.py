"""The evolution curves: what the harness searches found, proposal by proposal. The other figures are in `figures`."""

from collections.abc import Sequence
from itertools import cycle
from textwrap import wrap

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from coevo_lib.drawing import BLACK, BLUE, GREEN, ORANGE, PERCENT, PINK, RED, STYLE, WIDTH, Drawing
from coevo_lib.search_tables import NO_EDITS
from coevo_lib.stats import wilson

_SEARCH_COLOURS = (BLUE, RED, GREEN, PINK, ORANGE, BLACK)
_SEARCH_KEY = [
    Line2D([], [], color=BLACK, lw=1.3, label="best so far; bar: 95% interval"),
    Line2D([], [], ls="", color=BLACK, marker="o", ms=5, label="h0"),
    Line2D([], [], ls="", color=BLACK, marker="o", ms=8, label="accepted edit, named below"),
    Line2D([], [], ls="", color=BLACK, marker="x", ms=4, label="dropped proposal"),
    Line2D([], [], ls="", color=BLACK, marker="*", ms=8, label="h*, simplified"),
]


def evolution_figure(lineage: Sequence[dict]) -> Figure:
    """The searches: best success on `select` by proposal, a line per search seed, a panel per task.

    lineage: the searches' rows with task and seed. Numbered marks are accepted edits, named below the panel; crosses
    are dropped proposals. 95% Wilson intervals stand on h0 and on the best harness.
    """
    tasks = list(dict.fromkeys(row["task"] for row in lineage))
    columns = min(2, len(tasks)) or 1
    parts = {task: [row for row in lineage if row["task"] == task] for task in tasks}
    notes = {task: _edit_notes(part, 82 if columns == 2 else 170) for task, part in parts.items()}
    rows = [tasks[start : start + columns] for start in range(0, len(tasks), columns)]
    heights = [(1.8, 0.14 * max(len(notes[task]) for task in row) + 0.1) for row in rows]
    with rc_context({**STYLE, "axes.grid.axis": "y"}):
        fig = Drawing(figsize=(WIDTH, sum(map(sum, heights)) + 0.8 * len(rows) + 0.3), layout="constrained")
        ratios = [height for pair in heights for height in pair]
        grid = fig.add_gridspec(len(ratios) or 1, columns, height_ratios=ratios or None)
        for place, task in enumerate(tasks):
            line, column = divmod(place, columns)
            _draw_searches(fig.add_subplot(grid[2 * line, column]), task, parts[task])
            text = fig.add_subplot(grid[2 * line + 1, column])
            text.axis("off")
            for number, (words, colour) in enumerate(notes[task]):
                below = {"xytext": (0, -10 * number), "textcoords": "offset points", "va": "top"}
                note = text.annotate(words, (0, 1), xycoords="axes fraction", fontsize=7, color=colour, **below)
                note.set_in_layout(False)  # a long name must not narrow the curves
        fig.legend(handles=_SEARCH_KEY, loc="outside upper right", ncols=len(_SEARCH_KEY))
    return fig


def _searches(lineage: Sequence[dict]) -> dict[int, list[dict]]:
    """Seed -> its rows: h0 and the proposals, without those that take h* apart."""
    seeds = dict.fromkeys(row["seed"] for row in lineage)
    proposals = [row for row in lineage if row["kind"] not in NO_EDITS[1:]]
    return {seed: [row for row in proposals if row["seed"] == seed] for seed in seeds}


def _accepted(rows: Sequence[dict]) -> list[dict]:
    return [row for row in rows if row.get("select_n") and row["kind"] not in NO_EDITS]


def _edit_notes(lineage: Sequence[dict], width: int) -> list[tuple[str, str]]:
    """Lines that name the accepted edits, each with its search's colour."""
    lines = []
    for (seed, rows), colour in zip(_searches(lineage).items(), cycle(_SEARCH_COLOURS)):
        # A no-break space keeps a number and its name on one line.
        names = [f"{number}\xa0{row['element']}" for number, row in enumerate(_accepted(rows), 1)]
        text = f"seed\xa0{seed}:  {'   '.join(names) or 'no edit accepted'}"
        lines += [(line, colour) for line in wrap(text, width, subsequent_indent="      ", break_on_hyphens=False)]
    return lines


def _draw_searches(axis, task: str, lineage: Sequence[dict]) -> None:
    searches = _searches(lineage)
    for place, (rows, colour) in enumerate(zip(searches.values(), cycle(_SEARCH_COLOURS))):
        shift = min(0.32, 0.92 / len(searches)) * (place - (len(searches) - 1) / 2)
        scored = [row for row in rows if row.get("select_n")]
        score = {id(row): row["select_successes"] / row["select_n"] for row in scored}
        best, steps = 0.0, []
        for row in rows:
            best = max(best, score.get(id(row), 0.0))
            steps.append((row["iteration"] + shift, best))
        axis.step(*zip(*steps), where="post", color=colour, lw=1.3, alpha=0.7)
        chosen = next((row for row in lineage if row.get("chosen") and row["seed"] == rows[0]["seed"]), None)
        if chosen and chosen.get("select_n"):
            end = (rows[-1]["iteration"] + 1 + shift, chosen["select_successes"] / chosen["select_n"])
            axis.plot(*end, "*", color=colour, ms=10, mec="white", mew=0.5, zorder=4)
        top = max(scored, key=lambda row: score[id(row)], default=None)
        for row in {id(row): row for row in (*scored[:1], top) if row}.values():
            x = row["iteration"] + shift
            axis.plot([x, x], wilson(row["select_successes"], row["select_n"]), color=colour, lw=1.2, alpha=0.6)
        dropped = [row["iteration"] + shift for row in rows if not row["accepted"]]
        axis.plot(dropped, [-0.07] * len(dropped), "x", color=colour, ms=3.5, alpha=0.6)
        if scored:
            axis.plot(scored[0]["iteration"] + shift, score[id(scored[0])], "o", color=colour, ms=5)
        for number, row in enumerate(_accepted(rows), 1):
            point = (row["iteration"] + shift, score[id(row)])
            axis.plot(*point, "o", color=colour, ms=9, mec="white", zorder=4)
            look = {"color": "white", "fontsize": 6, "weight": "bold", "ha": "center", "va": "center_baseline"}
            axis.annotate(str(number), point, zorder=5, **look)
    axis.set(title=task, ylim=(-0.13, 1.07), xlabel="proposal")
    axis.yaxis.set_major_formatter(PERCENT)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axis.set_yticks([0, 0.25, 0.5, 0.75, 1])
