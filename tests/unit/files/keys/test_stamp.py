"""Stamps of the order guard as a header's bytes."""

import msgspec
import pytest

from trimtab.files.keys.stamp import HEADER, read_stamp, stamp_bytes
from trimtab.model.errors import InputError
from trimtab.online.keys.order.messages import PLAIN, Stamp


@pytest.mark.parametrize("fill", [False, True])
def test_what_is_written_is_read(fill: bool) -> None:
    """Of a record without the header nothing is known, and nothing needs to be."""
    stamp = Stamp(3, ((0, 7), (2, 2**40)), 5)
    assert read_stamp(stamp_bytes("p", stamp, fill), "r") == ("p", stamp, fill)
    assert read_stamp(None, "r") == ("", PLAIN, False)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"forged",
        stamp_bytes("p", Stamp(3, (), 5))[:-1],
        msgspec.msgpack.encode((2, "p", 3, 5, False, ())),
        msgspec.msgpack.encode((1, "p", 3, 5, False, (), "more")),
        msgspec.msgpack.encode((1, "p", 3, "5", False, ())),
        msgspec.msgpack.encode((1, "p", 3, 5, False, ((0,),))),
    ],
    ids=["nothing", "another's", "torn", "newer", "longer", "a text", "half a fence"],
)
def test_what_cannot_be_read_is_refused(data: bytes) -> None:
    """With the record, and with both ways on."""
    with pytest.raises(InputError) as error:
        read_stamp(data, "t, partition 1, offset 5")
    told = str(error.value)
    assert told.startswith(f"t, partition 1, offset 5: its header {HEADER} is not of version 1")
    assert "update this program, or skip the record by committing the offset behind it" in told
