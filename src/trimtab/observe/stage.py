"""One transformation of the pipeline: the table it makes, those it reads, and how far it looks back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from trimtab.observe.ranges import Reach


@dataclass(frozen=True)
class Stage:
    """One table made from others.

    Attributes
    ----------
    table
        The table it makes.
    reach
        For every table it reads, how far before a row's own time (microseconds) rows of that table matter
        to it, by the settings.
    build
        The tables read, by name, and the settings, to the table made.
    carries
        Whether every row depends on the one before it without end (a running mean). The stage then also
        reads its own table: each cluster's newest rows before the instants to be made; and everything after
        the first of those is made anew.
    """

    table: str
    reach: Mapping[str, Callable[[Any], Reach]]
    build: Callable[[Mapping[str, DataFrame], Any], DataFrame]
    carries: bool = False


def here(_: object) -> int:
    """The reach of a stage that needs rows of its own instant alone."""
    return 0
