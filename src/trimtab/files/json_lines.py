"""Big JSON documents, a record a line."""

import contextlib
import gc
from collections.abc import Iterator, Sequence

import msgspec


def field_line(name: str, value: object) -> bytes:
    """A field of an object."""
    return msgspec.json.encode(name) + b": " + msgspec.json.encode(value)


def record_lines(records: Sequence[msgspec.Struct]) -> bytes:
    """A JSON list with a record a line: raw line breaks never stand within JSON strings."""
    if not records:
        return b"[]"
    return (
        b"[\n  "
        + msgspec.json.Encoder().encode_lines(records).rstrip(b"\n").replace(b"\n", b",\n  ")
        + b"\n ]"
    )


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    """Hold the garbage collector back: it would walk hundreds of thousands of records again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
