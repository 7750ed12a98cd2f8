"""Routing tables and heartbeats as they are published: read back as written, refused where they must be."""

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab_common.errors import InputError
from trimtab_keys.core.routing import Route, RoutingTable
from trimtab_keys.format import (
    ClientHeartbeat,
    PublishedTable,
    heartbeat_bytes,
    heartbeat_record_key,
    read_heartbeat,
    read_table,
    read_table_file,
    table_bytes,
    table_record_key,
    write_table,
)

TABLE = PublishedTable(
    "orders",
    "c2Zr0iS-QDKq0bMgWmT3sA",
    RoutingTable(7, 3, 4, {5: Route((0,), (2,))}, {b"\x00hot\xff": Route((1, 3), (0,))}, (5, 0, 2**40)),
)


def test_a_table_is_read_back_unchanged(tmp_path: Path) -> None:
    """Written to a file and read for its topic, it is the same, keys of any bytes included."""
    write_table(TABLE, tmp_path / "table.json")
    assert read_table_file(tmp_path / "table.json", "orders", TABLE.topic_id) == TABLE
    assert table_bytes(read_table_file(tmp_path / "table.json")) == table_bytes(TABLE)
    assert table_record_key("orders") == b"table/orders"


def test_the_schema_accepts_written_tables() -> None:
    """Validation by the published schema agrees with ours."""
    schema = Path(__file__).parents[4] / "docs" / "reference" / "keys-table-1.schema.json"
    validator = jsonschema.Draft202012Validator(json.loads(schema.read_text()))
    document = json.loads(table_bytes(TABLE))
    validator.validate(document)
    assert not validator.is_valid({**document, "version": 0})


def test_a_table_of_before_offsets_stood_in_it_is_still_read() -> None:
    """It contains no offsets in effect, and its checksum is that of its own text."""
    before = PublishedTable("orders", "id", RoutingTable(1, 3, 3, {5: Route((0,))}))
    text = table_bytes(before)
    assert b"passed" not in text
    assert read_table(text, "t").table.passed == ()


@pytest.mark.parametrize("length", [0, 1, 100, -2])
def test_a_torn_table_is_refused(length: int) -> None:
    """However little is missing."""
    with pytest.raises(InputError, match="t: .*publish the table again"):
        read_table(table_bytes(TABLE)[:length], "t")


@pytest.mark.parametrize(
    "change",
    [
        {"version": 8},
        {"base": 2, "key_groups": 1024},
        {"groups": []},
        {"keys": []},
        {"topic_id": "another"},
        {"passed": [5, 0, 2**40 + 1]},
        {"checksum": "0" * 64},
    ],
)
def test_an_edited_table_is_refused(change: dict[str, object]) -> None:
    """Each field is under the checksum."""
    with pytest.raises(InputError, match="checksum is not that of its content"):
        read_table(json.dumps({**json.loads(table_bytes(TABLE)), **change}).encode(), "t")


def test_a_table_of_another_topic_or_format_is_refused() -> None:
    """Each error names the found and the expected value."""
    data = table_bytes(TABLE)
    with pytest.raises(InputError, match="topic is 'orders', expected 'sales': it is of another topic"):
        read_table(data, "t", "sales")
    with pytest.raises(InputError, match="of a topic that was deleted since"):
        read_table(data, "t", "orders", "other-id")
    newer = data.replace(b"keys-table/1", b"keys-table/2")
    with pytest.raises(InputError, match='expected "trimtab/keys-table/1"; this trimtab reads version 1'):
        read_table(newer, "t")
    with pytest.raises(InputError, match="is no object"):
        read_table(b"[]", "t")


@pytest.mark.parametrize(
    ("route", "told"),
    [
        ({"keys": [{"key": "aG90", "partitions": [4], "earlier": []}]}, "expected partitions 0 to 3"),
        ({"keys": [{"key": "aG90", "partitions": [], "earlier": []}]}, "no partition"),
        ({"keys": [{"key": "?", "partitions": [1], "earlier": []}]}, "not base64"),
        ({"groups": [{"group": 5, "partitions": [1], "earlier": []}] * 2}, "twice"),
        ({"key_groups": 1024}, "expected 1026"),
    ],
)
def test_impossible_routes_are_rejected(route: dict[str, object], told: str) -> None:
    """Also with a correct checksum: another program may have published it."""
    import hashlib

    from trimtab_common.documents import document_bytes

    document = {**json.loads(table_bytes(TABLE)), **route, "checksum": ""}
    document["checksum"] = hashlib.sha256(document_bytes(document)).hexdigest()
    with pytest.raises(InputError, match=told):
        read_table(document_bytes(document), "t")


@given(
    st.dictionaries(st.binary(min_size=1), st.permutations(range(5)).map(lambda p: Route(tuple(p[:2])))),
    st.dictionaries(st.integers(0, 1023), st.integers(0, 4).map(lambda p: Route((p,), (0,)))),
)
def test_any_table_is_read_back(keys: dict[bytes, Route], groups: dict[int, Route]) -> None:
    """For any keys."""
    table = PublishedTable("t", "id", RoutingTable(1, 4, 5, groups, keys))
    assert read_table(table_bytes(table), "t") == table


def test_a_heartbeat_is_read_back_and_damage_is_ignored() -> None:
    """A process with an unreadable heartbeat is ignored, and does not hide others."""
    beat = ClientHeartbeat(
        process="p1", role="consumer", client="aiokafka", topic="orders", topic_id="id", at=5.5, version=2,
        partitions=4, wrapped=True, group="g", member="m-1", assigned=[0, 3],
    )  # fmt: skip
    data = heartbeat_bytes(beat)
    assert read_heartbeat(data) == beat
    assert beat.lasting_seconds == 15
    assert read_heartbeat(data[:-1]) is None
    assert read_heartbeat(data.replace(b"heartbeat/1", b"heartbeat/2")) is None
    assert read_heartbeat(data.replace(b"}", b',"later":1}')) == beat
    assert heartbeat_record_key("orders", "p1") == b"heartbeat/orders/p1"
