"""The leader's running means of every bundle's traffic (`TimeAverageMessageData`, `BundleData`).

Kept as arrays over all bundles: a hundred thousand bundles are updated in one pass, by the very same
operations in the same order and precision as Pulsar's, one bundle at a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.model.bundles.reports import (
    LONG_SAMPLES,
    RATE_IN,
    RATE_OUT,
    SHORT_SAMPLES,
    THROUGHPUT_IN,
    THROUGHPUT_OUT,
    TRAFFIC,
    UNKNOWN_BUNDLE,
    BrokerReport,
    BundleData,
    BundleStats,
    TimeAverage,
)
from trimtab.model.load import FloatArray, IntArray

IndexArray = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class BundleTable:
    """`BundleData` of all bundles, in the order in which they were first seen.

    That order stands where Pulsar iterates over a hash map: bundles of equal throughput are taken in it.

    Attributes
    ----------
    names
        Keys of the bundles.
    short, long
        Shape (bundles, 4), `TRAFFIC`: means in bytes and messages per second.
    short_samples, long_samples
        Shape (bundles,): how many samples each mean stands for.
    topics
        Shape (bundles,): how many topics each had last.
    """

    names: tuple[str, ...]
    short: FloatArray
    long: FloatArray
    short_samples: IntArray
    long_samples: IntArray
    topics: IntArray

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, bundle: object) -> bool:
        return bundle in self.row

    def __getitem__(self, bundle: str) -> BundleData:
        row = self.row[bundle]
        return BundleData(
            short=TimeAverage(int(self.short_samples[row]), *self.short[row].tolist()),
            long=TimeAverage(int(self.long_samples[row]), *self.long[row].tolist()),
            topics=int(self.topics[row]),
        )

    def in_order(self, names: tuple[str, ...]) -> "BundleTable":
        """The same bundles in another order."""
        return self.with_rows(names, [self.row[name] for name in names])

    def with_rows(self, names: tuple[str, ...], rows: "list[int] | IndexArray") -> "BundleTable":
        """These rows, under these names."""
        return BundleTable(names, *(array[rows] for array in self._arrays))

    @property
    def _arrays(self) -> tuple[Any, ...]:
        return (self.short, self.long, self.short_samples, self.long_samples, self.topics)

    @cached_property
    def row(self) -> dict[str, int]:
        """Row of each bundle."""
        return {name: row for row, name in enumerate(self.names)}

    @cached_property
    def short_throughput(self) -> FloatArray:
        """Shape (bundles,), bytes per second in and out; added in Pulsar's order, in before out."""
        return np.asarray(self.short[:, THROUGHPUT_IN] + self.short[:, THROUGHPUT_OUT])

    @cached_property
    def short_rate(self) -> FloatArray:
        """Shape (bundles,), messages per second in and out."""
        return np.asarray(self.short[:, RATE_IN] + self.short[:, RATE_OUT])

    @cached_property
    def long_throughput(self) -> FloatArray:
        """Shape (bundles,), bytes per second in and out."""
        return np.asarray(self.long[:, THROUGHPUT_IN] + self.long[:, THROUGHPUT_OUT])

    @cached_property
    def long_rate(self) -> FloatArray:
        """Shape (bundles,), messages per second in and out."""
        return np.asarray(self.long[:, RATE_IN] + self.long[:, RATE_OUT])


def table_of(bundles: Mapping[str, BundleData]) -> BundleTable:
    """The table that holds these, in their order."""
    # Of a hundred thousand bundles that nothing is known of, one is looked at.
    number: dict[int, int] = {}
    different: list[BundleData] = []
    rows = []
    for one in bundles.values():
        row = number.setdefault(id(one), len(different))
        if row == len(different):
            different.append(one)
        rows.append(row)
    found = BundleTable(
        (),
        np.array([[getattr(one.short, name) for name in TRAFFIC] for one in different]).reshape(-1, 4),
        np.array([[getattr(one.long, name) for name in TRAFFIC] for one in different]).reshape(-1, 4),
        np.array([one.short.samples for one in different], dtype=np.int32),
        np.array([one.long.samples for one in different], dtype=np.int32),
        np.array([one.topics for one in different], dtype=np.int32),
    )
    return found.with_rows(tuple(bundles), np.array(rows, dtype=np.intp))


EMPTY_TABLE = table_of({})


def updated(
    table: BundleTable,
    reports: Mapping[str, BrokerReport],
    quotas: Mapping[str, BundleData] = MappingProxyType({}),
) -> tuple[BundleTable, dict[tuple[str, str], tuple[float, float]]]:
    """The table after every report's `last_stats` was taken as one more sample.

    `ModularLoadManagerImpl.updateBundleData`: a bundle unknown so far begins with its quota, else with the
    defaults and no samples, so that its first sample replaces them; one that no report names is forgotten. A
    bundle that two reports name (it is just changing hands) is updated twice, in their order, as in Pulsar.

    Parameters
    ----------
    table
        What is known.
    reports
        All brokers', in the order in which they are taken in.
    quotas
        What bundles are taken for that have a resource quota.

    Returns
    -------
    tuple
        The table; and by broker and bundle the long-term rates, in and out in messages per second, as they
        were before a later broker's sample of the same bundle: the broker's own rate is added up from them.
    """
    rounds: list[dict[str, BundleStats]] = []
    reporter: list[dict[str, str]] = []
    seen: dict[str, int] = {}
    for broker, report in reports.items():
        for bundle, stats in report.last_stats.items():
            turn = seen.get(bundle, 0)
            seen[bundle] = turn + 1
            if turn == len(rounds):
                rounds.append({})
                reporter.append({})
            rounds[turn][bundle] = stats
            reporter[turn][bundle] = broker
    updated = _with_rows(table, seen, quotas)
    in_between: dict[tuple[str, str], tuple[float, float]] = {}
    for turn, sample in enumerate(rounds):
        updated = _sampled(updated, sample)
        for bundle in rounds[turn + 1] if turn + 1 < len(rounds) else ():
            rate_in, rate_out = updated.long[updated.row[bundle], [RATE_IN, RATE_OUT]].tolist()
            in_between[reporter[turn][bundle], bundle] = rate_in, rate_out
    return updated, in_between


def _with_rows(
    table: BundleTable, active: Mapping[str, int], quotas: Mapping[str, BundleData]
) -> BundleTable:
    """The table with rows for just these bundles: those it has in its order, then new ones in theirs."""
    kept = [row for row, name in enumerate(table.names) if name in active]
    fresh = [name for name in active if name not in table.row]
    begun = _initial_table(fresh, quotas)
    old = table.with_rows(tuple(table.names[row] for row in kept), kept)
    arrays = (np.concatenate(pair) for pair in zip(old._arrays, begun._arrays, strict=True))
    return BundleTable((*old.names, *fresh), *arrays)


def _initial_table(names: list[str], quotas: Mapping[str, BundleData]) -> BundleTable:
    """The table of these bundles before their first sample."""
    if any(name in quotas for name in names):
        return table_of({name: quotas.get(name, UNKNOWN_BUNDLE) for name in names})
    one = table_of({"": UNKNOWN_BUNDLE})
    return one.with_rows(tuple(names), np.zeros(len(names), dtype=np.intp))


def _sampled(table: BundleTable, sample: Mapping[str, BundleStats]) -> BundleTable:
    rows = np.fromiter((table.row[name] for name in sample), dtype=np.int64, count=len(sample))
    traffic = np.array(
        [
            (one.msg_throughput_in, one.msg_throughput_out, one.msg_rate_in, one.msg_rate_out)
            for one in sample.values()
        ]
    ).reshape(-1, 4)
    short, short_samples = _averaged(table.short, table.short_samples, rows, traffic, SHORT_SAMPLES)
    long, long_samples = _averaged(table.long, table.long_samples, rows, traffic, LONG_SAMPLES)
    topics = table.topics.copy()
    topics[rows] = [one.topics for one in sample.values()]
    return replace(
        table, short=short, short_samples=short_samples, long=long, long_samples=long_samples, topics=topics
    )


def _averaged(
    means: FloatArray, samples: IntArray, rows: np.ndarray, traffic: FloatArray, most: int
) -> tuple[FloatArray, IntArray]:
    """`TimeAverageMessageData.update`: n = min(n+1, max), mean = ((n-1)*mean + x) / n, in doubles."""
    count = samples.copy()
    count[rows] = np.minimum(count[rows] + 1, most)
    weight = count[rows].astype(np.float64)[:, None]
    mean = means.copy()
    mean[rows] = ((weight - 1) * mean[rows] + traffic) / weight
    return mean, count
