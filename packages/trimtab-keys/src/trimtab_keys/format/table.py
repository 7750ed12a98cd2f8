"""Published routing tables, `trimtab/keys-table/1`, in a file or as records of a compacted topic.

A table says which topic it is of by name and by id, since a topic that was deleted and made anew has another
log: offsets of fences and marks would mean other records. Its checksum finds what was cut off or edited by
hand. It is no signature: whoever may write to the place can publish a table, so that place's rights decide
who may.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from trimtab_common.documents import Count, Id, Name, checked_format, document_bytes
from trimtab_common.errors import InputError
from trimtab_common.files import read_bytes, write_atomically
from trimtab_keys.core.routing import Route, RoutingTable, group_count

FORMAT: Final = "trimtab/keys-table/1"
PARTITION: Final = 0
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


def record_key(topic: str) -> bytes:
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
        raise InputError(f"{subject}: is no object, expected {FORMAT}; name the place of a routing table")
    checked_format(subject, loose.get("format"), FORMAT)
    try:
        found = msgspec.convert(loose, type=TableRecord)
    except msgspec.ValidationError as error:
        raise InputError(f"{subject}: is no {FORMAT} ({error}); {REPUBLISH_HINT}") from None
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
        format=FORMAT,
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
