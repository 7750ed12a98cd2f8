"""Brokers, bundles and topics of a snapshot file as columns, whatever its form, and what must hold of them.

All checks are made on whole columns: a million topics take seconds, not minutes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from trimtab.files.bundles_records import BrokerRecord, Head
from trimtab.files.columns import Lists, LongArray
from trimtab.files.document import shown
from trimtab.model.bundle_range import FULL_UPPER, BundleRange, bundles_between, parse_bundle
from trimtab.model.bundles_snapshot import (
    NO_OWNER,
    RESOURCES,
    BundleBrokers,
    Bundles,
    BundlesSnapshot,
    BundleTopics,
)
from trimtab.model.errors import InputError
from trimtab.model.load import BoolArray, FloatArray

Where = Callable[[str, int, str, int | None], str]
"""Names a place for a message: (`brokers`, `bundles` or `topics`, row, field, index in its list or None)."""


@dataclass(frozen=True, eq=False)
class BundleColumns:
    """Bundles in the order of the file; types are checked, contents are not.

    Attributes
    ----------
    key, owner
        Length (bundles,).
    load_count
        Shape (bundles,): how many loads each has.
    load
        Shape (all loads, resources), end to end.
    """

    key: list[str]
    owner: list[str | None]
    movable: BoolArray
    sessions: LongArray
    topics: LongArray
    load_count: LongArray
    load: FloatArray


@dataclass(frozen=True, eq=False)
class TopicColumns:
    """Topics in the order of the file; `load` has the shape (topics, resources)."""

    name: list[str]
    bundle: list[str]
    hash: LongArray
    sessions: LongArray
    load: FloatArray


def snapshot_of(
    where: str,
    place: Where,
    head: Head,
    sha256: str,
    brokers: list[BrokerRecord],
    bundles: BundleColumns,
    topics: TopicColumns,
) -> BundlesSnapshot:
    """The snapshot, in the model's order.

    Parameters
    ----------
    where
        The file, for messages.
    place
        Names a place in it.

    Raises
    ------
    InputError
        If the parts contradict themselves or each other; names the first place that does.
    """
    check = _Check(where, place)
    known = check.brokers(brokers)
    held, ranges = check.bundles(bundles, known, head)
    return BundlesSnapshot(
        reference=head.reference(sha256),
        quality=head.quality,
        taken_at=head.taken_at,
        views=head.views,
        brokers=known,
        bundles=held,
        topics=check.topics(topics, held, ranges),
        departures=head.departures,
        boundaries=head.boundaries,
        policies=head.policies,
        load_manager=head.load_manager,
        usage=head.usage,
    )


class _Check:
    """One method for each part; each finds the first offender and names its place."""

    def __init__(self, where: str, place: Where) -> None:
        self.where = where
        self.place = place

    def refusal(
        self,
        part: str,
        row: int,
        field: str,
        found: object,
        expected: str,
        *,
        item: int | None = None,
        remedy: str = "correct it there",
    ) -> InputError:
        at = self.place(part, row, field, item)
        return InputError(f"{self.where}: {at} is {shown(found)}, expected {expected}; {remedy}")

    def unique(self, part: str, field: str, names: list[str]) -> None:
        first: dict[str, int] = {}
        for row, name in enumerate(names):
            if name in first:
                places = f"{self.place(part, first[name], '', None)} and {self.place(part, row, '', None)}"
                raise InputError(f"{self.where}: {places} both describe {name}; keep one of them")
            first[name] = row

    def brokers(self, records: list[BrokerRecord]) -> BundleBrokers:
        if not records:
            raise InputError(f"{self.where}: brokers are none, expected at least one; export it again")
        self.unique("brokers", "name", [record.name for record in records])
        for row, record in enumerate(records):
            for name in RESOURCES:
                limit = getattr(record.capacity, name)
                if limit is not UNSET and not (np.isfinite(limit) and limit > 0):
                    remedy = "leave the field out if it is not limited"
                    expected = "a finite number above 0"
                    raise self.refusal("brokers", row, f"capacity.{name}", limit, expected, remedy=remedy)
                base = getattr(record.base, name)
                if not np.isfinite(base):
                    raise self.refusal("brokers", row, f"base.{name}", base, "a finite number, 0 or more")
        ordered = sorted(records, key=lambda record: record.name)
        limits = [[getattr(record.capacity, name) for name in RESOURCES] for record in ordered]
        return BundleBrokers(
            name=tuple(record.name for record in ordered),
            in_service=np.array([record.in_service for record in ordered], dtype=np.bool_),
            capacity=np.array(
                [[np.inf if limit is UNSET else limit for limit in row] for row in limits], dtype=np.float64
            ),
            base=np.array([[getattr(record.base, name) for name in RESOURCES] for record in ordered]),
        )

    def bundles(
        self, columns: BundleColumns, brokers: BundleBrokers, head: Head
    ) -> tuple[Bundles, list[BundleRange]]:
        """The bundles, and the range of each, both by ascending key."""
        views = len(head.views)
        self.unique("bundles", "bundle", columns.key)
        ranges = []
        for row, key in enumerate(columns.key):
            try:
                ranges.append(parse_bundle(key))
            except InputError as fault:
                raise InputError(
                    f"{self.where}: {self.place('bundles', row, 'bundle', None)}: {fault}"
                ) from None
        index: dict[str | None, int] = {name: number for number, name in enumerate(brokers.name)}
        index[None] = NO_OWNER
        for row, owner in enumerate(columns.owner):
            if owner not in index:
                remedy = "add the broker (in_service false if it is gone) or correct the owner"
                raise self.refusal(
                    "bundles",
                    row,
                    "owner",
                    owner,
                    "the name of a broker in this file, or null",
                    remedy=remedy,
                )
        wrong = np.flatnonzero(columns.load_count != views)
        if len(wrong):
            row = int(wrong[0])
            raise InputError(
                f"{self.where}: {self.place('bundles', row, 'load', None)} is a list of "
                f"{columns.load_count[row]}, expected {views}, one for each of `views`; correct it there"
            )
        self.loads("bundles", columns.load, Lists(columns.load_count, np.arange(len(columns.load))))
        self.no_overlaps(ranges, head.boundaries)
        order = sorted(range(len(ranges)), key=columns.key.__getitem__)
        load = columns.load.reshape(len(ranges), views, len(RESOURCES))[order]
        held = Bundles(
            key=tuple(columns.key[row] for row in order),
            owner=np.array([index[columns.owner[row]] for row in order], dtype=np.int32),
            load=np.ascontiguousarray(load.transpose(1, 0, 2)),
            sessions=columns.sessions[order],
            topics=columns.topics[order],
            movable=columns.movable[order],
        )
        return held, [ranges[row] for row in order]

    def loads(self, part: str, load: FloatArray, lists: Lists | None = None) -> None:
        sound = np.isfinite(load) & (load >= 0)
        if sound.all():
            return
        number, resource = (int(index) for index in np.argwhere(~sound)[0])
        row = number if lists is None else int(lists.row[number])
        item = None if lists is None else int(lists.column[number])
        value = float(load[number, resource])
        at = self.place(part, row, "load", item)
        raise InputError(
            f"{self.where}: {at}.{RESOURCES[resource]} is {value:g}, expected a finite number, 0 or more; "
            "correct it there"
        )

    def no_overlaps(self, ranges: list[BundleRange], boundaries: dict[str, tuple[int, ...]]) -> None:
        """Refuse bundles with a topic in common, and those that their namespace's boundaries do not make."""
        for one, other in pairwise(sorted(ranges)):
            if one.overlaps(other):
                raise InputError(
                    f"{self.where}: bundles {one.key} and {other.key} overlap: a topic is in one "
                    "bundle only; drop the one from before the split"
                )
        of = {name: set(bundles_between(name, cuts)) for name, cuts in boundaries.items()}
        for row, bundle in enumerate(ranges):
            if bundle.namespace in of and bundle not in of[bundle.namespace]:
                expected = f"one that the boundaries of {bundle.namespace} make"
                raise self.refusal("bundles", row, "bundle", bundle.key, expected)

    def topics(self, columns: TopicColumns, bundles: Bundles, ranges: list[BundleRange]) -> BundleTopics:
        index = {key: row for row, key in enumerate(bundles.key)}
        for row, key in enumerate(columns.bundle):
            if key not in index:
                raise self.refusal("topics", row, "bundle", key, "the name of a bundle in this file")
        of = np.fromiter((index[key] for key in columns.bundle), dtype=np.int32, count=len(columns.bundle))
        self.loads("topics", columns.load)
        low = np.array([one.low for one in ranges], dtype=np.int64)
        high = np.array([one.high + (one.high == FULL_UPPER) for one in ranges], dtype=np.int64)
        if len(of):
            outside: NDArray[np.bool_] = (columns.hash < low[of]) | (columns.hash >= high[of])
            if outside.any():
                row = int(np.flatnonzero(outside)[0])
                expected = f"one that {columns.bundle[row]} holds"
                raise self.refusal("topics", row, "hash", int(columns.hash[row]), expected)
        if len(set(columns.name)) < len(columns.name):
            self.unique("topics", "topic", columns.name)
        order = (
            sorted(range(len(of)), key=lambda row: (of[row], columns.hash[row], columns.name[row]))
            if _has_ties(of, columns.hash)
            else np.lexsort((columns.hash, of)).tolist()
        )
        return BundleTopics(
            name=tuple(columns.name[row] for row in order),
            bundle=of[order],
            hash=columns.hash[order],
            load=np.ascontiguousarray(columns.load[order]),
            sessions=columns.sessions[order],
        )


def _has_ties(bundle: NDArray[np.int32], hashes: LongArray) -> bool:
    """Whether two topics of a bundle have one hash: then their names decide the order."""
    order = np.lexsort((hashes, bundle))
    return bool(((np.diff(bundle[order]) == 0) & (np.diff(hashes[order]) == 0)).any())
