"""Rule 2: what was not shown before a call, and does not follow from it, is found."""

from coevo_lib.agent import Episode
from coevo_lib.grounding import strange_argument
from coevo_lib.harness import Harness
from coevo_lib.trial import play_alone


def strange(task, texts):
    """Of each text, the argument that nothing before it shows."""
    episode = Episode(task, task.instances("train", 1)[0], Harness(), max_turns=30)
    for text in texts:
        episode.step(text)
    return [strange_argument(episode, index) for index in range(len(texts))]


def test_what_was_not_shown_is_found(attendance):
    [instance] = attendance.instances("train", 1)
    team, answer = instance.goal["team"], instance.data["answer"]
    first, second, *_ = instance.data["teams"][team]
    rate = instance.data["records"][first]["rate"]
    texts = [f'hours("{first}")', f'staff("{team}")', f'hours("{second}")', f"submit({answer})", 'calc("977+1")']
    assert strange(attendance, texts[:1]) == [first]
    assert strange(attendance, [*texts[1:], 'staff("Nowhere")']) == [None, None, answer, "977+1", "Nowhere"]
    assert strange(attendance, [f'hours("{first}")', f'calc("{rate}*1")']) == [first, None]
    assert strange(attendance, ["What now?"]) == [None], "no call, no argument"


def test_counts_and_what_the_calculator_gives_for_shown_numbers_are_known(mock):
    [instance] = mock.instances("train", 1)
    (a, x), (b, y) = instance.data["boxes"].items()
    texts = ["boxes()", f'open("{a}")', f'open("{b}")']
    for text in (f"submit({x + y})", "submit(2)", f"submit({y})", f'calc("({x}+{y})/2")', f'calc("{x}*60")'):
        assert strange(mock, [*texts, text])[-1] is None, text
    for text in (f"submit({x + y + 1})", f'calc("{x + y}")', f'calc("{x}*61")', f'open("{a}{b}")'):
        assert strange(mock, [*texts, text])[-1] is not None, text
    assert strange(mock, [*texts[:2], f"submit({x + y})"])[-1] == x + y, "one of the boxes is not open yet"


def test_a_number_worked_out_in_the_head_is_known_where_the_calculator_would_give_it(shopadmin):
    averages = [i for i in shopadmin.instances("train", 9) if i.goal["kind"] == "average"]
    for instance in averages:
        episode = play_alone(shopadmin, instance, Harness(), directness=1.0)
        assert episode.turns[-1].call.tool == "submit" and "calc" not in [turn.call.tool for turn in episode.turns]
        assert strange_argument(episode, len(episode.turns) - 1) is None
        early = Episode(shopadmin, instance, Harness())
        for turn in [*episode.turns[:-2], episode.turns[-1]]:
            early.step(turn.text)
        assert strange_argument(early, len(early.turns) - 1) is not None, "the last page was not read"
    assert averages
