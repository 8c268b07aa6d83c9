"""HTML for notebooks: a trajectory, a training row with its mask, a diff, a search, a table.

Everything that a model or a task wrote is escaped. The style is inline and takes its colours from the text around it,
so that it reads in light and dark JupyterLab and in an exported page. What is shown is decided by the caller.
"""

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass

from coevo_lib.calls import Call, render_call
from coevo_lib.localization import Failure
from coevo_lib.trajectory import Trajectory, Turn

# Tints mix with any background; full colours are used for lines only, never for text.
GREEN, RED, AMBER, PINK, BLUE, GREY = "46,139,87", "214,96,36", "200,150,0", "190,60,120", "70,120,200", "128,128,128"
TINTS = {"ok": GREEN, "error": RED, "refused": AMBER, "malformed": PINK, "event": BLUE}
STYLE = """<style>
.coevo{font-size:13px;line-height:1.45;margin:6px 0 12px;max-width:64em}
.coevo code,.coevo pre{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px;color:inherit;background:none}
.coevo pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:0;padding:0}
.coevo .turn{display:grid;grid-template-columns:2.4em minmax(0,1fr) minmax(0,1fr);gap:0 12px;padding:5px 8px;
border-left:4px solid;border-top:1px solid rgba(128,128,128,.25)}
.coevo .small{font-size:11px;opacity:.75}.coevo .num{opacity:.6;text-align:right}
.coevo .tag{display:inline-block;font-size:11px;border-radius:3px;padding:0 5px;margin:2px 4px 0 0}
.coevo .box{padding:5px 8px;margin:3px 0;border-left:4px solid}
.coevo .wide{grid-column:2 / span 2}
.coevo ul{margin:0;padding-left:1.6em}
.coevo table{border-collapse:collapse;margin:4px 0}
.coevo th,.coevo td{padding:2px 9px;text-align:right;border-bottom:1px solid rgba(128,128,128,.25)}
.coevo th:first-child,.coevo td:first-child,.coevo td.text,.coevo th.text{text-align:left}
.coevo td.text{white-space:nowrap}
.coevo td.long{white-space:normal;min-width:20em}
</style>"""


@dataclass(frozen=True)
class Shown:
    """A piece of HTML that a notebook renders; it does not need IPython."""

    html: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return f"<HTML, {len(self.html)} characters>"


def show_trajectory(
    trajectory: Trajectory, *, failing_turn: int | None = None, failure: Failure | None = None,
    correction: str | Call | None = None, title: str = "",
) -> Shown:  # fmt: skip
    """One played instance, turn by turn: the model's text on the left, the observation on the right.

    failing_turn: index from 0 of the turn to mark; a `failure` brings its own, with class and evidence.
    correction: what was written instead of the failing turn, shown under it.
    """
    if failing_turn is None and failure is not None:
        failing_turn = failure.turn
    parts = [_head(trajectory, title)]
    if failure is not None:
        where = "no single turn" if failure.turn is None else f"turn {failure.turn + 1}"
        why = f"{where} ({failure.method}): {failure.evidence}"
        parts.append(_box(f"<b>{_escape(failure.failure_class)}</b>, {_escape(why)}", "error"))
    parts.append(_part("task", trajectory.prompt))
    for index, turn in enumerate(trajectory.turns):
        failing = index == failing_turn
        parts.append(_turn(turn, index, failing, correction if failing else None))
    return _wrap(*parts)


def show_masked_row(row: dict) -> Shown:
    """A training row {messages, mask}: messages that carry loss stand out, the others are context."""
    parts = [f'<div class="small">{sum(row["mask"])} of {len(row["mask"])} messages carry loss</div>']
    for message, trained in zip(row["messages"], row["mask"]):
        label = message["role"] + (" · trained" if trained else "")
        parts.append(_part(label, message["content"], "ok" if trained else "", 0.18 if trained else 0.04))
    return _wrap(*parts)


def show_diff(unified_diff_text: str) -> Shown:
    """A unified diff with added and removed lines tinted."""
    if not unified_diff_text.strip():
        return _wrap('<div class="small">no difference</div>')
    return _wrap(f"<pre>{''.join(_diff_line(line) for line in unified_diff_text.splitlines())}</pre>")


def show_lineage(lineage: Iterable[dict]) -> Shown:
    """A search's candidates as a tree: under each harness what was tried on it, with its numbers and why.

    lineage: rows of lineage.jsonl in order. Numbers: successes on the minibatch under parent and child, then on `select`.
    """
    rows, children = list(lineage), {}
    for row in rows[1:]:
        children.setdefault(row.get("parent"), []).append(row)

    def branch(row: dict) -> str:
        # A harness may come up twice; what was tried on it stands under the first that was kept.
        below = children.pop(row["harness"], []) if row["accepted"] else []
        return f"<li>{_candidate(row)}{_list(below, branch)}</li>"

    return _wrap(_list(rows[:1], branch))


def show_table(frame, caption: str = "", decimals: int = 3) -> Shown:
    """A pandas DataFrame with its floats rounded and, as a caption, what its columns mean.

    Counts with gaps, which pandas keeps as floats, are shown as the whole numbers that they are. A table without rows
    is its caption and the words "no rows".
    """
    if frame.empty:
        return _wrap(f'<div class="small">{_escape(": ".join(filter(None, [caption, "no rows"])))}</div>')
    classes = [_column_class(column) for _, column in frame.items()]
    places = [0 if _counts(column) else decimals for _, column in frame.items()]
    head = "".join(f"<th{kind}>{_escape(name)}</th>" for name, kind in zip(frame.columns, classes))
    rows = ""
    for values in frame.itertuples(index=False, name=None):
        cells = (f"<td{kind}>{_escape(cell_text(value, n))}</td>" for value, kind, n in zip(values, classes, places))
        rows += f"<tr>{''.join(cells)}</tr>"
    text = f'<div class="small">{_escape(caption)}</div>' if caption else ""
    return _wrap(f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>", text)


def _column_class(column) -> str:
    if column.dtype.kind in "iufb":
        return ""
    return ' class="text long"' if column.astype(str).str.len().max() > 40 else ' class="text"'


def _counts(column) -> bool:
    known = column.dropna()
    return column.dtype.kind == "f" and len(known) > 0 and bool((known % 1 == 0).all()) and known.max() > 1


def cell_text(value, decimals: int) -> str:
    """A value as a table shows it: nothing where it is missing, and no zero for what is only small."""
    from pandas import isna

    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isna(value):
        return ""
    if isinstance(value, float) and decimals and 0 < value < 0.5 * 10**-decimals:
        return f"<{10**-decimals:.{decimals}f}"
    return f"{value:.{decimals}f}" if isinstance(value, float) else str(value)


def duration(seconds: float) -> str:
    """A time in words: 42 s, 12 min, 3.4 h."""
    if seconds < 5400:
        return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


# ---- pieces


def _wrap(*parts: str) -> Shown:
    return Shown(f'{STYLE}<div class="coevo">{"".join(parts)}</div>')


def _escape(text) -> str:
    # Control characters that no page may hold would be dropped or break an export; shown as what they are.
    return html.escape(re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", lambda found: f"\\x{ord(found[0]):02x}", str(text)))


def _tint(name: str, strength: float) -> str:
    return f"background:rgba({TINTS.get(name, GREY)},{strength})"


def _tag(text: str, name: str) -> str:
    return f'<span class="tag" style="{_tint(name, 0.22)}">{_escape(text)}</span>'


def _box(inner: str, name: str = "", strength: float = 0.08) -> str:
    style = f"border-color:rgb({TINTS.get(name, GREY)});{_tint(name, strength)}"
    return f'<div class="box" style="{style}">{inner}</div>'


def _part(label: str, text: str, name: str = "", strength: float = 0.06) -> str:
    return _box(f'<span class="small">{_escape(label)}</span><pre>{_escape(text)}</pre>', name, strength)


def _head(trajectory: Trajectory, title: str) -> str:
    verdict, colour = ("success", "ok") if trajectory.success else ("failure", "error")
    said = trajectory.feedback
    if trajectory.status == "fault":
        verdict, colour, said = "fault, no score", "", trajectory.error
    facts = [trajectory.instance, trajectory.status, f"{len(trajectory.turns)} turns", trajectory.author]
    line = f"<b>{_escape(title or trajectory.instance)}</b> {_tag(verdict, colour)}"
    line += f'<span class="small">{_escape(" · ".join([*facts, f"harness {trajectory.harness}"]))}</span>'
    return f"<div>{line}</div><div>{_escape(said)}</div>"


def _turn(turn: Turn, index: int, failing: bool, correction: str | Call | None) -> str:
    tags = "".join(_tag(f"{event.element} {event.action}", "event") + _words(event.text) for event in turn.events)
    status = "" if turn.status == "ok" else _tag(turn.status, turn.status)
    mark = _tag("failing turn", "error") if failing else ""
    cells = f'<div class="num">{index + 1}</div><div>{mark}<pre>{_escape(turn.text)}</pre></div>'
    cells += f"<div>{status}<pre>{_escape(turn.observation)}</pre>{tags}</div>"
    if correction is not None:
        text = render_call(correction) if isinstance(correction, Call) else correction
        cells += f'<div class="wide">{_part("corrected turn", text, "ok", 0.15)}</div>'
    name = "error" if failing else turn.status
    style = f"border-left-color:rgb({TINTS.get(name, GREY)});{_tint(name, 0.14 if failing else 0.03)}"
    return f'<div class="turn" style="{style}">{cells}</div>'


def _words(text: str) -> str:
    return f'<span class="small">{_escape(text)}</span> ' if text else ""


def _list(rows: list[dict], item) -> str:
    return f"<ul>{''.join(map(item, rows))}</ul>" if rows else ""


def _candidate(row: dict) -> str:
    """One line about a proposal."""
    kept = (
        _tag("h*", "ok") if row.get("chosen") else _tag("kept", "event") if row["accepted"] and row["element"] else ""
    )
    numbers = []
    if row.get("minibatch_n"):
        numbers.append(
            f"{row['minibatch_before']} to {row['minibatch_after']} of {row['minibatch_n']} on the minibatch"
        )
    if row.get("select_n"):
        numbers.append(f"{row['select_successes']} of {row['select_n']} on select")
    from coevo_lib.search import SIMPLIFICATION

    sign = "without" if row["kind"] == SIMPLIFICATION else ""
    name = f"<b>{_escape(' '.join(filter(None, [sign, row['element'] or 'h0'])))}</b>"
    why = row["why"] if row["element"] and not sign else ""
    return f"{name} {kept}{_escape('; '.join(numbers))} {_words(why)}"


def _diff_line(line: str) -> str:
    if line.startswith(("+++", "---", "@@")):
        return f'<span style="opacity:.6">{_escape(line)}</span>\n'
    name = {"+": "ok", "-": "error"}.get(line[:1])
    return f'<span style="{_tint(name, 0.2)}">{_escape(line)}</span>\n' if name else f"{_escape(line)}\n"
