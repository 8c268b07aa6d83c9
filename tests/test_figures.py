"""Figures are drawn for few and many arms, do not print over themselves, and are written with their data.

The README's results, which come from the same tables, are tested here too.
"""

import itertools
import math
import re
import warnings
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from coevo_lib import figures, paper, readme
from coevo_lib.errors import UserError
from coevo_lib.localization import CLASSES
from coevo_lib.measures import BEHAVIOUR
from coevo_lib.table_format import COLUMNS, write_table
from coevo_lib.tables import PRIMARY_NAME, costs_table, table3_failures

FEW = (["student_hstar", "corr_hstar"], ["attendance"])
MANY = ([*paper.SUCCESS, *(f"variant_{i}_hstar" for i in range(7))], list(paper.TASKS))
CASES = pytest.mark.parametrize(("arms", "tasks"), [FEW, MANY], ids=["few", "many"])


@pytest.fixture(autouse=True)
def no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def success_table(arms, tasks):
    rows = [
        (arm, task, 1, 60, 60, 30 + i, (30 + i) / 60, 0.3, 0.8, 1, "by construction" * arm.startswith("expert"), math.nan)
        for i, arm in enumerate(arms) for task in [*tasks, "all"]
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS["table1_success"].split())


def contrast_table(arms, tasks, low=-0.2, high=-0.1):
    pairs = [(a, b) for a, b in itertools.permutations(arms, 2) if b in ("student_hstar", "imit_hstar")]
    measured = ((low + high) / 2, low, high, 0.0004, 60, 0.08)
    rows = [
        (f"{a} - {b}", task, *measured, getattr(paper.difference(a, b, task), "value", None))
        for a, b in pairs for task in [*tasks, "all"]
    ]  # fmt: skip
    return pd.DataFrame(
        [(*row, math.nan, -0.25, -0.05, "3, 1") for row in rows], columns=COLUMNS["table1_contrasts"].split()
    )


def behaviour_table(arms, tasks):
    rows = [(arm, task, 60, 5.0 + i, 40.0, 0.5, 0.1, 0.9) for i, arm in enumerate(arms) for task in [*tasks, "all"]]
    return pd.DataFrame(rows, columns=BEHAVIOUR)


def lineage(tasks, seeds=(0, 1)):
    rows = []
    for task, seed, i in itertools.product(tasks, seeds, range(9)):
        row = {"task": task, "seed": seed, "iteration": i, "kind": "hook" if i else "seed", "accepted": i % 2 == 0}
        score = {"select_successes": 6 + i, "select_n": 20} if row["accepted"] else {}
        rows.append({**row, "harness": f"h{i}", "element": f"tools.composite:read_all_{i}", **score})
    return rows


def failure_table(arms, tasks):
    failures = [{"arm": arm, "failure_class": kind} for arm in arms for kind in CLASSES]
    return table3_failures(failures, {**dict.fromkeys(arms, 60), "flawless_hstar": 60})


def dose_table(arms):
    fields = {"rows": "expert", "directness": 0.5, "persistence": None, "seeds": 1, "turns_per_success": 9.0}
    change = {"change": -0.2, "ci_low": -0.3, "ci_high": -0.1}
    rows = [
        {"arm": a, **fields, **change, "style_divergence": i / 10, "loss_before": i / 5} for i, a in enumerate(arms)
    ]
    return pd.DataFrame(rows, columns=COLUMNS["dose_response"].split())


def cost_table(arms, tasks):
    return costs_table([{"stage": f"0{i}_stage", "seconds": 100.0 * i, "rollouts": 50 * (i % 2)} for i in range(1, 7)])


def painted(fig):
    canvas = FigureCanvasAgg(fig)
    canvas.draw()
    return canvas


def ticks_of(axis):
    low, high = axis.get_xlim()
    return [label for place, label in zip(axis.get_xticks(), axis.get_xticklabels()) if low <= place <= high]


def texts_on(fig):
    renderer = painted(fig).get_renderer()
    found = [*fig.texts, *(text for axis in fig.axes for text in axis.texts)]
    ruled = [axis for axis in fig.axes if axis.axison and axis.get_visible()]
    found += [label for axis in ruled for label in (axis._left_title, *axis.get_yticklabels(), *ticks_of(axis))]
    shown = [text for text in found if text.get_text().strip() and text.get_visible()]
    return [(text.get_text(), text.get_window_extent(renderer)) for text in shown]


def assert_readable(fig):
    texts = [(words, box) for words, box in texts_on(fig) if box.width and box.height]
    assert texts
    for words, box in texts:
        assert box.x0 > -2 and box.x1 < fig.bbox.x1 + 2, f"{words!r} is cut off"
    for (one, box), (other, second) in itertools.combinations(texts, 2):
        across = min(box.x1, second.x1) - max(box.x0, second.x0)
        along = min(box.y1, second.y1) - max(box.y0, second.y0)
        assert across < 1.5 or along < 1.5, f"{one!r} prints over {other!r}"


@CASES
def test_every_figure_is_readable(arms, tasks):
    success = {arm: 0.5 for arm in arms}
    counts = dict(proposals=9, rollouts=98765, failures=12345, corrections=4321, correction_rows=4321, imitation_rows=9)
    assert_readable(figures.success_figure(success_table(arms, tasks)))
    assert_readable(figures.differences_figure(contrast_table(arms, tasks)))
    assert_readable(figures.drift_figure(behaviour_table(arms, tasks)))
    assert_readable(figures.failures_figure(failure_table(arms, tasks)))
    assert_readable(figures.dose_figure(dose_table(arms)))
    assert_readable(figures.costs_figure(cost_table(arms, tasks)))
    assert_readable(figures.evolution_figure(lineage(tasks, seeds=(0,))))
    assert_readable(figures.loop_figure(success, counts))


def words_on(fig):
    return " ".join(words for words, _ in texts_on(fig)) + " ".join(t.get_text() for t in fig.legends[0].texts)


@CASES
def test_differences_open_with_the_primary_contrast_and_leave_out_what_was_not_measured(arms, tasks):
    table = contrast_table([*dict.fromkeys([*arms, "imit_hstar", "own_hstar"])], tasks)
    table = table.assign(n_pairs=[0 if "own" in name else 60 for name in table.contrast])
    titles = [axis._left_title.get_text() for axis in figures.differences_figure(table).axes if axis.get_visible()]
    assert titles[0] == f"{PRIMARY_NAME} (primary)"
    assert {title.removesuffix(" (primary)") for title in titles} == set(table[table.n_pairs > 0].contrast)


def test_differences_without_the_primary_contrast_call_none_primary():
    fig = figures.differences_figure(contrast_table(["student_h0", "student_hstar"], ["attendance"]))
    assert "primary" not in words_on(fig)


def test_marks_and_words_of_a_figure_are_explained_on_it():
    drift = words_on(figures.drift_figure(behaviour_table(*FEW)))
    assert "all tasks" in drift and "one task" in drift and "loop: make the same call twice" in drift
    costs = figures.costs_figure(cost_table(*FEW))
    assert "side by side, so the clock shows less" in costs.axes[0].get_xlabel()


def test_figures_of_nothing_are_still_figures():
    empty = {name: pd.DataFrame(columns=columns.split()) for name, columns in COLUMNS.items()}
    painted(figures.success_figure(empty["table1_success"]))
    painted(figures.differences_figure(empty["table1_contrasts"]))
    painted(figures.dose_figure(empty["dose_response"]))
    painted(figures.drift_figure(pd.DataFrame(columns=BEHAVIOUR)))
    painted(figures.failures_figure(empty["table3_failures"]))
    painted(figures.costs_figure(empty["costs"]))
    painted(figures.evolution_figure([]))
    painted(figures.loop_figure({}, {}))


def test_the_loop_shows_the_numbers_it_is_given_and_no_others():
    shown = [words for words, _ in texts_on(figures.loop_figure({"corr_hstar": 0.797}, {"failures": 1234}))]
    assert "80%" in shown and "1,234" in shown
    assert sum(any(letter.isdigit() for letter in words.replace("h0", "")) for words in shown) == 2


def test_a_figure_is_written_with_its_data_and_the_same_each_time(tmp_path):
    table = success_table(*FEW)
    first = figures.save_figure(figures.success_figure(table), table, tmp_path / "a", "success")
    second = figures.save_figure(figures.success_figure(table), table, tmp_path / "b", "success")
    assert [path.name for path in first] == ["success.png", "success.svg", "success.csv"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert len(pd.read_csv(first[2])) == len(table)


def test_a_notebook_renders_a_figure_without_pyplot():
    assert figures.loop_figure({}, {})._repr_png_().startswith(b"\x89PNG")


# ---- the README's results


@pytest.fixture
def project(tmp_path):
    arms, tasks = MANY
    folder = tmp_path / "07_results"
    write_table(success_table(arms, tasks), folder / "tables", "table1_success")
    write_table(contrast_table(arms, tasks), folder / "tables", "table1_contrasts")
    write_table(cost_table(arms, tasks), folder / "tables", "costs")
    page = tmp_path / "README.md"
    page.write_text(f"# Title\n\n{readme.START}\nold 99%\n{readme.END}\n\nAfter.\n")
    return page, folder


def test_the_readme_takes_its_numbers_from_the_tables(project):
    page, folder = project
    assert readme.update_readme(page, folder)
    text = page.read_text()
    assert text.startswith("# Title\n") and text.endswith("\nAfter.\n") and "old 99%" not in text
    assert f"| arm | all | {' | '.join(MANY[1])} |" in text and "| student_h0 | 50 [30, 80] |" in text
    assert [line.split()[1] for line in text.splitlines() if line.count("[30, 80]")] == MANY[0]
    assert "| all | **-15.0** | [-20.0, -10.0] | [-25.0, -5.0] | < 0.001 | 60 | 8.0 | +16.6 | 3, 1 |" in text
    assert "expert_h0, expert_hstar (a scripted expert)" in text
    assert "35 min in all" in text


def test_the_readme_leaves_out_what_could_not_be_estimated(project):
    page, folder = project
    nothing = dict.fromkeys(("minimum_detectable", "paper_difference", "t_low", "t_high"), float("nan"))
    table = contrast_table(*MANY).assign(**nothing)
    write_table(table, folder / "tables", "table1_contrasts")
    text = readme.results_text(folder)
    assert "detectable |" not in text and "t interval |" not in text and "nan" not in text


def test_the_readme_explains_every_failure_class_and_every_rule_that_is_named():
    root = Path(__file__).resolve().parents[1]
    text = (root / "README.md").read_text(encoding="utf-8")
    assert [kind for kind in CLASSES if f"\n| `{kind}` |" not in text] == []
    files = [*root.glob("coevo_lib/**/*.py"), *root.glob("notebooks/*.ipynb"), *root.glob("tests/*.py")]
    named = {number for file in files for number in re.findall(r"\brule (\d+)", file.read_text("utf-8"), re.IGNORECASE)}
    assert named and [number for number in named if f"\n| {number} | " not in text] == []


def test_updating_twice_changes_nothing(project):
    page, folder = project
    assert readme.update_readme(page, folder, check=True)
    assert "old 99%" in page.read_text()
    readme.update_readme(page, folder)
    once = page.read_text()
    assert not readme.update_readme(page, folder) and not readme.update_readme(page, folder, check=True)
    assert page.read_text() == once


SIGNS = [(-0.1, 0.2, "| +5.0 |"), (0.1, 0.2, "| **+15.0** |"), (0.0, 0.2, "| +10.0 |")]


@pytest.mark.parametrize(("low", "high", "shown"), SIGNS)
def test_only_what_excludes_zero_is_set_off(project, low, high, shown):
    page, folder = project
    write_table(contrast_table(*MANY, low=low, high=high), folder / "tables", "table1_contrasts")
    assert shown in readme.results_text(folder)


def test_a_readme_without_marks_and_a_missing_table_are_named(project):
    page, folder = project
    page.write_text("# Title\n")
    with pytest.raises(UserError, match="README.md: needs the line <!-- results:start -->"):
        readme.update_readme(page, folder)
    (folder / "tables" / "costs.csv").unlink()
    with pytest.raises(UserError, match="costs.csv is missing"):
        readme.results_text(folder)


def test_the_command_tells_stale_from_current(project, monkeypatch, capsys):
    page, folder = project
    monkeypatch.setattr(readme, "find_root", lambda: page.parent)
    profile = type("P", (), {"round": 1, "reference": "cpu"})
    monkeypatch.setattr(readme, "load_profile", lambda name, root, round: profile)
    monkeypatch.setattr(readme, "outputs_base", lambda given: folder.parent / "out")
    (page.parent / "out" / "r1").mkdir(parents=True)
    folder.rename(page.parent / "out" / "r1" / "07_results")
    assert readme.main(["--check"]) == 1
    assert readme.main([]) == 0
    assert readme.main(["--check"]) == 0
    assert "up to date" in capsys.readouterr().out
