"""What notebooks show is complete, escaped, and needs nothing outside its own HTML."""

import re
from html.parser import HTMLParser

import pandas as pd
import pytest

from coevo_lib.calls import Call
from coevo_lib.localization import Failure
from coevo_lib.show import (
    show_diff,
    show_lineage,
    show_masked_row,
    show_table,
    show_trajectory,
)
from coevo_lib.trajectory import Event, Trajectory, Turn

ATTACK = "<script>alert('x')</script>&<img src=x onerror=y>\x00"


class Page(HTMLParser):
    """Collects tags and text, and checks that every tag is closed."""

    def __init__(self, shown):
        super().__init__()
        self.open, self.tags, self.text = [], set(), ""
        self.feed(shown._repr_html_())
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def played(text='hours("Ivy")', **fields):
    turns = [
        Turn('staff("Harbor")', Call("staff", ("Harbor",)), "Ivy, Pat", "ok"),
        Turn(text, None, f"seen {text}", "malformed", events=[Event("hooks:ledger", "noted", f"known {text}")]),
    ]
    row = {"instance": "t/test/0001", "task": "t", "split": "test", "harness": "abc", "model": "m", "turns": turns}
    return Trajectory(**{**row, "prompt": f"Do {text}", "feedback": f"No {text}", **fields})


def test_a_trajectory_shows_turns_events_verdict_and_correction():
    failure = Failure("t/test/0001", 1, "planning", "submits too early")
    page = Page(show_trajectory(played(), failure=failure, correction=Call("hours", ("Pat",)), title="An odd one"))
    wanted = ("An odd one", "failure", "malformed", "hooks:ledger noted", "failing turn", "planning", 'hours("Pat")')
    for words in wanted:
        assert words in page.text
    assert page.text.index("failing turn") > page.text.index("Ivy, Pat")


def test_only_the_failing_turn_is_marked():
    assert show_trajectory(played(), failing_turn=0).html.count("failing turn") == 1
    assert "failing turn" not in show_trajectory(played()).html


def test_a_fault_is_not_called_a_failure():
    page = Page(show_trajectory(played(status="fault", error="engine gone")))
    assert "fault, no score" in page.text and "engine gone" in page.text and "failure" not in page.text


@pytest.mark.parametrize(
    "shown",
    [
        lambda: show_trajectory(
            played(ATTACK), failure=Failure("k", 1, ATTACK, ATTACK, ATTACK), correction=ATTACK, title=ATTACK
        ),
        lambda: show_masked_row({"messages": [{"role": ATTACK, "content": ATTACK}], "mask": [True]}),
        lambda: show_diff(f"+{ATTACK}\n-{ATTACK}\n {ATTACK}"),
        lambda: show_table(pd.DataFrame({ATTACK: [ATTACK]}), ATTACK),
        lambda: show_lineage([candidate("h0", None, ""), candidate("x", "h0", ATTACK, why=ATTACK)]),
    ],
)
def test_text_from_elsewhere_is_never_markup(shown):
    page = Page(shown())
    assert not page.tags & {"script", "img"}
    assert "<script>alert" in page.text
    assert "\x00" not in page.text


def test_a_row_shows_which_messages_carry_loss():
    row = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "mask": [False, True]}
    text = Page(show_masked_row(row)).text
    assert "1 of 2 messages" in text and "assistant · trained" in text and "user · trained" not in text


def test_an_empty_diff_says_so():
    assert "no difference" in show_diff("").html


def test_a_table_rounds_floats_and_leaves_gaps_empty():
    frame = pd.DataFrame({"arm": ["a", None], "success": [2 / 3, float("nan")], "n": [3, 4]})
    text = Page(show_table(frame, "success: a fraction")).text
    assert "0.667" in text and "nan" not in text and "None" not in text and "success: a fraction" in text


def test_a_table_shows_counts_as_whole_numbers_and_gives_sentences_room():
    frame = pd.DataFrame({"n": [3.0, None, 12.0], "share": [1.0, 0.0, None], "why": ["a", "b" * 60, None]})
    text = show_table(frame).html
    assert ">3</td>" in text and ">12</td>" in text and ">1.000</td>" in text and 'class="text long"' in text


def test_what_is_small_is_not_shown_as_zero():
    text = Page(show_table(pd.DataFrame({"p": [0.00005, 0.0, 0.04, -0.2]}))).text
    assert all(words in text for words in ("<0.001", "0.000", "0.040", "-0.200"))


def test_a_table_without_rows_says_so():
    page = Page(show_table(pd.DataFrame(columns=["arm", "success"]), "Failures by class"))
    assert page.text.strip().endswith("Failures by class: no rows") and "table" not in page.tags


def test_shown_html_stands_alone():
    html = show_trajectory(played()).html
    assert "http" not in html and "src=" not in html
    assert len(repr(show_trajectory(played()))) < 60


def candidate(harness, parent, element, accepted=True, kind="hook", why="", **fields):
    names = {"harness": harness, "parent": parent, "element": element, "accepted": accepted, "kind": kind, "why": why}
    return {**names, **fields}


def test_a_search_is_a_tree_in_which_each_edit_stands_under_the_harness_it_was_tried_on():
    rows = [
        candidate("h0", None, "", kind="seed", why="h0", select_successes=7, select_n=32),
        candidate("a", "h0", "hooks:one", minibatch_before=3, minibatch_after=6, minibatch_n=12),
        candidate("b", "a", "hooks:two", accepted=False),
        candidate("c", "a", "hooks:three", why="4 failures"),
        candidate("a", "c", "hooks:three", accepted=False, kind="simplification"),
        candidate("d", "c", "hooks:one", kind="simplification", chosen=True),
    ]
    text = re.sub(r"<style>.*?</style>|</?(div|b|span)[^>]*>", "", show_lineage(rows).html, flags=re.S)
    words = re.sub(r" +", " ", text.replace("<ul><li>", "( ").replace("</li></ul>", ")").replace("</li><li>", "| "))
    assert words.replace(" )", ")") == (
        "( h0 7 of 32 on select ( hooks:one kept3 to 6 of 12 on the minibatch ( hooks:two | hooks:three kept 4 failures "
        "( without hooks:three | without hooks:one h*))))"
    )


def test_a_list_in_a_cell_is_shown_as_its_items():
    """Such as the training seeds of an arm, in a table where other arms have none."""
    frame = pd.DataFrame([{"arm": "a", "seeds": [0, 101]}, {"arm": "b"}]).fillna("")
    assert ">0, 101</td>" in show_table(frame, "Arms").html
