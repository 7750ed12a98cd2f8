"""The figures of the demo of masters, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from demos.masters import awaited, heir_text, peak_over_mean, queries_by_node
from support.master_snapshots import a_group, a_snapshot
from trimtab.model.errors import SandboxError
from trimtab.model.masters import NO_MASTER


def test_queries_go_to_the_node_that_is_master() -> None:
    """Two groups on node 0, one on node 2; for groups without a master no node answers."""
    groups = (a_group(0, 0, 30.0), a_group(1, 0, 12.0), a_group(2, 2, 18.0), a_group(3, NO_MASTER, 5.0))
    assert queries_by_node(a_snapshot(*groups)) == [42.0, 0.0, 18.0]


def test_the_most_is_held_against_the_mean_of_all_nodes() -> None:
    """Also of those that have nothing; nothing at all is no division by zero."""
    assert peak_over_mean([[6.0, 6.0, 0.0], [4.0, 4.0, 4.0], [0.0, 0.0, 0.0]]) == pytest.approx(
        [1.5, 1.0, 0.0]
    )


def test_the_successor_of_a_dead_node_is_explained_only_if_it_got_every_mastership() -> None:
    """Four masterships go to node 1; or they are shared, or go to node 2, against the order of turns."""
    assert heir_text([4, 4, 4], [0, 8, 4]).startswith("node 1 got all 4: nodes try in turn")
    assert heir_text([4, 4, 4], [0, 6, 6]) == heir_text([4, 4, 4], [0, 4, 8]) == ""
    assert heir_text([0, 8, 4], [0, 8, 4]) == ""


class Watched:
    """Samples that are there already, or never come."""

    def __init__(self, *masters: list[int]) -> None:
        self.masters = list(masters)

    def until(self, holds: Any, patience_seconds: float) -> float | None:
        return next((float(at) for at, by in enumerate(self.masters) if holds(by)), None)


def test_a_machine_that_is_too_busy_to_sample_is_reported() -> None:
    """No sample at all is no reason for a traceback."""
    watch: Any = Watched([4, 3, 4], [4, 4, 4])
    assert awaited(watch, lambda by: sum(by) == 12, "at last") == 1.0
    watch = Watched()
    with pytest.raises(SandboxError, match="at last some group had no master, or no sample came: a busy"):
        awaited(watch, lambda by: sum(by) == 12, "at last")
