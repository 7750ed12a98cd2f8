"""The composition root: a row for every balancer, and the only place that joins a balancer's rooms.

Each name in `BALANCER_NAMES` is a folder of this package, whose `BALANCER` says where the balancer's parts
stand. A new balancer is a folder in each room, and a name here.
"""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import TYPE_CHECKING, Final

from trimtab.balancers.balancer import Balancer, LazyImport, Option, System
from trimtab_common.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "BALANCERS",
    "BALANCER_NAMES",
    "DEFAULT_BALANCER",
    "Balancer",
    "LazyImport",
    "Option",
    "System",
    "balancer_named",
    "systems",
    "warm_up_planner",
]

BALANCER_NAMES: Final = ("replicas", "bundles", "queues", "keys", "masters")

BALANCERS: Final[Mapping[str, Balancer]] = {
    name: import_module(f"trimtab.balancers.{name}").BALANCER for name in BALANCER_NAMES
}

DEFAULT_BALANCER: Final[Balancer] = BALANCERS[BALANCER_NAMES[0]]
"""The balancer that was there first: files that were written before there were others do not name theirs."""


def balancer_named(name: str, subject: str) -> Balancer:
    """The balancer of that name.

    Parameters
    ----------
    subject
        Who names it, for the error: an option, or a file.

    Raises
    ------
    InputError
        If there is none.
    """
    if name not in BALANCERS:
        close = difflib.get_close_matches(name, BALANCER_NAMES, n=1)
        hint = f"did you mean {close[0]}?" if close else f"write {' or '.join(BALANCER_NAMES)}"
        raise InputError(f"{subject} is {name!r}: {hint}")
    return BALANCERS[name]


def systems() -> tuple[System, ...]:
    """The systems that the balancers stand on, in the order of the rows."""
    return tuple({level.system.name: level.system for level in BALANCERS.values()}.values())


def warm_up_planner(name: str) -> None:
    """Compile the planner of a balancer where this machine lacks its machine code.

    Raises
    ------
    InputError
        If there is no such balancer.
    """
    warm_up = balancer_named(name, "balancer").warm_up
    if warm_up is not None:
        warm_up()()
