"""Python's parser for texts that models write, one thread at a time.

Episodes run in threads, and in some versions of CPython trees that several threads build at once end in a SystemError
(python/cpython issue 106905).
"""

import ast
import threading

_ONE_AT_A_TIME = threading.Lock()


def parse(text: str, mode: str = "exec") -> ast.AST:
    """`ast.parse`, with its errors."""
    with _ONE_AT_A_TIME:
        return ast.parse(text, mode=mode)
