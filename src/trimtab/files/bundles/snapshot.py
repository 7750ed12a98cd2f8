"""Bundles snapshots in files: `trimtab/bundles-snapshot/1`, as `.json`, `.json.gz` or a Parquet folder.

The time of departures is kept to the microsecond.
"""

import itertools

from trimtab.files.bundles.policies import POLICIES, check_patterns, policies_fields, policies_from
from trimtab.files.bundles.records import (
    BrokerRecord,
    BundleRecord,
    DepartureRecord,
    LoadManager,
    TopicRecord,
    Usage,
)
from trimtab.files.bundles.snapshot_tables import (
    broker_records,
    bundle_columns,
    checked_brokers,
    checked_bundles,
    checked_topics,
    topic_columns,
)
from trimtab.files.document import JsonDocument
from trimtab.files.head import checked_time, seconds_of, time_text
from trimtab.files.records import names_of
from trimtab.files.snapshot_format import Contents, SnapshotFormat
from trimtab.files.snapshot_source import Source
from trimtab.model.bundles.snapshot import BundlesSnapshot, Departure
from trimtab.model.errors import InputError
from trimtab.model.values import Hash, Name

HEAD = ("views", "load_manager", "usage", "departures", "boundaries", "policies")


def _build(source: Source) -> BundlesSnapshot:
    document = source.document
    views = tuple(document.part("views", list[Name]))
    if not views or views[0] != "window 0":
        raise document.refusal("$.views", list(views), '"window 0", the newest, as the first view')
    if len(set(views)) < len(views):
        raise document.refusal("$.views", list(views), "each view once")
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


def _contents(snapshot: BundlesSnapshot) -> Contents:
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
    return Contents(
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
            raise document.refusal(at, cuts, "boundaries from 0 to 4294967295")
        if any(later <= before for before, later in itertools.pairwise(cuts)):
            raise document.refusal(at, cuts, "rising boundaries")
        found[namespace] = tuple(cuts)
    return found


FORMAT = SnapshotFormat(
    name="trimtab/bundles-snapshot/1",
    kind=BundlesSnapshot,
    head=HEAD,
    records={"brokers": BrokerRecord},
    columns={"bundles": BundleRecord, "topics": TopicRecord},
    build=_build,
    contents=_contents,
    described=_described,
    names=(*names_of(DepartureRecord), *names_of(POLICIES)),
)

read_bundles_snapshot, write_bundles_snapshot = FORMAT.read, FORMAT.write
