"""A bundles snapshot as one JSON document."""

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from pathlib import Path

import msgspec
import numpy as np
from msgspec import UNSET, Struct

from trimtab.files.bundles_columns import BundleColumns, TopicColumns, snapshot_of
from trimtab.files.bundles_records import (
    FORMAT,
    HEAD,
    NAMES,
    TOP_LEVEL,
    BaseRecord,
    BrokerRecord,
    BundleRecord,
    Head,
    LimitRecord,
    LoadRecord,
    TopicRecord,
    head_fields,
)
from trimtab.files.document import JsonDocument, has_repeated_key
from trimtab.files.json_lines import field_line, no_collections, record_lines
from trimtab.files.snapshot_head import checked_format
from trimtab.model.bundles_snapshot import NO_OWNER, RESOURCES, BundleBrokers, BundlesSnapshot
from trimtab.model.load import FloatArray


def snapshot_from_json(path: Path, data: bytes, sha256: str) -> BundlesSnapshot:
    """Read and check a snapshot.

    Parameters
    ----------
    path
        Where `data` comes from, for messages.
    data
        The JSON text.
    sha256
        Digest of the file, for the reference.

    Raises
    ------
    InputError
        If it is not a sound snapshot; names the JSON path, the value found and what was expected.
    """
    with no_collections():
        document = JsonDocument(path, data, NAMES)
        document.require(("format",), tuple(document.parts))
        checked_format(str(path), document.part("format", object), FORMAT)
        document.require(TOP_LEVEL)
        brokers = document.part("brokers", list[BrokerRecord])
        bundles = document.part("bundles", list[BundleRecord])
        topics = document.part("topics", list[TopicRecord])
        if not _keys_are_unique(document, brokers, bundles, topics):
            _ = document.tree  # slow, and refuses repeated keys
        head = Head(document)
        return snapshot_of(
            str(path), _place, head, sha256, brokers, _bundle_columns(bundles), _topic_columns(topics)
        )


def json_from_snapshot(snapshot: BundlesSnapshot) -> bytes:
    """The JSON text of a snapshot, a broker, bundle or topic a line; the same bytes for the same snapshot."""
    with no_collections():
        parts = [
            b"{",
            *(field_line(name, value) + b",\n " for name, value in head_fields(snapshot).items()),
            b'"brokers": ' + record_lines(broker_records(snapshot.brokers)) + b",\n ",
            b'"bundles": ' + record_lines(_bundle_records(snapshot)) + b",\n ",
            b'"topics": ' + record_lines(_topic_records(snapshot)) + b"}\n",
        ]
        return b"".join(parts)


def broker_records(brokers: BundleBrokers) -> list[BrokerRecord]:
    """Brokers as they stand in files."""
    return [
        BrokerRecord(
            name=name,
            in_service=in_service,
            capacity=LimitRecord(*(limit if np.isfinite(limit) else UNSET for limit in capacity)),
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


def _bundle_records(snapshot: BundlesSnapshot) -> list[BundleRecord]:
    bundles = snapshot.bundles
    names = (*snapshot.brokers.name, None)
    assert NO_OWNER == -1  # so that it finds the None at the end
    rows = zip(
        bundles.key,
        bundles.owner.tolist(),
        bundles.movable.tolist(),
        bundles.sessions.tolist(),
        bundles.topics.tolist(),
        bundles.load.transpose(1, 0, 2).tolist(),
        strict=True,
    )
    return [
        BundleRecord(key, names[owner], movable, sessions, topics, [LoadRecord(*one) for one in load])
        for key, owner, movable, sessions, topics, load in rows
    ]


def _topic_records(snapshot: BundlesSnapshot) -> list[TopicRecord]:
    topics = snapshot.topics
    rows = zip(
        topics.name,
        topics.bundle.tolist(),
        topics.hash.tolist(),
        topics.sessions.tolist(),
        topics.load.tolist(),
        strict=True,
    )
    key = snapshot.bundles.key
    return [
        TopicRecord(name, key[bundle], number, sessions, LoadRecord(*load))
        for name, bundle, number, sessions, load in rows
    ]


def _place(part: str, row: int, field: str, item: int | None) -> str:
    place = f"$.{part}[{row}]" + (f".{field}" if field else "")
    return place if item is None else f"{place}[{item}]"


def _bundle_columns(records: list[BundleRecord]) -> BundleColumns:
    number = len(records)
    loads = list(map(attrgetter("load"), records))
    return BundleColumns(
        key=list(map(attrgetter("bundle"), records)),
        owner=list(map(attrgetter("owner"), records)),
        movable=np.fromiter(map(attrgetter("movable"), records), np.bool_, number),
        sessions=np.fromiter(map(attrgetter("sessions"), records), np.int64, number),
        topics=np.fromiter(map(attrgetter("topics"), records), np.int64, number),
        load_count=np.fromiter(map(len, loads), np.int64, number),
        load=_loads(list(chain.from_iterable(loads))),
    )


def _topic_columns(records: list[TopicRecord]) -> TopicColumns:
    number = len(records)
    return TopicColumns(
        name=list(map(attrgetter("topic"), records)),
        bundle=list(map(attrgetter("bundle"), records)),
        hash=np.fromiter(map(attrgetter("hash"), records), np.int64, number),
        sessions=np.fromiter(map(attrgetter("sessions"), records), np.int64, number),
        load=_loads(list(map(attrgetter("load"), records))),
    )


def _loads(records: list[LoadRecord]) -> FloatArray:
    amounts = chain.from_iterable(map(msgspec.structs.astuple, records))
    flat = np.fromiter(amounts, dtype=np.float64, count=len(records) * len(RESOURCES))
    return flat.reshape(len(records), len(RESOURCES))


def _keys_are_unique(document: JsonDocument, *records: Sequence[Struct]) -> bool:
    """Whether surely no object of the text holds a key twice; False where it takes a slow look to tell.

    msgspec silently keeps the last of two equal keys. A JSON text without backslashes holds one colon for
    each key, and those within strings; so do the records once written again, with each key once.
    """
    if b"\\" in document.data or any(has_repeated_key(bytes(document.parts[name])) for name in HEAD):
        return False
    head = sum(bytes(document.parts[name]).count(b":") for name in document.parts if name not in _BIG)
    top = len(document.parts) + sum(name.count(":") for name in document.parts)
    encoder = msgspec.json.Encoder()
    again = sum(encoder.encode_lines(part).count(b":") for part in records)
    return document.data.count(b":") == head + top + again


_BIG = ("brokers", "bundles", "topics")
