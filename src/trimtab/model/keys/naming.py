"""Record keys as text, for plans and people: what is printable as it is, anything else by its bytes."""

from __future__ import annotations

from typing import Final

from trimtab_common.errors import InputError

HEX: Final = "0x"
HASHED: Final = "hmac:"
"""Before a keyed hash, from which nobody gets the key back."""
MAX_KEY_LENGTH: Final = 40
"""Characters of a key that people are shown: a key may be a megabyte long."""


def short_key_text(text: str) -> str:
    """The text of a key, short enough for a sentence or a table; of a long one its beginning and length."""
    return text if len(text) <= MAX_KEY_LENGTH else f"{text[:MAX_KEY_LENGTH]}… ({len(text):,} characters)"


def key_text(key: bytes) -> str:
    """The text of a key; no two keys have the same."""
    try:
        text = key.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    plain = text.isprintable() and text == text.strip() and not text.startswith((HEX, HASHED))
    return text if text and plain else HEX + key.hex()


def key_bytes(text: str) -> bytes:
    """The key of a text.

    Raises
    ------
    InputError
        If it is a hash, or no text of a key.
    """
    if text.startswith(HASHED):
        raise InputError(
            f"key {text} is a hash, which names no key to a producer: observe the topic again without "
            "pipeline.keys.hash_keys"
        )
    if not text.startswith(HEX):
        return text.encode("utf-8")
    try:
        return bytes.fromhex(text.removeprefix(HEX))
    except ValueError:
        raise InputError(
            f"key {text} begins with {HEX} and is not hexadecimal: write the bytes of the key so"
        ) from None
