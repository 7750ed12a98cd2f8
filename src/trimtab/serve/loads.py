"""The load of the last hours, read from the table `imbalance` of a lake."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trimtab.observe.lake.lake import Lake
from trimtab.observe.lake.status import newest_rows
from trimtab.serve.documents import LoadSeries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trimtab.balancers import Balancer
    from trimtab.balancers.clusters import Cluster
    from trimtab.files.store import Location
    from trimtab.model.load import FloatArray
    from trimtab.observe.lake.manifest import ManifestEntry
    from trimtab.serve.observing import Observation

_COLUMNS: Final = ("worst_deviation", "peak_usage")
_MAX_TICKS: Final = 2_880
"""A day of samples every 30 s; older ones are read only where they are sparser."""


class _Part(NamedTuple):
    """The rows of one entry of the manifest.

    Attributes
    ----------
    at
        Microseconds since 1970.
    values
        For each resource, shape (ticks, 2): the columns, NaN where there is no value.
    """

    at: NDArray[np.int64]
    values: dict[str, FloatArray]


_PARTS: Final[dict[tuple[str, str, str], dict[ManifestEntry, _Part]]] = {}
"""What requests have read, by lake, balancer and cluster: a new tick adds one small file to a day of them."""


def load_series(
    balancer: Balancer,
    cluster: Cluster,
    observation: Observation | None,
    lake: Location,
    since: float,
    max_points: int,
) -> LoadSeries:
    """Worst deviation and peak of each resource since an instant, thinned to `max_points` instants.

    Raises
    ------
    TrimtabError
        If the lake cannot be read.
    """
    empty = LoadSeries(cluster=str(cluster.name), balancer=balancer.name, at=(), deviation={}, peak={})
    name = cluster.id if observation is None else observation.snapshot.reference.cluster
    if name is None:
        return empty
    parts = _parts(Lake(lake, balancer.pipeline()), (str(lake), balancer.name, name))
    if not parts:
        return empty
    ticks = np.concatenate([one.at for one in parts])
    chosen = np.argsort(ticks)[-_MAX_TICKS:]
    chosen = chosen[ticks[chosen] / 1e6 >= since]
    step = max(1, math.ceil(len(chosen) / max(1, max_points)))
    chosen = chosen[::-1][::step][::-1]

    def series(column: int) -> dict[str, tuple[float | None, ...]]:
        found = {}
        for resource in sorted({name for one in parts for name in one.values}):
            unknown = [np.full((len(one.at), len(_COLUMNS)), np.nan) for one in parts]
            columns = [one.values.get(resource, none) for one, none in zip(parts, unknown, strict=True)]
            values = np.concatenate(columns)[chosen, column]
            if len(values):
                found[resource] = tuple(None if math.isnan(one) else one for one in values.tolist())
        return found

    return LoadSeries(
        cluster=empty.cluster,
        balancer=empty.balancer,
        at=tuple((ticks[chosen] / 1e6).tolist()),
        deviation=series(0),
        peak=series(1),
    )


def _parts(lake: Lake, key: tuple[str, str, str]) -> list[_Part]:
    """The newest entries of the table, as many as are needed for `_MAX_TICKS`; only new ones are read."""
    known = _PARTS.get(key, {})
    found: dict[ManifestEntry, _Part] = {}
    count = 0
    entries = lake.manifest().tables.get("imbalance", ())
    for entry in sorted(entries, key=lambda one: one.end, reverse=True):
        part = found[entry] = known.get(entry) or _part(lake, entry, key[2])
        count += len(part.at)
        if count >= _MAX_TICKS:
            break
    _PARTS[key] = found
    return list(found.values())


def _part(lake: Lake, entry: ManifestEntry, cluster: str) -> _Part:
    rows = newest_rows(lake, (entry,), ("resource", *_COLUMNS), cluster, _MAX_TICKS)
    values: dict[str, FloatArray] = {}
    for place, tick in enumerate(rows):
        for row in rows[tick]:
            of = values.setdefault(str(row["resource"]), np.full((len(rows), len(_COLUMNS)), np.nan))
            of[place] = [np.nan if row.get(name) is None else row[name] for name in _COLUMNS]
    return _Part(np.array(list(rows), dtype=np.int64), values)
