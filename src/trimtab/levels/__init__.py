"""The composition root: a row for every level, and the only place that joins a level's rooms.

Each name in `ROWS` is a folder of this package, whose `LEVEL` says where the level's parts stand. A new
level is a folder in each room, and a name here.
"""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import TYPE_CHECKING, Final

from trimtab.levels.level import Level, Option, Part, System
from trimtab.model.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FIRST", "LEVELS", "ROWS", "Level", "Option", "Part", "System", "level_named", "systems"]

ROWS: Final = ("replicas", "bundles", "queues", "keys", "masters")

LEVELS: Final[Mapping[str, Level]] = {name: import_module(f"trimtab.levels.{name}").LEVEL for name in ROWS}

FIRST: Final[Level] = LEVELS[ROWS[0]]
"""The level that was there first: files that were written before there were others do not name theirs."""


def level_named(name: str, subject: str) -> Level:
    """The level of that name.

    Parameters
    ----------
    subject
        Who names it, for the error: an option, or a file.

    Raises
    ------
    InputError
        If there is none.
    """
    if name not in LEVELS:
        close = difflib.get_close_matches(name, ROWS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"write {' or '.join(ROWS)}"
        raise InputError(f"{subject} is {name!r}: {hint}")
    return LEVELS[name]


def systems() -> tuple[System, ...]:
    """The systems that the levels stand on, in the order of the rows."""
    return tuple({level.system.name: level.system for level in LEVELS.values()}.values())
