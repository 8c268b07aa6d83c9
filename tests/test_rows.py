"""A training row is a chat with an explicit mask: which messages carry loss, and what stands before them."""

import pytest

from coevo_lib.expert import ScriptedExpert
from coevo_lib.harness import Harness, parse_harness
from coevo_lib.rollouts import expert_episodes
from coevo_lib.rows import turn_row, whole_rows


@pytest.fixture
def episode(mock):
    """The stepwise expert's episode under a harness given as text."""
    return lambda text="": expert_episodes(
        ScriptedExpert(directness=0.0), mock, mock.instances("train", 1), parse_harness(text), 12
    )[0]


def test_every_assistant_message_of_a_whole_episode_carries_loss(episode):
    played = episode()
    [row] = whole_rows(played)
    assert row["source"] == "mock/train/0000"
    assert [m["role"] for m, mask in zip(row["messages"], row["mask"]) if mask] == ["assistant"] * len(played.turns)
    assert [m["content"] for m, mask in zip(row["messages"], row["mask"]) if mask] == [
        turn.text for turn in played.turns
    ]
    assert row["messages"] == played.messages()[:-1], "the last observation comes after the last word"


def test_a_turn_carries_loss_alone_and_sees_only_what_came_before(episode):
    played = episode()
    row = turn_row(played, 2, "a better call")
    assert row["mask"] == [False] * 6 + [True]
    assert row["messages"][:-1] == played.messages()[:6]
    assert row["messages"][-1] == {"role": "assistant", "content": "a better call"}
    assert turn_row(played, 0, "x")["messages"][:-1] == played.messages()[:2]


def test_a_trimmed_context_gives_one_row_a_turn_with_what_was_seen_then(episode):
    played = episode("context.keep = 4")
    rows = whole_rows(played)
    assert len(rows) == len(played.turns) == 5
    for index, row in enumerate(rows):
        assert sum(row["mask"]) == 1 and row["mask"][-1] and row["messages"][-1]["content"] == played.turns[index].text
        removed = [m["content"] for m in row["messages"] if m["role"] == "user"].count("(removed)")
        assert removed == max(0, index - 4)


def test_a_row_shows_the_harness_it_was_played_under(mock, with_composite):
    [plain] = whole_rows(expert_episodes(ScriptedExpert(), mock, mock.instances("train", 1), Harness(), 12)[0])
    [other] = whole_rows(
        expert_episodes(ScriptedExpert(), mock, mock.instances("train", 1), with_composite(mock), 12)[0]
    )
    assert (
        "boxes_and_open" in other["messages"][0]["content"] and "boxes_and_open" not in plain["messages"][0]["content"]
    )


def test_a_planners_line_is_shown_and_only_the_call_is_trained_on(episode):
    played = episode("context.planner = 1")
    [row] = whole_rows(played)
    said = [(m["role"], m["content"], on) for m, on in zip(row["messages"], row["mask"])]
    assert said[1][1].endswith("(next: boxes)") and said[2] == ("assistant", "boxes()", True)
    one = turn_row(played, 1, played.turns[1].text)
    assert one["messages"] == row["messages"][: len(one["messages"])] and sum(one["mask"]) == 1
    bare = turn_row(played, 1, "submit(1)")
    assert "(next:" not in bare["messages"][3]["content"] and bare["messages"][-1]["content"] == "submit(1)"
