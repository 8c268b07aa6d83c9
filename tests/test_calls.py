"""Calls are written and read back in two forms, and nothing in them is ever evaluated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo_lib.calls import FORMATS, Call, CallSyntaxError, parse_call, render_call

NAMES = st.text("abcxyz_09", min_size=1, max_size=12).map(lambda text: f"t{text}")
PLAIN_TEXT = st.text(st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF))
NUMBERS = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)


def calls(text):
    return st.builds(Call, NAMES, st.lists(text | NUMBERS, max_size=4).map(tuple))


@pytest.mark.parametrize("form", FORMATS)
@given(call=calls(PLAIN_TEXT))
def test_a_written_call_is_read_back_as_it_was(form, call):
    back = parse_call(render_call(call, form), form)
    assert back == call
    assert [type(arg) for arg in back.args] == [type(arg) for arg in call.args]


@given(call=calls(st.text()))
def test_any_character_survives_in_json(call):
    assert parse_call(render_call(call, "json"), "json") == call


def test_a_rare_character_survives_in_python():
    call = Call("hours", ("\N{GRINNING FACE}",))
    assert parse_call(render_call(call)) == call


@pytest.mark.parametrize("form", FORMATS)
@given(
    call=calls(PLAIN_TEXT),
    before=st.sampled_from(["", "I will read it.\n", "first(1)\n\n", " \n"]),
    after=st.sampled_from(["", "\n", "\n  \n"]),
)
def test_the_last_line_that_holds_anything_is_the_call(form, call, before, after):
    assert parse_call(f"{before}{render_call(call, form)}{after}", form) == call


def test_the_two_forms_look_as_documented():
    call = Call("hours", ("Ivy", 2))
    assert render_call(call) == 'hours("Ivy", 2)'
    assert render_call(call, "json") == '{"tool": "hours", "args": ["Ivy", 2]}'


def test_named_arguments_are_taken_in_the_order_written():
    assert parse_call("move('a', speed=2, far=-1.5)") == Call("move", ("a", 2, -1.5))


def test_json_without_arguments_is_a_call_without_arguments():
    assert parse_call('{"tool": "pages"}', "json") == Call("pages")


@pytest.mark.parametrize("argument", [
    "__import__('pathlib').Path({path!r}).touch()", "open({path!r}, 'w')", "[open({path!r}, 'w')]", "(lambda: open({path!r}, 'w'))()",
    "f'{{open({path!r}, chr(119))}}'", "*[open({path!r}, 'w')]", "**{{'a': open({path!r}, 'w')}}", "x := open({path!r}, 'w')",
])  # fmt: skip
def test_nothing_written_in_a_call_is_executed(tmp_path, argument):
    path = tmp_path / "made"
    with pytest.raises(CallSyntaxError):
        parse_call("hours(" + argument.format(path=str(path)) + ")")
    assert not path.exists()


@pytest.mark.parametrize("text", [
    "", "   \n ", "hours", "Ivy worked 12 hours.", "hours(Ivy)", "hours(", 'hours("Ivy', 'x = hours("Ivy")', "a.b(1)", "f(1)(2)", "f(1) + 1",
    "f(True)", "f(None)", "f([1])", "f({})", "f(b'x')", "f(1+1)", "f(2j)", "f(1) if 1 else 2", "import os", "\0", "f(\0)", "(" * 5000, "f(" * 300,
    "f(" + "9" * 5000 + ")", "f(" + "-" * 3000 + "1)", '{"tool": "hours"}',
])  # fmt: skip
def test_anything_but_one_plain_call_is_an_error_that_says_what_to_write(text):
    with pytest.raises(CallSyntaxError) as caught:
        parse_call(text)
    message = str(caught.value)
    assert "\n" not in message and ("write one" in message or "plain values" in message)


@pytest.mark.parametrize("text", [
    "", "hours(1)", "[]", "3", '{"tool": 3}', '{"args": []}', '{"tool": "x", "args": {}}', '{"tool": "x", "args": [[1]]}', '{"tool": "x", "args": [null]}',
    '{"tool": "x", "args": [true]}', "[" * 50_000, '{"tool": "x", "args": [' + "9" * 5000 + "]}",
])  # fmt: skip
def test_broken_json_is_an_error_that_says_what_to_write(text):
    with pytest.raises(CallSyntaxError, match="write one tool call|write {|plain values"):
        parse_call(text, "json")


@pytest.mark.parametrize("form", FORMATS)
@given(
    text=st.text() | st.text("abf(){}[]\"'\\,:.=*+- 0123456789\n#\t_", max_size=60) | st.text("(-[{'\"", max_size=200)
)
def test_no_text_raises_anything_but_a_syntax_error(form, text):
    try:
        call = parse_call(text, form)
    except CallSyntaxError:
        return
    assert all(isinstance(arg, (str, int, float)) and not isinstance(arg, bool) for arg in call.args)


@given(call=calls(st.text()))
def test_a_call_becomes_a_json_row_and_back(call):
    assert Call.from_json(call.to_json()) == call
    assert call.to_json()[0] == call.tool
