"""The loop composes three callables and nothing else."""

from typing import Any

import pytest

from trimtab.loop import turn


def test_a_turn_feeds_each_result_to_the_next() -> None:
    """Observations are planned, plans are executed, and the receipt is returned."""
    assert turn(lambda: [3, 1], sorted, lambda plan: ("done", plan)) == ("done", [1, 3])


def test_nothing_is_done_when_planning_fails() -> None:
    """An error while planning passes through, and the cluster is not touched."""
    done: list[Any] = []

    def fail(snapshot: int) -> int:
        raise ValueError(snapshot)

    with pytest.raises(ValueError, match="7"):
        turn(lambda: 7, fail, done.append)
    assert done == []
