"""A balancer's part of the pipeline as a value, its stages included, and the settings of pipelines.

Section `[pipeline]` of `trimtab.toml`: each balancer has the settings here, which it shares with the
others, and more of its own. The keys of the balancer whose place in a lake is the lake itself are in
`[pipeline]`, those of any other in a table below, named after its place.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from trimtab.observe.lake.columns import QUALITY, SECOND, imbalance_columns
from trimtab_common.documents import Positive
from trimtab_common.errors import SettingsError
from trimtab_common.settings import check_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from trimtab.files.store import Location
    from trimtab.observe.lake.columns import Columns, RawSchema
    from trimtab.observe.lake.manifest import Manifest, Ranges


UpToAYear = Annotated[float, Meta(ge=0.001, le=366 * 86400)]
"""Seconds: a window, or the time that something is stored."""


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
        for name, value in vars(self).items():
            if value != 0 and not 1 <= value <= 36600:
                raise SettingsError(
                    f"lake.{name} is {value}: give 0 (kept for ever), or days between 1 and 36600"
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

    window_seconds: UpToAYear = 60.0
    slide_seconds: UpToAYear = 60.0
    lateness_seconds: UpToAYear = 300.0
    gap_seconds: UpToAYear = 300.0
    cpu_fit_windows: Positive = 30

    def __post_init__(self) -> None:
        check_values(self, lambda name: f"pipeline.{self._key(name)}")
        if self.window % self.slide:
            raise SettingsError(
                f"pipeline.window_seconds is {self.window_seconds}, not a multiple of slide_seconds "
                f"({self.slide_seconds}): change one of them"
            )

    @classmethod
    def _key(cls, name: str) -> str:
        """The key of a field, below `[pipeline]`."""
        shared = {field.name for field in dataclasses.fields(PipelineSettings)}
        return name if name in shared or not cls.PLACE else f"{cls.PLACE}.{name}"

    def of_tables(self) -> dict[str, object]:
        """The settings that stored tables depend on; tables made with others must be built anew.

        Names are those in the section `[pipeline]`.
        """
        kept = {
            self._key(name): value for name, value in vars(self).items() if name not in self.NOT_OF_TABLES
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


Reach = int | tuple[tuple[int, int], ...]
"""Dependence of a row on another table: on all of the last so many microseconds, or on some stretches
before it only, each from so many before it to so many before it."""


@dataclass(frozen=True)
class OneTick:
    """How rows of a single instant are made, where that takes less than rows of several.

    Attributes
    ----------
    make
        As `make` of a `TableStage`. Of the tables that the stage reads it has the rows of that instant, and
        besides them `before`.
    before
        Further arguments: the table whose rows each has, and between which two instants (half-open), by the
        tick, the nearest tick (`TableStage.nearest`; None if unknown) and the settings. Where that is None,
        rows are made as those of several ticks.
    """

    make: Callable[..., DataFrame]
    before: Mapping[str, tuple[str, Callable[[int, int | None, Any], tuple[int, int] | None]]]

    def inputs(
        self, tables: Iterable[str], tick: int, nearest: int | None, settings: Any
    ) -> dict[str, tuple[str, Ranges]] | None:
        """The table and the ranges of each argument; None where one of them is not known."""
        found: dict[str, tuple[str, Ranges]] = {name: (name, [(tick, tick + 1)]) for name in tables}
        for name, (table, span) in self.before.items():
            stretch = span(tick, nearest, settings)
            if stretch is None:
                return None
            found[name] = table, [stretch]
        return found

    def build(self, tables: Mapping[str, DataFrame], settings: PipelineSettings) -> DataFrame:
        """The rows made, from those of its arguments."""
        return _called(self.make, {**tables, "settings": settings})


@dataclass(frozen=True)
class TableStage:
    """One table made from others.

    Attributes
    ----------
    make
        The transformation: a function named after the table that it makes, whose arguments are named after
        the tables that it reads, and `settings`. Their columns are those in the balancer's `schemas`, their
        rows reach as far back as the stage says; the frame returned has exactly the columns of its own table.
        An argument `span` is two instants (microseconds) between which all rows to be made lie, both
        included; None where there are none. An argument `samples` is how many the step takes in.
    reach
        For every table it reads, how far before a row's own time (microseconds) rows of that table matter
        to it, by the settings.
    carries
        Whether every row depends on the one before it without end (a running mean). The stage then also
        reads its own table: each cluster's newest rows before the instants to be made; and everything after
        the first of those is made anew.
    nearest
        Whether of the samples before its own a row depends on its entity's newest alone, and on the tick
        before. Where all of those lie in one tick, a micro-batch reads no further back.
    before
        Tables whose rows before the instants to be made come as a frame of their own, `<table>_before`: a
        micro-batch may sum up what a batch over history has to put in order.
    is_enabled
        Whether the table is made at all, by the settings; nothing that is wanted reads one that is not.
    is_computed_here
        Whether `make` itself runs a query and computes rows of its result.
    one_tick
        How a micro-batch of a single tick makes the same rows, where it is cheaper.
    """

    make: Callable[..., DataFrame]
    reach: Mapping[str, Callable[[Any], Reach]]
    carries: bool = False
    nearest: bool = False
    before: tuple[str, ...] = ()
    is_enabled: Callable[[Any], bool] = lambda _: True
    is_computed_here: bool = False
    one_tick: OneTick | None = None

    @property
    def is_reusable(self) -> bool:
        """True if the frame depends on the rows of the tables alone, and not on when they are."""
        return not self.is_computed_here and "span" not in signature(self.make).parameters

    @property
    def table(self) -> str:
        """Name of the table that the stage makes."""
        return self.make.__name__

    def build(
        self,
        tables: Mapping[str, DataFrame],
        settings: PipelineSettings,
        span: tuple[int, int] | None = None,
        samples: int = 0,
    ) -> DataFrame:
        """The table made, from the tables read, by name, and what else it asks for."""
        arguments = {**tables, "settings": settings, "span": span, "samples": samples}
        return _called(self.make, arguments)


def _called(make: Callable[..., DataFrame], arguments: Mapping[str, object]) -> DataFrame:
    return make(**{name: arguments[name] for name in signature(make).parameters})


def here(_: object) -> int:
    """The reach of a stage that needs rows of its own instant alone."""
    return 0


@dataclass(frozen=True)
class BalancerPipeline:
    """One balancer's samples, tables and snapshots in a lake.

    The value itself needs no Spark: its transformations are named, and imported when asked for.

    Attributes
    ----------
    name
        Of the balancer, as in formats of snapshots.
    resources
        Names, in the order of the limits in `settings`.
    settings
        The settings its figures depend on.
    raw
        Its raw rows.
    own_tables
        Columns of each table that only this balancer has; of `imbalance` where it has columns of its own.
    transformations
        `module:name` of the stages that make all tables but `cleaned`.
    snapshots
        `module:name` of the function that writes the newest tables to a snapshot folder per cluster.
    """

    name: str
    resources: tuple[str, ...]
    settings: type[PipelineSettings]
    raw: RawSchema
    own_tables: Mapping[str, Columns]
    transformations: str
    snapshots: str

    @property
    def place(self) -> str:
        """The balancer's folder in a lake, and its table below `[pipeline]`.

        Empty for the one balancer whose samples and tables lie in the lake itself.
        """
        return self.settings.PLACE

    @cached_property
    def tables(self) -> Mapping[str, Columns]:
        """Columns of each table. A table's rows have a `tick`, or else a `window_end`."""
        found = {"cleaned": self.raw.cleaned, **self.own_tables}
        found.setdefault("imbalance", imbalance_columns("string"))
        found["quality"] = QUALITY
        return found

    @property
    def stages(self) -> tuple[TableStage, ...]:
        """The transformations, in any order; asking for them loads Spark."""
        found: tuple[TableStage, ...] = _resolved(self.transformations)
        return found

    @property
    def write_snapshots(self) -> Callable[[Any, Manifest, Any], list[Location]]:
        """The function from a `Lake`, the tables and the balancer's settings to the folders written."""
        found: Callable[[Any, Manifest, Any], list[Location]] = _resolved(self.snapshots)
        return found

    def time_column(self, table: str) -> str:
        """The column that a table's files are cut by."""
        columns = dict(self.tables[table])
        return "tick" if "tick" in columns else "window_end"


def section_of(balancers: Iterable[BalancerPipeline]) -> type[Any]:
    """The dataclass that the section `[pipeline]` is bound to: keys of all balancers, with their defaults."""
    shared = _fields(PipelineSettings)
    keys = dict(shared)
    for balancer in balancers:
        own = {name: field for name, field in _fields(balancer.settings).items() if name not in shared}
        if balancer.place:
            table = dataclasses.make_dataclass(balancer.place, own.values(), frozen=True)
            keys[balancer.place] = (balancer.place, table, dataclasses.field(default_factory=table))
        else:
            keys |= own
    return dataclasses.make_dataclass("Pipeline", keys.values(), frozen=True)


def settings_of(
    section: Any, balancers: Iterable[BalancerPipeline], window_seconds: float | None = None
) -> dict[str, PipelineSettings]:
    """The settings of each balancer, by its name.

    Parameters
    ----------
    section, balancers
        What the section `[pipeline]` holds, as `section_of` has it of these balancers.
    window_seconds
        Another length of windows than the section's; where slides are as long as windows, they follow.

    Raises
    ------
    SettingsError
        If values cannot be, or do not fit one another.
    """
    shared = {name: getattr(section, name) for name in _fields(PipelineSettings)}
    if window_seconds is not None:
        if shared["slide_seconds"] == shared["window_seconds"]:
            shared["slide_seconds"] = window_seconds
        shared["window_seconds"] = window_seconds
    found = {}
    for balancer in balancers:
        table = getattr(section, balancer.place) if balancer.place else section
        own = {name: getattr(table, name) for name in _fields(balancer.settings) if name not in shared}
        found[balancer.name] = balancer.settings(**shared, **own)
    return found


def _fields(kind: type[Any]) -> dict[str, tuple[str, Any, Any]]:
    """Name, type and default of each field that is a key."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {
        field.name: (field.name, hints[field.name], dataclasses.field(default=field.default))
        for field in dataclasses.fields(kind)
    }


def _resolved(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
