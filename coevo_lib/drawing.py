"""How the study's figures look: style, colours, a Figure that notebooks render, panels, marks, saving.

Colours are Okabe and Ito's, which colour-blind readers tell apart. What is drawn is decided in `figures`.
"""

import io
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, PercentFormatter

from coevo_lib.files import write_text_atomic

BLACK, GREY, ORANGE, BLUE, GREEN, RED, PINK, SKY = (
    "#333333", "#767676", "#E69F00", "#0072B2", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
)  # fmt: skip
ARM_COLOURS = {
    "student_h0": GREY, "student_hstar": BLACK, "imit_h0": ORANGE, "imit_hstar": RED, "corr_hstar": BLUE,
    "expert_h0": GREEN, "expert_hstar": GREEN,
}  # fmt: skip
OTHER = PINK  # variants and controls
PALE = "#b5b5b5"
WIDTH = 10  # inches; as wide as a notebook
STYLE = {
    "font.family": "DejaVu Sans", "font.size": 9, "axes.titlesize": 9.5, "axes.titleweight": "bold",
    "axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#999999",
    "axes.grid": True, "axes.grid.axis": "x", "axes.axisbelow": True, "grid.color": "#e6e6e6", "xtick.labelsize": 8,
    "ytick.labelsize": 8.5, "xtick.color": "#555555", "ytick.color": BLACK, "ytick.major.size": 0, "text.color": BLACK,
    "axes.labelcolor": "#555555", "axes.labelsize": 8.5, "legend.frameon": False, "legend.fontsize": 8,
    "figure.facecolor": "white", "svg.hashsalt": "coevo",
}  # fmt: skip
PERCENT = PercentFormatter(1, decimals=0)
POINTS = FuncFormatter(lambda value, _: f"{100 * value:+.0f}" if abs(value) > 1e-9 else "0")
KEY_RUN = Line2D([], [], color=BLACK, marker="o", ms=5, lw=1.4, label="this run, 95% interval")
KEY_PAPER = Line2D([], [], ls="", color=BLACK, marker="D", ms=5, mfc="none", label="paper")
KEY_ALL = Line2D([], [], ls="", color=BLACK, marker="o", ms=7, label="all tasks")
KEY_ONE = Line2D([], [], ls="", color=PALE, marker="o", ms=4, label="one task")


class Drawing(Figure):
    """A Figure that a notebook renders without pyplot."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        with rc_context(STYLE):
            self.savefig(buffer, format="png", dpi=100)
        return buffer.getvalue()


def save_figure(fig: Figure, data: pd.DataFrame, folder: str | Path, name: str) -> list[Path]:
    """Write <name>.png (150 dpi), <name>.svg and the data as <name>.csv; equal figures give equal SVG bytes."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{ending}" for ending in ("png", "svg", "csv")]
    with rc_context(STYLE):
        fig.savefig(paths[0], dpi=150, metadata={"Software": None})
        fig.savefig(paths[1], metadata={"Date": None, "Creator": None})
    write_text_atomic(paths[2], data.to_csv(index=False, float_format="%.6f", lineterminator="\n"))
    return paths


def panels(titles: Sequence[str], labels: Sequence[str], most: int = 4) -> tuple[Figure, dict]:
    """Panels that share a labelled y axis, first label on top, at most `most` in a row."""
    columns = min(most, len(titles)) or 1
    lines = -(-len(titles) // columns) or 1
    height = lines * (0.27 * max(len(labels), 2) + 0.75) + 0.3
    fig = Drawing(figsize=(WIDTH, height), layout="constrained")
    fig.get_layout_engine().set(h_pad=0.08)  # a title keeps off the scale above it
    axes = fig.subplots(lines, columns, squeeze=False, sharey=True).ravel()
    for axis in axes[len(titles) :]:
        axis.set_visible(False)
    for axis, title in zip(axes, titles):
        axis.set_title(title)
        axis.set(yticks=range(len(labels)), yticklabels=labels, ylim=(len(labels) - 0.4, -0.6))
        axis.tick_params(labelbottom=True)
    return fig, dict(zip(titles, axes))


def colour_of(arm: str) -> str:
    return ARM_COLOURS.get(arm, OTHER)


def draw_interval(axis, place: float, value: float, low: float, high: float, colour: str) -> None:
    axis.plot([low, high], [place, place], color=colour, lw=1.6, alpha=0.75, solid_capstyle="butt", zorder=2)
    axis.plot(value, place, "o", color=colour, ms=5.5, zorder=3)


def draw_paper_mark(axis, place: float, value: float) -> None:
    axis.plot(value, place + 0.24, "D", mfc="white", mec=BLACK, mew=0.9, ms=4.5, zorder=4)
