"""Moves of plans held against their assignments, for levels whose assignments say before and after."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trimtab.files.document import JsonDocument
from trimtab.files.plan_format import check_moves
from trimtab_common.errors import InputError

Change = tuple[str, int, int]


def check(moves: list[Change], assignments: list[Change], **how: Any) -> None:
    """Hold them against each other."""
    assigned = {name: SimpleNamespace(before=old, after=new) for name, old, new in assignments}
    document = JsonDocument(Path("plan.json"), b"{}", ())
    check_moves(document, SimpleNamespace(moves=moves), assigned, lambda move: move, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("moves", "assignments", "how", "told"),
    [
        ([("a", 1, 2)], [], {}, r"\$.moves\[0\].after is 2, expected that of its assignment: nothing"),
        ([("a", 1, 2)], [("a", 1, 3)], {"field": "target"}, r"\$.moves\[0\].target is 2, .*: 1 to 3"),
        ([("a", 1, 2)] * 2, [("a", 1, 2)], {}, r"\$.moves\[1\].after is 2, .*: nothing"),
        ([], [("a", 1, 1), ("b", 1, 2)], {}, r"\$.assignments\[1\].after is 2, expected 1, as no move"),
        ([], [("a", 1, 1)], {"idle": False}, r"\$.assignments\[0\].after is 1"),
    ],
)
def test_moves_and_assignments_that_contradict_each_other_are_refused(
    moves: list[Change], assignments: list[Change], how: dict[str, Any], told: str
) -> None:
    """The place in the file is named, and what is expected there."""
    with pytest.raises(InputError, match=told):
        check(moves, assignments, **how)


def test_unchanged_placements_may_be_listed_too() -> None:
    """A move for what changes, none for what does not."""
    check([("b", 1, 2)], [("a", 1, 1), ("b", 1, 2)])
