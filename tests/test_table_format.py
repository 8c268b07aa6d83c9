"""How a table is written down, and what is said with it."""

import csv

import pandas as pd
from table_rows import row

from coevo_lib.localization_tables import localization_scores
from coevo_lib.table_format import COLUMNS, NOTES, markdown, note, write_table
from coevo_lib.tables import table2_elements


def test_what_a_reader_has_to_know_stands_under_the_written_table(tmp_path):
    for name, columns in COLUMNS.items():
        frame = pd.DataFrame([dict.fromkeys(columns.split(), 1)])
        _, page = write_table(frame, tmp_path, name)
        assert page.read_text() == markdown(frame) + (f"\n{NOTES[name]}\n" if name in NOTES else "")
    assert "overlap" in NOTES["costs"] and "empty where nothing" in NOTES["table1_contrasts"]


def test_a_table_without_rows_says_so_and_keeps_its_header(tmp_path):
    for name, columns in COLUMNS.items():
        empty = pd.DataFrame(columns=columns.split())
        text, page = write_table(empty, tmp_path, name)
        assert text.read_text() == columns.replace(" ", ",") + "\n"
        assert page.read_text().endswith(f"|\n\n{note(empty, name)}\n")
    assert "No failure was planted" in note(localization_scores(), "localization_scores")


def test_a_table_is_written_as_csv_and_markdown(tmp_path):
    frame = pd.DataFrame({"arm": ["a|b", "c"], "success": [2 / 3, float("nan")], "n": [3, 4]})
    text, page = write_table(frame, tmp_path, "table")
    assert list(csv.DictReader(text.open()))[0] == {"arm": "a|b", "success": "0.666667", "n": "3"}
    assert page.read_text().splitlines() == [
        "| arm | success | n |", "| --- | ---: | ---: |", "| a\\|b | 0.667 | 3 |", "| c |  | 4 |",
    ]  # fmt: skip
    assert markdown(table2_elements([row("x_hstar", 0, True)], {"mock": ["system.recipe"]})).endswith("| 1 |  |  |\n")
