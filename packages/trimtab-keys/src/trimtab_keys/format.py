"""Documents of the data plane of keys: the stamp of a record, routing tables, and heartbeats of clients.

Tables and heartbeats are records of one compacted topic, each in a partition of its own. A table's record has
the topic's name as its key, so the last table counts. A heartbeat's key names the process. A process that
ends in order deletes its heartbeat; that of a killed process expires after `lasting_seconds`.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from trimtab_common.documents import Count, Id, Name, checked_format, document_bytes
from trimtab_common.errors import InputError
from trimtab_common.files import read_bytes, write_atomically
from trimtab_keys.core.order import PLAIN, Stamp
from trimtab_keys.core.routing import Route, RoutingTable, group_count

HEADER: Final = "trimtab-order"
"""Name of the header; a record without it has no stamp."""
VERSION: Final = 1


class EncodedStamp(NamedTuple):
    """A stamp as it stands in a record's header.

    Attributes
    ----------
    topic_id
        Of the topic that the record was written to: offsets and sequences mean nothing in another one.
    producer
        Name of the run that wrote it.
    stamp
        What the order guard goes by.
    is_gap_filler
        Whether the record has no content of its own: it stands for one that failed.
    """

    topic_id: str
    producer: str
    stamp: Stamp
    is_gap_filler: bool


UNSTAMPED: Final = EncodedStamp("", "", PLAIN, False)


class _StampRecord(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: int
    topic_id: str
    producer: str
    epoch: int
    sequence: int
    is_gap_filler: bool
    fence: list[tuple[int, int]]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_StampRecord)


def stamp_bytes(topic_id: str, producer: str, stamp: Stamp, fill: bool = False) -> bytes:
    """A header's value; arguments as the attributes of `EncodedStamp`."""
    return _ENCODER.encode((VERSION, topic_id, producer, stamp.epoch, stamp.sequence, fill, stamp.fence))


def read_stamp(data: Any, subject: str) -> EncodedStamp | None:
    """A stamp out of a header's value; None where no trimtab wrote it.

    Parameters
    ----------
    data
        The value; None for a record without the header.
    subject
        What errors call the record.

    Raises
    ------
    InputError
        If a newer trimtab wrote it: the record's place in its key's order is then unknown.
    """
    if data is None:
        return UNSTAMPED
    try:
        found = _DECODER.decode(data)
        if found.version == VERSION:
            stamp = Stamp(found.epoch, tuple(found.fence), found.sequence)
            return EncodedStamp(found.topic_id, found.producer, stamp, found.is_gap_filler)
    except (msgspec.DecodeError, TypeError):
        pass
    version = _version(data)
    if version <= VERSION:
        return None
    raise InputError(
        f"{subject}: its header {HEADER} is of version {version}, this program reads {VERSION}: a newer "
        "trimtab wrote it; update this program, or skip the record by committing the offset behind it"
    )


def _version(data: Any) -> int:
    """The version of what looks like a stamp, 0 for anything else."""
    try:
        version = msgspec.msgpack.decode(data, type=list[Any])[0]
    except (msgspec.DecodeError, TypeError, IndexError):
        return 0
    return version if isinstance(version, int) else 0


def stamp_in(headers: Sequence[tuple[str, object]]) -> Any:
    """The value of the header that holds the stamp; None where there is none.

    The last one counts, as for Kafka's own clients: a program may have copied another record's headers, and
    the producer writes its stamp behind them.
    """
    return next((value for name, value in reversed(headers) if name == HEADER), None)


def without_stamp(headers: Any) -> Any:
    """Headers that an application hands over, without a stamp that it copied from another record.

    Parameters
    ----------
    headers
        Pairs or a dictionary, as the client takes them, or None.
    """
    if not headers:
        return headers
    if isinstance(headers, dict):
        return {name: value for name, value in headers.items() if name != HEADER}
    return [one for one in headers if one[0] != HEADER]


TABLE_FORMAT: Final = "trimtab/keys-table/1"
TABLE_PARTITION: Final = 0
"""Of the topic of tables: the one that holds tables."""

Checksum = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
"""SHA-256 of the document as it would be written with an empty checksum."""
Key = Annotated[str, Meta(extra_json_schema={"contentEncoding": "base64"})]
"""A record's key as it is sent, in base64."""
REPUBLISH_HINT: Final = (
    "publish the table again with trimtab apply and --set execution.keys.overwrite_invalid=true"
)
HIGHEST: Final = 2**62
"""What a damaged text has above this is no version: there must be room for those to come."""


class GroupRecord(msgspec.Struct, forbid_unknown_fields=True):
    """Where a key group goes."""

    group: Count
    partitions: list[Id]
    earlier: list[Id]


class KeyRecord(msgspec.Struct, forbid_unknown_fields=True):
    """Where a hot key goes."""

    key: Key
    partitions: list[Id]
    earlier: list[Id]


class TableRecord(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A table as it is written; `passed` is left out where it is empty."""

    format: str
    topic: Name
    topic_id: Name
    version: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    base: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    partitions: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    key_groups: Annotated[int, Meta(ge=1)]
    groups: list[GroupRecord]
    keys: list[KeyRecord]
    passed: list[Count] = []
    checksum: Checksum


class PublishedTable(msgspec.Struct, frozen=True):
    """A routing table with the topic that it is of.

    Attributes
    ----------
    topic, topic_id
        Name, and the id that the cluster gave it when it was made, as text.
    table
        The routes.
    """

    topic: str
    topic_id: str
    table: RoutingTable


def table_record_key(topic: str) -> bytes:
    """The key of a topic's table among the records of a compacted topic; the last such record counts."""
    return f"table/{topic}".encode()


def table_bytes(published: PublishedTable) -> bytes:
    """The canonical text of a table: equal tables have equal bytes."""
    return _text(_record(published))


def write_table(published: PublishedTable, path: Path) -> None:
    """Write a table; the file appears as a whole or not at all.

    Raises
    ------
    InputError
        If the place cannot be written.
    """
    write_atomically(path, table_bytes(published))


def read_table_file(path: Path, topic: str | None = None, topic_id: str | None = None) -> PublishedTable:
    """The table of a file; as `read_table`."""
    return read_table(read_bytes(path), str(path), topic, topic_id)


def read_table(
    data: bytes, subject: str, topic: str | None = None, topic_id: str | None = None
) -> PublishedTable:
    """A table out of its bytes.

    Parameters
    ----------
    data
        The JSON text.
    subject
        Where it comes from, for messages.
    topic, topic_id
        What it must be of; None for any.

    Raises
    ------
    InputError
        If it is torn, edited, of a newer version of the format, or of another topic; or its routes
        contradict themselves.
    """
    try:
        loose = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{subject}: is torn or no JSON ({error}); {REPUBLISH_HINT}") from None
    if not isinstance(loose, dict):
        raise InputError(
            f"{subject}: is no object, expected {TABLE_FORMAT}; name the place of a routing table"
        )
    checked_format(subject, loose.get("format"), TABLE_FORMAT)
    try:
        found = msgspec.convert(loose, type=TableRecord)
    except msgspec.ValidationError as error:
        raise InputError(f"{subject}: is no {TABLE_FORMAT} ({error}); {REPUBLISH_HINT}") from None
    if found.checksum != _checksum(found):
        raise InputError(
            f"{subject}: its checksum is not that of its content, so that it was edited or damaged; "
            f"{REPUBLISH_HINT}"
        )
    for name, asked, its in (("topic", topic, found.topic), ("topic_id", topic_id, found.topic_id)):
        if asked is not None and asked != its:
            why = "of another topic" if name == "topic" else "of a topic that was deleted since"
            raise InputError(
                f"{subject}: {name} is {its!r}, expected {asked!r}: it is {why}; plan and apply anew for "
                "the topic as it is"
            )
    return PublishedTable(found.topic, found.topic_id, _table(found, subject))


def version_and_base(data: bytes) -> tuple[int, int]:
    """The version and the base that stand in a text, whether it is a table or torn; 0 for what does not.

    A number at which the text was cut off does not: it may have had more digits.
    """
    version, base = (
        [int(one) for one in re.findall(rb'"%s"\s*:\s*(\d{1,19})\s*[,}]' % name, data)]
        for name in (b"version", b"base")
    )
    return max((one for one in version if one <= HIGHEST), default=0), next(iter(base), 0)


def _table(found: TableRecord, subject: str) -> RoutingTable:
    if found.key_groups != group_count(found.base):
        raise InputError(
            f"{subject}: key_groups is {found.key_groups}, expected {group_count(found.base)} over "
            f"{found.base} base partitions; publish a corrected table"
        )
    try:
        keys = {b64decode(one.key, validate=True): one for one in found.keys}
    except ValueError:
        raise InputError(f"{subject}: a hot key is not base64; publish a corrected table") from None
    groups = {one.group: one for one in found.groups}
    if len(keys) < len(found.keys) or len(groups) < len(found.groups):
        raise InputError(f"{subject}: a key or a group stands there twice; publish a corrected table")
    try:
        return RoutingTable(
            found.version,
            found.base,
            found.partitions,
            {group: Route(tuple(one.partitions), tuple(one.earlier)) for group, one in groups.items()},
            {key: Route(tuple(one.partitions), tuple(one.earlier)) for key, one in keys.items()},
            tuple(found.passed),
        )
    except InputError as error:
        raise InputError(f"{subject}: {error}") from None


def _record(published: PublishedTable) -> TableRecord:
    table = published.table
    record = TableRecord(
        format=TABLE_FORMAT,
        topic=published.topic,
        topic_id=published.topic_id,
        version=table.version,
        base=table.base,
        partitions=table.partitions,
        key_groups=group_count(table.base),
        groups=[
            GroupRecord(group, list(route.partitions), list(route.earlier))
            for group, route in sorted(table.groups.items())
        ],
        keys=[
            KeyRecord(b64encode(key).decode(), list(route.partitions), list(route.earlier))
            for key, route in sorted(table.keys.items())
        ],
        passed=list(table.passed),
        checksum="",
    )
    record.checksum = _checksum(record)
    return record


def _checksum(record: TableRecord) -> str:
    return sha256(_text(msgspec.structs.replace(record, checksum=""))).hexdigest()


def _text(record: TableRecord) -> bytes:
    return document_bytes(msgspec.to_builtins(record))


HEARTBEAT_FORMAT: Final = "trimtab/keys-heartbeat/1"
HEARTBEAT_PARTITION: Final = 1
"""Of the topic of tables: the one that holds heartbeats."""
EVERY_SECONDS: Final = 3.0
"""Time between two heartbeats; a process that begins to follow another table tells at once."""
LONGEST_SECONDS: Final = 20.0
"""The same where many processes share the partition, and the longest that may be set."""
EXPIRY_HEARTBEATS: Final = 5
"""A process is taken for gone after so many that did not come."""


class ClientHeartbeat(msgspec.Struct, kw_only=True, forbid_unknown_fields=False):
    """What one producer or consumer of a topic tells.

    Attributes
    ----------
    process
        Name of its run: one that starts anew has another.
    role, client
        What it is, and the Kafka client that it runs on.
    topic, topic_id
        The topic that it sends to or receives from.
    at
        Seconds since 1970, by its own clock; the record's timestamp says when it was told.
    every_seconds
        Time until the next, `LONGEST_SECONDS` at most.
    version
        Of the table that it follows; 0 for the plain hash. A consumer follows what it has read.
    partitions
        How many the topic has, as it sees it.
    wrapped
        Whether it keeps order: a producer stamps its records, a consumer releases them in turn. A partitioner
        alone does not.
    plain_because
        Why it goes by the plain hash although it should follow a table; None where it should not.
    group, member
        Of a consumer: its group and its member id there, as brokers tell them; None before it has one.
    assigned
        Of a consumer: the partitions that it has.
    """

    format: str = HEARTBEAT_FORMAT
    process: Name
    role: Literal["producer", "consumer"]
    client: str
    topic: Name
    topic_id: str
    at: float
    every_seconds: Annotated[float, Meta(gt=0)] = EVERY_SECONDS
    version: Count
    partitions: Count
    wrapped: bool
    plain_because: str | None = None
    group: str | None = None
    member: str | None = None
    assigned: list[Id] = []

    @property
    def lasting_seconds(self) -> float:
        """Seconds after which the heartbeat expires."""
        return EXPIRY_HEARTBEATS * self.every_seconds


def heartbeat_record_key(topic: str, process: str) -> bytes:
    """The key of a process' heartbeats among the records of a compacted topic."""
    return f"heartbeat/{topic}/{process}".encode()


def heartbeat_bytes(heartbeat: ClientHeartbeat) -> bytes:
    """Encode a heartbeat as JSON."""
    return msgspec.json.encode(heartbeat)


def read_heartbeat(data: bytes) -> ClientHeartbeat | None:
    """A heartbeat; None where it cannot be read: one process must not keep all others from being seen."""
    try:
        found = msgspec.json.decode(data, type=ClientHeartbeat)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if found.format == HEARTBEAT_FORMAT else None
