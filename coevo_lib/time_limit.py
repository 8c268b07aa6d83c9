"""Ends what does not end by itself, from inside this process, and says where it was."""

import contextlib
import signal
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path


class OutOfTime(BaseException):
    """Not an Exception, so that no handler on the way takes it for a failed call."""


@contextlib.contextmanager
def time_limit(busy: float, waiting: float) -> Iterator[None]:
    """Raises OutOfTime after `busy` seconds of this process's own work, or `waiting` seconds by the clock.

    Work is what counts on a machine that has more to do; the clock is for what sleeps. Without effect outside the main
    thread, where Python takes no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    timers = ((signal.ITIMER_PROF, signal.SIGPROF, busy), (signal.ITIMER_REAL, signal.SIGALRM, waiting))
    words = {signal.SIGPROF: f"{busy:g} s of work", signal.SIGALRM: f"{waiting:g} s"}

    def stop(number, frame) -> None:
        raise OutOfTime(words[number])

    before = {number: signal.signal(number, stop) for _, number, _ in timers}
    try:
        for timer, _, seconds in timers:
            signal.setitimer(timer, seconds, 1.0)  # once more each second, in case somebody swallows it
        yield
    finally:
        for timer, number, _ in timers:
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])


def where_it_was(error: OutOfTime, file: Path) -> str:
    """The method of `file` that was at work, and the line in it."""
    steps = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    inside = [(code.co_qualname, line) for code, line in steps if Path(code.co_filename).resolve() == file.resolve()]
    return f"{inside[0][0]}, line {inside[-1][1]}" if inside else f"{steps[-2][0].co_qualname}, called for it"
