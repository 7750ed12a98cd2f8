"""The table of levels names code that is there."""

import pytest

from trimtab.levels import LEVELS, cell
from trimtab.model.errors import PlanError

ROOMS = ("snapshot", "plan", "act")  # what observes needs Spark, and is imported by its own tests


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("level", [name for name, row in LEVELS.items() if row.built])
def test_every_cell_of_a_built_level_can_be_imported(level: str, room: str) -> None:
    """A row that says it is built leads to something that can be called."""
    assert callable(cell(level, room))


def test_a_level_that_is_not_built_says_so() -> None:
    """Asking for a cell that is not there names the levels that are."""
    with pytest.raises(PlanError, match="level keys has no plan yet: these levels are built: replicas"):
        cell("keys", "plan")


def test_an_unknown_level_is_refused() -> None:
    """A misspelt name gets the list of names."""
    with pytest.raises(PlanError, match="choose one of replicas, bundles, keys, queues, masters"):
        cell("replica", "plan")
