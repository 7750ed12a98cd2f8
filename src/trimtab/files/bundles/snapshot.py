"""Bundles and topics of a snapshot file: to the model and back, and what must hold of them.

All checks are made on whole columns: a million topics take seconds, not minutes.

Bundles snapshots in files: `trimtab/bundles-snapshot/1`, as `.json`, `.json.gz` or a Parquet folder.

A record is a row of a table. Fields without a default must be there; `None` is only a value where the format
says that null is one. The time of departures is kept to the microsecond.
"""

from __future__ import annotations

import itertools
from itertools import pairwise
from typing import Annotated

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType
from numpy.typing import NDArray  # noqa: TC002

from trimtab.files.bundles.policies import POLICIES, check_patterns, policies_fields, policies_from
from trimtab.files.columns import LEFT_OUT, Columns, ListColumn, LongArray, TextColumn
from trimtab.files.document import JsonDocument
from trimtab.files.head import TIME_PATTERN, checked_time, seconds_of, time_text
from trimtab.files.records import names_of
from trimtab.files.snapshot_format import SnapshotContents, SnapshotFormat
from trimtab.files.snapshot_source import SnapshotSource
from trimtab.model.bundles.snapshot import (
    FULL_UPPER,
    NO_OWNER,
    RESOURCES,
    BundleBrokers,
    BundleRange,
    Bundles,
    BundlesSnapshot,
    BundleTopics,
    Departure,
    bundles_between,
    parse_bundle,
)
from trimtab.model.documents import Amount, Bundle, Hash, Limit
from trimtab_common.documents import Name, one_of
from trimtab_common.errors import InputError


def checked_bundles(
    source: SnapshotSource, brokers: BundleBrokers, views: int, boundaries: dict[str, tuple[int, ...]]
) -> tuple[Bundles, list[BundleRange]]:
    """The bundles, and the range of each, both by ascending key.

    Parameters
    ----------
    views
        How many loads each must have.
    boundaries
        Of namespaces: bundles of one of these must be those that its boundaries make.

    Raises
    ------
    InputError
        If a bundle stands twice, has no bundle's name, overlaps another, or is owned by no known broker.
    """
    columns = source.columns["bundles"]
    keys: list[str] = columns["bundle"].values
    source.check_unique("bundles", keys)
    ranges = []
    for row, key in enumerate(keys):
        try:
            ranges.append(parse_bundle(key))
        except InputError as fault:
            place = f"{source.file('bundles')}: {source.at('bundles', row, 'bundle')}"
            raise InputError(f"{place}: {fault}") from None
    index: dict[str | None, int] = {name: number for number, name in enumerate(brokers.name)}
    index[None] = NO_OWNER
    owners: list[str | None] = columns["owner"].values
    for row, owner in enumerate(owners):
        if owner not in index:
            expected = "the name of a broker in this file, or null"
            remedy = "add the broker (in_service false if it is gone) or correct the owner"
            raise source.error("bundles", row, "owner", owner, expected, remedy=remedy)
    loads: ListColumn = columns["load"]
    wrong = np.flatnonzero(loads.count != views)
    if len(wrong):
        row = int(wrong[0])
        expected = f"{views}, one for each of `views`"
        raise source.length_error("bundles", row, "load", int(loads.count[row]), expected)
    source.check_loads("bundles", "load", RESOURCES)
    _check_overlaps(source, ranges, boundaries)
    order = sorted(range(len(ranges)), key=keys.__getitem__)
    load = loads.values.reshape(len(ranges), views, len(RESOURCES))[order]
    held = Bundles(
        key=tuple(keys[row] for row in order),
        owner=np.array([index[owners[row]] for row in order], dtype=np.int32),
        load=np.ascontiguousarray(load.transpose(1, 0, 2)),
        sessions=columns["sessions"][order],
        topics=columns["topics"][order],
        movable=columns["movable"][order],
    )
    return held, [ranges[row] for row in order]


def bundle_columns(snapshot: BundlesSnapshot) -> Columns:
    """Columns of bundles for a file; the inverse of `checked_bundles`."""
    bundles = snapshot.bundles
    number, views = len(bundles), len(snapshot.views)
    load = np.ascontiguousarray(bundles.load.transpose(1, 0, 2)).reshape(-1, len(RESOURCES))
    assert NO_OWNER == LEFT_OUT  # so that nobody is null
    return {
        "bundle": TextColumn(bundles.key),
        "owner": TextColumn(coded=(snapshot.brokers.name, bundles.owner.astype(np.int64))),
        "movable": bundles.movable,
        "sessions": bundles.sessions,
        "topics": bundles.topics,
        "load": ListColumn(np.full(number, views, dtype=np.int64), load),
    }


def checked_topics(source: SnapshotSource, bundles: Bundles, ranges: list[BundleRange]) -> BundleTopics:
    """The topics, by bundle and hash.

    Raises
    ------
    InputError
        If a topic stands twice, or is in no bundle of the file or outside of the one that it names.
    """
    columns = source.columns["topics"]
    names, keys, hashes = columns["topic"].values, columns["bundle"].values, columns["hash"]
    index = {key: row for row, key in enumerate(bundles.key)}
    for row, key in enumerate(keys):
        if key not in index:
            raise source.error("topics", row, "bundle", key, "the name of a bundle in this file")
    of = np.fromiter((index[key] for key in keys), dtype=np.int32, count=len(keys))
    source.check_loads("topics", "load", RESOURCES)
    low = np.array([one.low for one in ranges], dtype=np.int64)
    high = np.array([one.high + (one.high == FULL_UPPER) for one in ranges], dtype=np.int64)
    if len(of):
        outside: NDArray[np.bool_] = (hashes < low[of]) | (hashes >= high[of])
        if outside.any():
            row = int(np.flatnonzero(outside)[0])
            raise source.error("topics", row, "hash", int(hashes[row]), f"one that {keys[row]} holds")
    source.check_unique("topics", names)
    order = (
        sorted(range(len(of)), key=lambda row: (of[row], hashes[row], names[row]))
        if _has_ties(of, hashes)
        else np.lexsort((hashes, of)).tolist()
    )
    return BundleTopics(
        name=tuple(names[row] for row in order),
        bundle=of[order],
        hash=hashes[order],
        load=np.ascontiguousarray(columns["load"][order]),
        sessions=columns["sessions"][order],
    )


def topic_columns(snapshot: BundlesSnapshot) -> Columns:
    """Columns of topics for a file; the inverse of `checked_topics`."""
    topics = snapshot.topics
    return {
        "topic": TextColumn(topics.name),
        "bundle": TextColumn(coded=(snapshot.bundles.key, topics.bundle.astype(np.int64))),
        "hash": topics.hash,
        "sessions": topics.sessions,
        "load": topics.load,
    }


def _check_overlaps(
    source: SnapshotSource, ranges: list[BundleRange], boundaries: dict[str, tuple[int, ...]]
) -> None:
    """Refuse bundles with a topic in common, and those that their namespace's boundaries do not make."""
    for one, other in pairwise(sorted(ranges)):
        if one.overlaps(other):
            raise InputError(
                f"{source.file('bundles')}: bundles {one.key} and {other.key} overlap: a topic is in one "
                "bundle only; drop the one from before the split"
            )
    of = {name: set(bundles_between(name, cuts)) for name, cuts in boundaries.items()}
    for row, bundle in enumerate(ranges):
        if bundle.namespace in of and bundle not in of[bundle.namespace]:
            expected = f"one that the boundaries of {bundle.namespace} make"
            raise source.error("bundles", row, "bundle", bundle.key, expected)


def _has_ties(bundle: NDArray[np.int32], hashes: LongArray) -> bool:
    """True if two topics of a bundle have one hash: then their names decide the order."""
    order = np.lexsort((hashes, bundle))
    return bool(((np.diff(bundle[order]) == 0) & (np.diff(hashes[order]) == 0)).any())


HEAD = ("views", "load_manager", "usage", "departures", "boundaries", "policies")

Stored = Annotated[int, Meta(ge=0, le=2**62)]
"""A number of things, as a column of 64-bit numbers holds it."""

LoadManager = Annotated[str, one_of("modular", "extensible")]
Usage = Annotated[str, one_of("measured", "declared")]


class BundleCapacityRecord(Struct, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    """The capacity of a broker; a resource left out is not limited and not balanced."""

    cpu: Limit | UnsetType = UNSET
    bandwidth_in: Limit | UnsetType = UNSET
    bandwidth_out: Limit | UnsetType = UNSET
    message_rate: Limit | UnsetType = UNSET


class BundleLoadRecord(Struct, forbid_unknown_fields=True, gc=False):
    """The load that a bundle or a topic brings along, in one view."""

    cpu: Amount
    bandwidth_in: Amount
    bandwidth_out: Amount
    message_rate: Amount


class BaseRecord(Struct, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    """The load of a broker that owns nothing; a resource left out is 0."""

    cpu: Amount = 0.0
    bandwidth_in: Amount = 0.0
    bandwidth_out: Amount = 0.0
    message_rate: Amount = 0.0


class BundleBrokerRecord(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One broker in a snapshot file."""

    name: Name
    in_service: bool
    capacity: BundleCapacityRecord = msgspec.field(default_factory=BundleCapacityRecord)
    base: BaseRecord = msgspec.field(default_factory=BaseRecord)


class BundleRecord(Struct, forbid_unknown_fields=True, gc=False):
    """One bundle; a load for every view."""

    bundle: Bundle
    owner: Name | None
    movable: bool
    sessions: Stored
    topics: Stored
    load: list[BundleLoadRecord]


class TopicRecord(Struct, forbid_unknown_fields=True, gc=False):
    """One topic that carries traffic."""

    topic: Name
    bundle: Name
    hash: Hash
    sessions: Stored
    load: BundleLoadRecord


class DepartureRecord(Struct, forbid_unknown_fields=True):
    """A bundle that left a broker."""

    bundle: Name
    broker: Name
    at: Annotated[str, Meta(extra_json_schema={"pattern": TIME_PATTERN})]


def checked_brokers(source: SnapshotSource) -> BundleBrokers:
    """The brokers, by ascending name.

    Raises
    ------
    InputError
        If there is none, a name stands twice, or a capacity or base is no number that can be.
    """
    records: list[BundleBrokerRecord] = source.records["brokers"]
    if not records:
        raise InputError(
            f"{source.file('brokers')}: brokers are none, expected at least one; export it again"
        )
    source.check_unique("brokers", [record.name for record in records])
    for row, record in enumerate(records):
        for name in RESOURCES:
            limit = getattr(record.capacity, name)
            if limit is not UNSET and not (np.isfinite(limit) and limit > 0):
                remedy = "leave the field out if it is not limited"
                expected = "a finite number above 0"
                raise source.error("brokers", row, f"capacity.{name}", limit, expected, remedy=remedy)
            base = getattr(record.base, name)
            if not np.isfinite(base):
                raise source.error("brokers", row, f"base.{name}", base, "a finite number, 0 or more")
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


def broker_records(brokers: BundleBrokers) -> list[BundleBrokerRecord]:
    """Records of brokers for a file; the inverse of `checked_brokers`."""
    return [
        BundleBrokerRecord(
            name=name,
            in_service=in_service,
            capacity=BundleCapacityRecord(*(limit if np.isfinite(limit) else UNSET for limit in capacity)),
            base=BaseRecord(*base),
        )
        for name, in_service, capacity, base in zip(
            brokers.name,
            brokers.in_service.tolist(),
            brokers.capacity.tolist(),
            brokers.base.tolist(),
            strict=True,
        )
    ]


def _build(source: SnapshotSource) -> BundlesSnapshot:
    document = source.document
    views = tuple(document.part("views", list[Name]))
    if not views or views[0] != "window 0":
        raise document.error("$.views", list(views), '"window 0", the newest, as the first view')
    if len(set(views)) < len(views):
        raise document.error("$.views", list(views), "each view once")
    load_manager, usage = document.part("load_manager", LoadManager), document.part("usage", Usage)
    departures, boundaries = _departures(document), _boundaries(document)
    policies = policies_from(document.part("policies", POLICIES))
    check_patterns(document, policies)
    brokers = checked_brokers(source)
    bundles, ranges = checked_bundles(source, brokers, len(views), boundaries)
    return BundlesSnapshot(
        reference=source.reference,
        quality=source.quality,
        taken_at=seconds_of(source.reference.taken_at),
        views=views,
        brokers=brokers,
        bundles=bundles,
        topics=checked_topics(source, bundles, ranges),
        departures=departures,
        boundaries=boundaries,
        policies=policies,
        load_manager=load_manager,
        usage=usage,
    )


def _contents(snapshot: BundlesSnapshot) -> SnapshotContents:
    head = {
        "views": list(snapshot.views),
        "load_manager": snapshot.load_manager,
        "usage": snapshot.usage,
        "departures": [
            {"bundle": one.bundle, "broker": one.broker, "at": time_text(one.at)}
            for one in snapshot.departures
        ],
        "boundaries": {name: list(snapshot.boundaries[name]) for name in sorted(snapshot.boundaries)},
        "policies": policies_fields(snapshot.policies),
    }
    return SnapshotContents(
        head=head,
        records={"brokers": broker_records(snapshot.brokers)},
        columns={"bundles": bundle_columns(snapshot), "topics": topic_columns(snapshot)},
    )


def _described(snapshot: BundlesSnapshot) -> str:
    return (
        f"{len(snapshot.brokers)} brokers, {len(snapshot.bundles)} bundles and {len(snapshot.topics)} topics "
        f"of {snapshot.reference.cluster}, taken at {snapshot.reference.taken_at}"
    )


def _departures(document: JsonDocument) -> tuple[Departure, ...]:
    where = str(document.path)
    departed = document.part("departures", list[DepartureRecord])
    times = [
        seconds_of(checked_time(where, f"$.departures[{row}].at", one.at)) for row, one in enumerate(departed)
    ]
    for row in range(1, len(times)):
        if times[row] < times[row - 1]:
            raise InputError(
                f"{where}: $.departures[{row}].at is before that of the departure before it; put them in "
                "order, the oldest first"
            )
    return tuple(Departure(one.bundle, one.broker, at) for one, at in zip(departed, times, strict=True))


def _boundaries(document: JsonDocument) -> dict[str, tuple[int, ...]]:
    found = {}
    for namespace, cuts in document.part("boundaries", dict[str, list[Hash]]).items():
        at = f'$.boundaries["{namespace}"]'
        if len(cuts) < 2 or cuts[0] != 0 or cuts[-1] != 0xFFFFFFFF:
            raise document.error(at, cuts, "boundaries from 0 to 4294967295")
        if any(later <= before for before, later in itertools.pairwise(cuts)):
            raise document.error(at, cuts, "rising boundaries")
        found[namespace] = tuple(cuts)
    return found


FORMAT = SnapshotFormat(
    name="trimtab/bundles-snapshot/1",
    kind=BundlesSnapshot,
    head=HEAD,
    records={"brokers": BundleBrokerRecord},
    columns={"bundles": BundleRecord, "topics": TopicRecord},
    build=_build,
    contents=_contents,
    described=_described,
    names=(*names_of(DepartureRecord), *names_of(POLICIES)),
)

read_bundles_snapshot, write_bundles_snapshot = FORMAT.read, FORMAT.write
