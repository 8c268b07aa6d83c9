"""Which sizes are tried when the room of a task is measured."""

import pytest

from coevo_lib.room import SIZES, around
from coevo_lib.student import TASKS
from coevo_lib.task import load_task


@pytest.mark.parametrize("size, sizes", [(1, (1, 2)), (2, (1, 2, 3)), (6, (3, 5, 6, 7))])
def test_a_task_of_ones_own_is_tried_around_its_size(size, sizes):
    assert around(size) == sizes


def test_each_shipped_task_is_tried_at_its_own_size_too():
    assert list(SIZES) == list(TASKS) and all(load_task(name).size in sizes for name, sizes in SIZES.items())
