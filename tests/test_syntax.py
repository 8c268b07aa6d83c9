"""Texts are parsed rightly, also when many threads ask at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from coevo_lib.arithmetic import evaluate
from coevo_lib.calls import Call, parse_call
from coevo_lib.syntax import parse


def test_many_threads_at_once_get_what_one_gets():
    def work(n):
        total = "+".join(f"({n}*{k})" for k in range(12))
        return parse_call(f'calc("{total}", {n})'), evaluate(total)

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(work, range(3000)))
    for n, (call, value) in enumerate(found):
        assert call == Call("calc", ("+".join(f"({n}*{k})" for k in range(12)), n)) and value == 66 * n


def test_the_errors_are_those_of_the_parser():
    assert parse("1+1", "eval").body.op
    with pytest.raises(SyntaxError):
        parse("1+", "eval")
