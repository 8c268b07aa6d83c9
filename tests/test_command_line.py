"""However a command ends, a person reads one line about it, once."""

import pytest

from coevo_lib.command_line import carry_out
from coevo_lib.errors import UserError


def raising(error):
    def command():
        raise error

    return command


def test_a_mistake_is_one_line_and_status_2(capsys):
    assert carry_out(raising(UserError("cpu.toml: n_test = 0; use 1 or more"))) == 2
    assert capsys.readouterr().err == "error: cpu.toml: n_test = 0; use 1 or more\n"


@pytest.mark.parametrize("child, said", [(False, "interrupted; the same command goes on from here\n"), (True, "")])
def test_an_interrupt_is_spoken_of_by_the_outer_command_alone(capsys, child, said):
    assert carry_out(raising(KeyboardInterrupt()), child) == 130
    assert capsys.readouterr().err == said


def test_a_fault_of_the_program_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        carry_out(lambda: 1 / 0)
