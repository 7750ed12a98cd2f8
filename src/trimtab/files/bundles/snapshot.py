"""Bundles snapshots in files: `trimtab/bundles-snapshot/1`, as `.json`, `.json.gz` or a Parquet folder.

A record is a row of a table. Fields without a default must be there; `None` is only a value where the format
says that null is one. The time of departures is kept to the microsecond.
"""

import itertools
from typing import Annotated

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from trimtab.files.bundles.policies import POLICIES, check_patterns, policies_fields, policies_from
from trimtab.files.bundles.snapshot_tables import (
    bundle_columns,
    checked_bundles,
    checked_topics,
    topic_columns,
)
from trimtab.files.document import JsonDocument
from trimtab.files.head import TIME_PATTERN, checked_time, seconds_of, time_text
from trimtab.files.records import names_of
from trimtab.files.snapshot_format import SnapshotContents, SnapshotFormat
from trimtab.files.snapshot_source import SnapshotSource
from trimtab.model.bundles.snapshot import RESOURCES, BundleBrokers, BundlesSnapshot, Departure
from trimtab.model.documents import Amount, Bundle, Hash, Limit
from trimtab_common.documents import Name, one_of
from trimtab_common.errors import InputError

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
