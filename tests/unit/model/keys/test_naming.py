"""Keys as text and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.model.keys import key_bytes, key_text, short_key_text
from trimtab_common.errors import InputError


@given(st.binary(max_size=40) | st.text(max_size=20).map(str.encode))
def test_every_key_is_read_back(key: bytes) -> None:
    """For any bytes, its text names only this key."""
    assert key_bytes(key_text(key)) == key


@pytest.mark.parametrize(
    ("key", "text"),
    [(b"user 7", "user 7"), (b"", "0x"), (b"\xff\x00", "0xff00"), (b"0xff", "0x30786666"), (b" a", "0x2061")],
)
def test_texts_are_as_plain_as_they_can_be(key: bytes, text: str) -> None:
    """An ambiguous key is named by its bytes."""
    assert key_text(key) == text


@pytest.mark.parametrize("text", ["hmac:0123456789abcdef", "0xzz"])
def test_an_invalid_key_name_is_rejected(text: str) -> None:
    """A hash, and a text that only resembles bytes."""
    with pytest.raises(InputError, match=r"observe the topic again|hexadecimal"):
        key_bytes(text)


def test_a_long_key_is_abbreviated() -> None:
    """A key of a megabyte would fill the sentence."""
    assert short_key_text("user 7") == "user 7"
    assert short_key_text("x" * 40) == "x" * 40
    assert short_key_text("x" * 2**20) == "x" * 40 + "… (1,048,576 characters)"
