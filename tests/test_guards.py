"""Guards refuse with a reason, and only what they are there for."""

import pytest
from hook_cases import BLUE, LISTED, RED, SIGNATURES, hook, past, turn

from coevo_lib import guards
from coevo_lib.calls import Call, parse_call
from coevo_lib.past import Past

GIVE = {"write": ("box", "text"), "ask": ("question",), **SIGNATURES}


def test_pairing_guard_refuses_a_value_of_another_item():
    guard = hook(guards.PairingGuard, tools=["label"])
    seen = past(
        LISTED,
        turn('open("red")', "12 old coins"),
        turn('open("blue")', "120 new coins, 3.5 kg"),
        turn('calc("12+30")', 42),
    )
    for fine in [
        ("red", "12 old coins"),
        ("red", 12),
        ("blue", "new"),
        ("blue", 3.5),
        ("red", 42),
        ("blue", "boxes"),
        ("red",),
        (),
    ]:
        assert guard.refuse(Call("label", fine), seen) is None, fine
    assert guard.refuse(Call("label", ("red", "new")), seen) == "new was never shown for red"
    for wrong in [("red", 120), ("blue", 12), ("blue", 3), ("blue", 5), ("red", 2), ("green", 12), ("red", "old (")]:
        assert guard.refuse(Call("label", wrong), seen), wrong
    assert guard.refuse(Call("open", ("red", "new")), seen) is None, "only the tools named"


def test_grounding_guard_refuses_what_was_never_shown():
    guard = hook(guards.GroundingGuard, tools=["calc", "open", "submit"])
    seen = past(LISTED, RED, BLUE)
    assert guard.refuse(Call("calc", ("12+30",)), seen) is None
    assert guard.refuse(Call("calc", ("12+31+7",)), seen).startswith("31")
    assert guard.refuse(Call("open", ("green",)), seen) == "green was never shown"
    assert guard.refuse(Call("open", ("red",)), seen) is None
    assert guard.refuse(Call("submit", (42,)), seen) == "42 was never shown"
    assert guard.refuse(Call("submit", (30,)), seen) is None
    assert hook(guards.GroundingGuard, tools=["calc"]).refuse(Call("submit", (42,)), seen) is None, (
        "only the tools named"
    )


def test_grounding_guard_refuses_a_number_used_more_often_than_shown():
    guard = hook(guards.GroundingGuard, tools=["calc"])
    assert guard.refuse(Call("calc", ("12+12",)), past(LISTED, RED)) == "12 is used more often than it was shown"
    assert guard.refuse(Call("calc", ("12+12",)), past(LISTED, RED, turn('open("blue")', 12))) is None


def test_coverage_guard_names_the_items_whose_numbers_are_left_out():
    guard = hook(guards.CoverageGuard, tools=["calc"], share=0.5)
    seen = past(LISTED, RED, BLUE)
    assert guard.refuse(Call("calc", ("12+30",)), seen) is None
    assert guard.refuse(Call("calc", ("12+7",)), seen) == "too little of blue is used"
    assert guard.refuse(Call("calc", ("7",)), seen) == "too little of red, blue is used"
    assert guard.refuse(Call("submit", (7,)), seen) is None, "only the tools named"


def test_finish_guard_waits_for_every_listed_item():
    guard = hook(guards.FinishGuard, tools=["submit"])
    submit = Call("submit", (3,))
    assert "nothing is listed yet" in guard.refuse(submit, past())
    assert guard.refuse(submit, past(LISTED)) == "open(box) is still missing for red, blue"
    assert guard.refuse(submit, past(LISTED, BLUE)) == "open(box) is still missing for red"
    assert guard.refuse(submit, past(LISTED, BLUE, turn('open("red")', status="refused"))) is not None, (
        "a refused call read nothing"
    )
    assert guard.refuse(submit, past(LISTED, BLUE, RED)) is None
    assert guard.refuse(Call("calc", ("1+1",)), past()) is None


def test_order_guard_waits_for_one_answered_call():
    guard = hook(guards.OrderGuard, tools=["submit"], before="calc")
    assert guard.refuse(Call("submit", (3,)), past()) == "calc(expression) comes first"
    assert guard.refuse(Call("submit", (3,)), past(turn('calc("a")', status="error"))) is not None
    assert guard.refuse(Call("submit", (3,)), past(turn('calc("1+2")', 3))) is None
    assert guard.refuse(Call("open", ("red",)), past()) is None


def told(guard, call, *turns):
    return guard.refuse(parse_call(call), Past("How many?", list(turns), GIVE))


def test_the_listed_guard_keeps_to_what_was_listed():
    guard = hook(guards.ListedGuard, tools=["open", "write"])
    assert told(guard, 'open("green")', LISTED) == "green is not among red, blue"
    assert told(guard, 'write("gren", "x")', LISTED) == "gren is not among red, blue"
    assert told(guard, 'open("red")', LISTED) is None and told(guard, 'calc("1+2")', LISTED) is None
    assert told(guard, 'open("green")') is None, "nothing is listed yet"


@pytest.mark.parametrize(("call", "fits"), [
    ('calc("12+30")', True), ('calc("30+12")', True), ('calc("12+12")', False), ('calc("12")', False),
    ('calc("12+30+30")', False), ('calc("1+2")', False), ("submit(42)", True),
])  # fmt: skip
def test_the_source_guard_asks_for_just_the_numbers_that_were_given(call, fits):
    written = [turn('write("red", "coins 12")', "ok"), turn('write("blue", "coins 30")', "ok")]
    reason = told(hook(guards.SourceGuard, tools=["calc"], source="write"), call, LISTED, *written)
    assert (reason is None) == fits
    assert fits or reason == "these are not all the numbers of write(box, text), each once"


def test_the_source_guard_does_not_count_a_number_in_the_items_name():
    written = [turn('write("file:4", "coins 12")', "ok")]
    guard = hook(guards.SourceGuard, tools=["calc"], source="write")
    assert told(guard, 'calc("12")', *written) is None and told(guard, 'calc("12+4")', *written)


def test_the_answer_guard_asks_for_what_follows_an_answer():
    guard = hook(guards.AnswerGuard, asked="ask", answer="yes", then=["write", "calc"])
    yes, no = turn('ask("3<5")', "yes"), turn('ask("5<3")', "no")
    assert told(guard, 'open("red")', LISTED, yes) == "after ask said yes comes write(box, text) or calc(expression)"
    assert told(guard, 'write("red", "x")', LISTED, yes) is None
    assert told(guard, 'open("red")', LISTED, no) is None and told(guard, 'open("red")', yes, LISTED) is None
    refused = turn('open("red")', status="refused")
    assert told(guard, 'open("red")', yes, refused), "a refused call in between is no answer to it"
    assert told(guard, 'open("red")') is None
    always = hook(guards.AnswerGuard, asked="ask", answer="", then=["write"])
    assert told(always, 'open("red")', no) == "after ask comes write(box, text)"


@pytest.mark.parametrize(("call", "said"), [
    ('calc("8*19+2*3")', "8*19"), ('calc("19*8")', "19*8"), ('calc("6*16+8*12")', None), ('calc("8*16+19*6")', None), ('calc("149")', None),
    ('calc("7")', "7"), ('calc("7*1")', None), ('calc("90+1")', None), ("submit(7)", None), ("calc(7)", "7"),
])  # fmt: skip
def test_the_denial_guard_keeps_a_denied_term_out_of_a_sum(call, said):
    """What was asked about is the left side: 8*19 of 8*19<=149; a number alone is denied only where it was asked about."""
    guard = hook(guards.DenialGuard, tools=["calc"], asked="ask", answer="no")
    asked = [("8*19<=149", "no"), ("6*16<=103", "yes"), ("8*12<=99", "yes"), ("7<3 or 7>90", "no"), ("90<91", "no"),
             ("90<95", "yes")]  # fmt: skip
    turns = [turn(f'ask("{question}")', answer) for question, answer in asked]
    reason = told(guard, call, *turns)
    assert reason == (said and f"ask said no to {'8*19' if '19' in said else said}")
    assert told(guard, call) is None, "nothing was asked yet"


def test_a_pairing_guard_reads_a_value_of_several_words_word_by_word():
    guard = hook(guards.PairingGuard, tools=["write"])
    seen = turn('open("red")', "due = gain(rank=12)", observation="due = gain(rank=12)")
    assert told(guard, 'write("red", "due = gain(many=12)")', seen) is None, "many stands in the prompt"
    assert told(guard, 'write("red", "due = gain(many=12) - toll")', seen) == "toll was never shown for red"
    assert told(guard, 'write("red", "due = gain(many=13)")', seen) == "13 was never shown for red"
