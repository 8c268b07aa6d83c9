"""The study's figures, drawn from the frames of `tables` and `measures`. Nothing is computed here but positions.

A figure is returned, not shown: a notebook renders it as the value of a cell. `save_figure` writes it with its data.
"""

import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from coevo_lib import paper
from coevo_lib.curves import evolution_figure
from coevo_lib.drawing import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    KEY_ALL,
    KEY_ONE,
    KEY_PAPER,
    KEY_RUN,
    ORANGE,
    PALE,
    PERCENT,
    PINK,
    POINTS,
    RED,
    SKY,
    STYLE,
    WIDTH,
    Drawing,
    colour_of,
    draw_interval,
    draw_paper_mark,
    panels,
    save_figure,
)
from coevo_lib.measures import ALL
from coevo_lib.show import duration
from coevo_lib.tables import PRIMARY_NAME

__all__ = [
    "loop_figure", "success_figure", "differences_figure", "evolution_figure", "drift_figure", "failures_figure",
    "dose_figure", "costs_figure", "save_figure",
]  # fmt: skip

CLASS_COLOURS = {
    "planning": RED, "knowledge": SKY, "tool_use": ORANGE, "instruction_following": GREEN, "long_context": PINK,
    "other": "#cccccc",
}  # fmt: skip

TINT = "#eef4fa"  # behind the primary contrast
DRIFT_WORDS = (
    "calculate: call the calculator at least once.   "
    "loop: make the same call twice, or be stopped (the same reply, or only errors and refusals, several times in a row)."
)
COST_WORDS = "minutes, summed over units; units of stages 01, 02, 03 and 06 run side by side, so the clock shows less"


def loop_figure(success: dict[str, float], counts: dict[str, int]) -> Figure:
    """The loop with this run's numbers; what is not given is left out.

    success: arm -> fraction (student_h0, student_hstar, imit_hstar, corr_hstar). counts: proposals, rollouts, failures,
    corrections, correction_rows, imitation_rows, expert_successes.
    """
    share = {arm: f"{value:.0%}" for arm, value in success.items() if value == value}
    boxes = [
        ("unevolved harness", share.get("student_h0"), "student under h0", GREY),
        ("evolve", counts.get("proposals"), "proposed edits", BLACK),
        ("evolved harness", share.get("student_hstar"), "student under h*", BLACK),
        ("expert under h*", counts.get("expert_successes"), "whole trajectories", GREEN),
        ("train: imitation", counts.get("imitation_rows"), "rows", RED),
        ("imitating student", share.get("imit_hstar"), "under h*", RED),
        ("student", None, "weights of this round", BLACK),
        ("roll out", counts.get("rollouts"), "rollouts under h*", BLACK),
        ("localise", counts.get("failures"), "failing turns", BLUE),
        ("correct", counts.get("corrections"), "rewritten turns", BLUE),
        ("train: correction", counts.get("correction_rows"), "rows", BLUE),
        ("corrected student", share.get("corr_hstar"), "under h*", BLUE),
    ]
    with rc_context(STYLE):
        fig = Drawing(figsize=(WIDTH, 3.5))
        axis = fig.add_axes((0, 0, 1, 1), xlim=(0, 100), ylim=(0, 35))
        axis.axis("off")
        places = [(1.5 + 16.5 * (i % 6), 22.5 if i < 6 else 7.5) for i in range(12)]
        for place, box in zip(places, boxes):
            _box(axis, *place, *box)
        for i in (0, 1, 2, 3, 4, 6, 7, 8, 9, 10):
            (x, y), (next_x, _) = places[i], places[i + 1]
            _arrow(axis, (x + 14.5, y + 5), (next_x, y + 5))
        _arrow(axis, (11, 17.5), (21, 22.5))  # evolution plays the student
        _arrow(axis, (37, 22.5), (27, 17.5))  # rollouts use h*
        axis.plot([91.2, 91.2, 8.8], [7.3, 3.5, 3.5], color="#777777", lw=1.2, ls=(0, (4, 3)))
        _arrow(axis, (8.8, 3.5), (8.8, 7.3))
        axis.text(50, 2.2, "the next round starts from the corrected student", ha="center", va="top", fontsize=8.5)
    return fig


def success_figure(table1: pd.DataFrame) -> Figure:
    """Table 1: success with 95% intervals, one panel for all tasks and one a task; the paper's as hollow diamonds."""
    arms = list(dict.fromkeys(table1.arm))
    with rc_context(STYLE):
        fig, axes = panels(_tasks_of(table1), arms)
        for task, axis in axes.items():
            for row in table1[table1.task == task].itertuples():
                draw_interval(axis, arms.index(row.arm), row.success, row.ci_low, row.ci_high, colour_of(row.arm))
                if task == ALL and row.arm in paper.SUCCESS:
                    draw_paper_mark(axis, arms.index(row.arm), paper.SUCCESS[row.arm].value)
            axis.set(xlim=(-0.03, 1.03))
            axis.xaxis.set_major_formatter(PERCENT)
        fig.legend(handles=[KEY_RUN, KEY_PAPER], loc="outside upper right", ncols=2)
    return fig


def differences_figure(contrasts: pd.DataFrame) -> Figure:
    """Every measured contrast, the primary one first and tinted: differences with 95% intervals, beside the paper's.

    A panel a contrast, in percentage points on one scale; in it all tasks together, then each.
    """
    table = contrasts[contrasts.n_pairs > 0]
    names = sorted(dict.fromkeys(table.contrast), key=lambda name: name != PRIMARY_NAME)
    tasks, ends = _tasks_of(table), table[["difference", "ci_low", "ci_high", "paper_difference"]]
    low, high = (ends.min().min(), ends.max().max()) if names else (0, 0)
    with rc_context(STYLE):
        fig, axes = panels(names, tasks, most=3)
        for name, axis in axes.items():
            if name == PRIMARY_NAME:
                axis.set(title=f"{name} (primary)", facecolor=TINT)
            for row in table[table.contrast == name].itertuples():
                place = tasks.index(row.task)
                draw_interval(axis, place, row.difference, row.ci_low, row.ci_high, colour_of(name.split(" - ")[0]))
                draw_paper_mark(axis, place, row.paper_difference)
            axis.axvline(0, color=BLACK, lw=0.8, zorder=1)
            axis.set(xlabel="percentage points", xlim=(min(low, 0) - 0.02, max(high, 0) + 0.02))
            axis.xaxis.set_major_formatter(POINTS)
        fig.legend(handles=[KEY_RUN, KEY_PAPER], loc="outside upper right", ncols=2)
    return fig


def drift_figure(behaviour: pd.DataFrame) -> Figure:
    """How each arm works: calculator use, turns, loops. Large marks are all tasks together, small ones single tasks."""
    titles = {"calc_share": "episodes that calculate", "mean_turns": "turns per episode"}
    titles |= {"loop_share": "episodes that loop"}
    arms = list(dict.fromkeys(behaviour.arm))
    with rc_context(STYLE):
        fig, axes = panels(list(titles.values()), arms)
        for column, axis in zip(titles, axes.values()):
            for row in behaviour.to_dict("records"):
                single = row["task"] != ALL
                colour, size = (PALE, 4) if single else (colour_of(row["arm"]), 7)
                axis.plot(row[column], arms.index(row["arm"]), "o", color=colour, ms=size, zorder=3 - single)
            most = behaviour[column].max() if column == "mean_turns" and len(arms) else 1
            axis.set_xlim(-0.03 * most, 1.06 * most)
            if column != "mean_turns":
                axis.xaxis.set_major_formatter(PERCENT)
        fig.legend(handles=[KEY_ALL, KEY_ONE], loc="outside upper right", ncols=2)
        fig.supxlabel(DRIFT_WORDS, fontsize=8)
    return fig


def dose_figure(doses: pd.DataFrame) -> Figure:
    """Arms in the order of how far the work they were trained on is from the student's own, and what came of it."""
    titles = {"style_divergence": "divergence of call pairs", "loss_before": "loss before training"}
    titles |= {"turns_per_success": "turns per success (log)", "change": "change in success, points"}
    table = doses.sort_values("style_divergence")
    arms = list(table.arm)
    with rc_context(STYLE):
        fig, axes = panels(list(titles.values()), arms)
        for column, axis in zip(titles, axes.values()):
            for place, row in enumerate(table.to_dict("records")):
                if column == "change":
                    draw_interval(axis, place, row["change"], row["ci_low"], row["ci_high"], colour_of(row["arm"]))
                else:
                    axis.plot(row[column], place, "o", color=colour_of(row["arm"]), ms=6)
            if column == "change":
                axis.axvline(0, color=BLACK, lw=0.8, zorder=1)
                axis.xaxis.set_major_formatter(POINTS)
            elif column == "turns_per_success":
                axis.set_xscale("log")  # an arm that hardly succeeds would leave the others in one place
                axis.margins(x=0.08)
            else:
                axis.set_xlim(left=0)
                axis.margins(x=0.08)
    return fig


def failures_figure(table3: pd.DataFrame) -> Figure:
    """Table 3: what failures consist of, as shares of each arm's failures, with their number at the right."""
    arms = list(dict.fromkeys(table3.arm))
    with rc_context(STYLE):
        fig, axes = panels([""], arms)
        axis = axes[""]
        left = dict.fromkeys(arms, 0.0)
        for kind in [kind for kind in CLASS_COLOURS if (table3["class"] == kind).any()]:
            shares = table3[table3["class"] == kind].set_index("arm").share_of_failures.fillna(0)
            widths = [shares.get(arm, 0) for arm in arms]
            label = kind.replace("_", " ")
            axis.barh(range(len(arms)), widths, 0.62, list(left.values()), color=CLASS_COLOURS[kind], label=label)
            left = {arm: left[arm] + width for arm, width in zip(arms, widths)}
        for place, arm in enumerate(arms):
            mine = table3[table3.arm == arm]
            text = f"{mine.failures.sum()} failures, {mine.rate_of_rollouts.sum():.0%} of rollouts"
            axis.text(1.015, place, text, va="center", fontsize=8, color="#555555")
        axis.set(xlim=(0, 1), xlabel="share of failures")
        axis.xaxis.set_major_formatter(PERCENT)
        if axis.containers:
            fig.legend(loc="outside upper center", ncols=6)
    return fig


def costs_figure(costs: pd.DataFrame) -> Figure:
    """Time by stage, summed over its units, with the number of rollouts where a stage played any."""
    totals = costs.groupby("stage", sort=False)[["seconds", "rollouts"]].sum()
    with rc_context(STYLE):
        fig, axes = panels([""], list(totals.index))
        axis = axes[""]
        axis.barh(range(len(totals)), totals.seconds / 60, 0.6, color=BLUE)
        for place, row in enumerate(totals.itertuples()):
            rollouts = f", {row.rollouts:,.0f} rollouts" if row.rollouts else ""
            axis.annotate(
                f"{duration(row.seconds)}{rollouts}", (row.seconds / 60, place), (4, 0), textcoords="offset points",
                va="center", fontsize=8,
            )  # fmt: skip
        axis.set(xlabel=COST_WORDS, xlim=(0, (totals.seconds.max() / 60 if len(totals) else 1) * 1.3 or 1))
    return fig


# ---- pieces


def _tasks_of(table: pd.DataFrame) -> list[str]:
    """All tasks together first, then each."""
    return sorted(dict.fromkeys(table.task), key=lambda task: task != ALL)


def _box(axis, x: float, y: float, verb: str, number, noun: str, colour: str) -> None:
    shape = FancyBboxPatch((x, y), 14.5, 10, "round,pad=0,rounding_size=1", fc="white", ec=colour, lw=1.4)
    axis.add_patch(shape)
    axis.text(x + 7.25, y + 8.1, verb, ha="center", va="center", fontsize=8.5, color=colour, weight="bold")
    if number is not None:
        text = f"{number:,}" if isinstance(number, int) else number
        axis.text(x + 7.25, y + 4.9, text, ha="center", va="center", fontsize=14)
    axis.text(x + 7.25, y + 1.8, noun, ha="center", va="center", fontsize=8, color="#555555")


def _arrow(axis, start: tuple, end: tuple) -> None:
    look = {"arrowstyle": "-|>", "mutation_scale": 10, "color": "#777777", "lw": 1.2}
    axis.add_patch(FancyArrowPatch(start, end, shrinkA=0, shrinkB=0, **look))
