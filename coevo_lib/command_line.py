"""What the command lines have in common: a mistake is one line, and an end from outside is no traceback."""

import argparse
import os
import sys
from collections.abc import Callable

from coevo_lib.errors import UserError

MISTAKE, INTERRUPTED, READER_GONE = 2, 130, 141  # the last two as a shell counts the signals


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with the words; `--help` shows the rest."""

    def error(self, message: str) -> None:
        self.exit(MISTAKE, f"error: {message}; see {self.prog} --help\n")


def carry_out(command: Callable[[], int], child: bool = False) -> int:
    """The command's exit status, also where it ends early. `child`: of another command, which speaks of interrupts itself."""
    try:
        status = command()
        sys.stdout.flush()
        return status
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return MISTAKE
    except KeyboardInterrupt:
        if not child:
            print("interrupted; the same command goes on from here", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read, such as `head`, has gone. Python flushes once more at its end, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
