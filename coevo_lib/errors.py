"""The one exception meant for the person at the keyboard.

Its message is one line that names the file, the field and the fix. Programming errors keep their own classes
and their traceback.
"""


class UserError(Exception):
    """Something the user can mend. The command line prints `error: ...` and ends with status 2."""

    def _render_traceback_(self) -> list[str]:
        # The hook that IPython looks for: a notebook cell then shows the sentence instead of a traceback.
        return [f"error: {self}"]


def missing_upstream(folder: str, command: str) -> UserError:
    """A stage was opened before what it reads was written."""
    return UserError(f"{folder} is missing (it has no manifest.json); first run: {command}")


def damaged_artefact(file: str, what: str, command: str) -> UserError:
    """A finished unit's file is no longer what its manifest says."""
    return UserError(f"{file} {what}; rebuild it: {command}")
