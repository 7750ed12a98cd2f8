"""Entries of the streams as messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trimtab_queues.broker.envelope import Delivery, Envelope

QUICK: Final = ":quick"
"""Behind the name of a queue's stream: its quick lane."""


def delivery_of(queue: int, name: bytes, trace: bytes, flat: Sequence[bytes]) -> Delivery:
    """A message in a worker's hands, by its name in the queue, its trace of deaths and its fields."""
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    envelope = envelope_of_entry(fields, name.startswith(b"q"))
    return Delivery(int(queue), name.decode(), envelope, len(trace.split()), _waited_seconds(fields))


def envelope_of_entry(fields: dict[bytes, bytes], quick: bool = False) -> Envelope:
    """The message that `put.lua` has written down."""
    return Envelope(
        task_id=fields[b"t"].decode(),
        body=fields[b"m"],
        class_name=fields[b"c"].decode(),
        weight_microseconds=int(fields[b"w"]),
        affinity_key=fields[b"k"].decode(),
        quick=quick,
    )


def _waited_seconds(fields: dict[bytes, bytes]) -> float | None:
    """From accepted to taken, on the server's clock; None for a message of an older version of ours."""
    accepted, taken = fields.get(b"a"), fields.get(b"n")
    return max(0, int(taken) - int(accepted)) / 1000 if accepted and taken else None
