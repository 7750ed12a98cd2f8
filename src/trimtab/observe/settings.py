"""Settings of the pipeline: section `[pipeline]` of `trimtab.toml`.

Each balancer has settings of its own: those here, which it shares with the others, and more of its own. The
keys of the balancer whose place in a lake is the lake itself stand in `[pipeline]`, those of any other in a
table below, named after its place.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from trimtab.observe.columns import SECOND
from trimtab_common.errors import SettingsError

LONGEST_SECONDS = 366 * 86400

DAY_SECONDS = 86400


@dataclass(frozen=True)
class LakeSettings:
    """Retention of a lake; ages count back from its newest sample, in whole days (UTC).

    Attributes
    ----------
    raw_retention_days
        Retention of raw samples, from which tables can be rebuilt; 0: for ever. Samples that are not yet in
        the tables stay.
    table_retention_days
        Retention of rows of tables; 0: for ever. Rows that newer rows depend on (`pipeline.profile_weeks`)
        stay as long as needed.
    snapshot_retention_days
        Retention of snapshots; 0: for ever. The newest of a cluster always stays. Of the snapshots within the
        retention the newest 200 stay.
    """

    raw_retention_days: float = 30.0
    table_retention_days: float = 30.0
    snapshot_retention_days: float = 30.0

    def __post_init__(self) -> None:
        """Refuse ages that cannot be."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value != 0 and not 1 <= value <= 36600:
                raise SettingsError(
                    f"lake.{field.name} is {value}: give 0 (kept for ever), or days between 1 and 36600"
                )


@dataclass(frozen=True)
class PipelineSettings:
    """The settings that every balancer's figures depend on.

    Attributes
    ----------
    window_seconds
        Length of a window; a multiple of `slide_seconds`.
    slide_seconds
        Time between the ends of two windows.
    lateness_seconds
        Samples received later than this after their tick are dropped, flagged and counted.
    gap_seconds
        Two samples of an entity further apart than this give no rate.
    cpu_fit_windows
        Number of windows that the CPU model is fitted to.
    """

    PLACE: ClassVar[str] = ""
    """The balancer's folder in a lake, and the table below `[pipeline]` that its own keys stand in."""
    NOT_OF_TABLES: ClassVar[frozenset[str]] = frozenset()
    """Fields that no stored table depends on, but only what is made of tables."""

    window_seconds: float = 60.0
    slide_seconds: float = 60.0
    lateness_seconds: float = 300.0
    gap_seconds: float = 300.0
    cpu_fit_windows: int = 30

    def __post_init__(self) -> None:
        self._check_seconds("window_seconds", "slide_seconds", "gap_seconds", "lateness_seconds")
        if self.window % self.slide:
            raise SettingsError(
                f"pipeline.window_seconds is {self.window_seconds}, not a multiple of slide_seconds "
                f"({self.slide_seconds}): change one of them"
            )
        self._check_counts("cpu_fit_windows")

    def of_tables(self) -> dict[str, object]:
        """The settings that stored tables depend on; tables made with others must be built anew.

        Names are those in the section `[pipeline]`.
        """
        shared = {field.name for field in dataclasses.fields(PipelineSettings)}
        below = f"{self.PLACE}." if self.PLACE else ""
        kept = {
            field.name if field.name in shared else f"{below}{field.name}": getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in self.NOT_OF_TABLES
        }
        return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}

    def needed(self, table: str) -> int:
        """The age, microseconds, up to which rows of a table may be asked for by steps to come.

        Balancers whose tables look further back add to it.
        """
        del table
        return max(self.gap, self.lateness, self.window, self.cpu_fit_windows * self.slide) + self.lateness

    @property
    def window(self) -> int:
        """Length of a window, microseconds."""
        return round(self.window_seconds * SECOND)

    @property
    def slide(self) -> int:
        """Distance between the ends of two windows, microseconds."""
        return round(self.slide_seconds * SECOND)

    @property
    def lateness(self) -> int:
        """Longest delay of a sample that still counts, microseconds."""
        return round(self.lateness_seconds * SECOND)

    @property
    def gap(self) -> int:
        """Longest time between two samples that make a rate, microseconds."""
        return round(self.gap_seconds * SECOND)

    def _check_seconds(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not 0.001 <= value <= LONGEST_SECONDS:
                raise SettingsError(f"pipeline.{name} is {value}: give seconds between 0.001 and a year")

    def _check_counts(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) < 1:
                raise SettingsError(f"pipeline.{name} is {getattr(self, name)}: give 1 or more")
