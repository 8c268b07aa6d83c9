"""The calculator gives right values, and no text can hang it or raise anything of its own."""

import math
import time
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coevo_lib.arithmetic import ArithmeticSyntaxError, evaluate, holds, numbers_in, subjects_in, terms_in

LEAVES = (st.integers(0, 999) | st.integers(0, 9999).map(lambda n: n / 10)).map(lambda n: (str(n), Fraction(str(n))))


def join(pairs):
    (a, x), sign, (b, y) = pairs
    value = (
        None
        if x is None or y is None or (sign == "/" and y == 0)
        else {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "/": lambda: x / y}[sign]()
    )
    return f"({a}{sign}{b})", value


SUMS = st.recursive(LEAVES, lambda inner: st.tuples(inner, st.sampled_from("+-*/"), inner).map(join), max_leaves=12)


@given(SUMS)
def test_a_sum_has_its_exact_value_to_four_places(pair):
    text, value = pair
    if value is None:
        with pytest.raises(ArithmeticSyntaxError, match="division by zero"):
            evaluate(text)
        return
    found = evaluate(text)
    assert math.isclose(found, float(value), rel_tol=1e-9, abs_tol=6e-5)
    assert isinstance(found, int) == (found == int(found))


@pytest.mark.parametrize("text, value", [
    ("2*3+4", 10), ("2+3*4", 14), ("(2+3)*4", 20), ("10-4-3", 3), ("-5+2", -3), ("--5", 5), ("7/2", 3.5), ("6/2", 3), ("10/3", 3.3333),
    (" 1 + 1 ", 2), ("0.1+0.2", 0.3), ("((((7))))", 7), ("1e3+1", 1001), ("0x10", 16),
])  # fmt: skip
def test_signs_brackets_and_order_are_those_of_school(text, value):
    assert evaluate(text) == value
    assert type(evaluate(text)) is type(value)


@pytest.mark.parametrize("text", [
    "", " ", "two", "1+", "+1", "2**9", "9**9**9", "9//2", "7%2", "1<2", "1 if 1 else 2", "max(1,2)", "'1'", "True", "[1]", "1,2", "1j", "a", "x:=1",
    "1==1", "~1", "1;2", "1\n+2", "__import__('os')", "1+(2", "\0", "1" * 301, "é", "()", "{}", "None", "1_", "0777", "1 2",
])  # fmt: skip
def test_what_is_no_sum_is_refused_in_words(text):
    with pytest.raises(ArithmeticSyntaxError, match="not a sum|too long"):
        evaluate(text)


@pytest.mark.parametrize("text", [
    "*".join(["9" * 20] * 14), "9" * 300, "1e308*10", "1e308*1e308-1e308*1e308", "-" * 299 + "1", "(" * 150 + "1" + ")" * 149, "1" + "+1" * 149,
    "(" * 300, "1e999", "-1e999", "9" * 150 + "/" + "7" * 149, "1/1e-320", "*".join(["1e300"] * 40),
])  # fmt: skip
def test_a_huge_sum_ends_at_once(text):
    started = time.process_time()
    try:
        assert math.isfinite(evaluate(text))
    except ArithmeticSyntaxError as error:
        assert "\n" not in str(error)
    assert time.process_time() - started < 0.5


@given(
    st.text()
    | st.text("0123456789+-*/(). e_jx<=>!%&|^~,:[]{}'\"\\\n\tabTrueNoneif", max_size=320)
    | st.text("9*+-/(e.)", max_size=300)
)
@example("1" + "\ud800")
def test_no_text_raises_anything_but_a_syntax_error(text):
    try:
        value = evaluate(text)
    except ArithmeticSyntaxError:
        return
    assert math.isfinite(value)


@pytest.mark.parametrize("text, true", [
    ("3<5", True), ("5<3", False), ("5<5", False), ("5<=5", True), ("6>=7", False), ("7>6", True), ("4==4", True), ("4!=4", False),
    ("2<=4<=9", True), ("2<=1<=9", False), ("2<=9<=9", True), ("2<=10<=9", False), ("7*18<=132", True), ("7*18 > 132", False),
    ("98<30 or 98>80", True), ("45<30 or 45>80", False), ("3<1 or 2<=4<=9", True),
    ("0.1+0.2==0.3", True), ("-3<-2", True), ("(1+2)*3<10", True),
])  # fmt: skip
def test_a_comparison_holds_or_not(text, true):
    assert holds(text) is true


@pytest.mark.parametrize("text", [
    "", "3", "3+4", "3<", "<3", "1<2<3<4", "3<'5'", "a<b", "3 is 5", "3 in 5", "not 3<5", "3<5 and 5<7", "3<5 or 2", "1<2 or 2<3 or 3<4", "1 or 2", "True<2", "3<5,", "1<2;3", "(3<5)<2",
    "9**9<3", "1" * 301,
])  # fmt: skip
def test_what_is_no_comparison_is_refused_in_words(text):
    with pytest.raises(ArithmeticSyntaxError, match="not a comparison|not a sum|too long"):
        holds(text)


@given(st.text() | st.text("0123456789+-*/(). e<>=!", max_size=320))
def test_no_text_makes_a_comparison_raise_anything_but_a_syntax_error(text):
    try:
        assert holds(text) in (True, False)
    except ArithmeticSyntaxError:
        pass


def test_numbers_are_found_in_the_order_written():
    assert numbers_in("#12 paid 3.50, planned 40; 7.") == [12, 3.5, 40, 7]
    assert numbers_in("none") == []


@given(st.text())
def test_looking_for_numbers_never_fails(text):
    assert all(isinstance(number, float) for number in numbers_in(text))


@pytest.mark.parametrize(("text", "terms", "subjects"), [
    ("3*12 + 4", ["3*12", "4"], []), ("12*3", ["3*12"], []), ("(3+4)*2+5.5", ["2*(3+4)", "5.5"], []), ("7-2", ["7-2"], []),
    ("3*12<=40", None, ["3*12"]), ("66<30 or 66>80", None, ["66", "66"]), ("1+2<=4<=9", None, ["1", "2"]), ("4", ["4"], []),
    ("", [], []), ("no sum", [], []), ("(" * 400, [], []), ("1+" * 200 + "1", [], []), ("x" * 301, [], []),
])  # fmt: skip
def test_terms_of_a_sum_and_what_a_comparison_is_about(text, terms, subjects):
    assert subjects_in(text) == subjects
    assert terms is None or terms_in(text) == terms
