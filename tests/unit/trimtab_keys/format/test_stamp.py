"""Stamps of the order guard as a header's bytes."""

import msgspec
import pytest

from trimtab_common.errors import InputError
from trimtab_keys.core.order import Stamp
from trimtab_keys.format import (
    HEADER,
    UNSTAMPED,
    EncodedStamp,
    read_stamp,
    stamp_bytes,
    stamp_in,
    without_stamp,
)


@pytest.mark.parametrize("fill", [False, True])
def test_a_written_stamp_is_read_back(fill: bool) -> None:
    """Of a record without the header nothing is known, and nothing needs to be."""
    stamp = Stamp(3, ((0, 7), (2, 2**40)), 5)
    assert read_stamp(stamp_bytes("id", "p", stamp, fill), "r") == EncodedStamp("id", "p", stamp, fill)
    assert read_stamp(None, "r") == UNSTAMPED


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"forged",
        "a text",
        stamp_bytes("id", "p", Stamp(3, (), 5))[:-1],
        msgspec.msgpack.encode(5),
        msgspec.msgpack.encode(()),
        msgspec.msgpack.encode(("2",)),
        msgspec.msgpack.encode((1, "id", "p", 3, 5, False, (), "more")),
        msgspec.msgpack.encode((1, "id", "p", 3, "5", False, ())),
        msgspec.msgpack.encode((1, "id", "p", 3, 5, False, ((0,),))),
    ],
)
def test_a_foreign_header_is_no_stamp(data: object) -> None:
    """Anyone who may write to the topic can write such a header: it must not stop a consumer."""
    assert read_stamp(data, "r") is None


@pytest.mark.parametrize("rest", [("id", "p", 3, 5, False, ()), ("another form",), ()])
def test_a_stamp_of_a_newer_version_is_refused(rest: tuple[object, ...]) -> None:
    """The error names the record, both versions and both remedies."""
    with pytest.raises(InputError) as error:
        read_stamp(msgspec.msgpack.encode((2, *rest)), "t, partition 1, offset 5")
    assert str(error.value) == (
        f"t, partition 1, offset 5: its header {HEADER} is of version 2, this program reads 1: a newer "
        "trimtab wrote it; update this program, or skip the record by committing the offset behind it"
    )


def test_the_last_header_of_that_name_counts() -> None:
    """As with Kafka's own clients: the producer writes its stamp behind what the application gave."""
    assert stamp_in([(HEADER, b"copied"), ("trace", b"7"), (HEADER, b"written"), ("a", b"1")]) == b"written"
    assert stamp_in([("trace", b"7")]) is None
    assert stamp_in(()) is None


def test_only_a_copied_stamp_is_removed() -> None:
    """In each form that a client takes."""
    pairs = [("trace", b"7"), (HEADER, b"copied"), ("trace", None)]
    assert without_stamp(pairs) == [("trace", b"7"), ("trace", None)]
    assert without_stamp(tuple(pairs)) == [("trace", b"7"), ("trace", None)]
    assert without_stamp({"trace": b"7", HEADER: b"copied"}) == {"trace": b"7"}
    assert without_stamp(None) is None
    assert without_stamp([]) == []
