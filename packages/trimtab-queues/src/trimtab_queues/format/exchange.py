"""Words that processes of queues and trimtab leave one another on the queues' server, as JSON.

Each process keeps one report there, of everything since it began: whoever reads it every now and then takes
differences, so that nothing is lost where nobody reads, and nothing counts twice where two do. The other
way goes one document, the weights and settings that are published, whose version only grows.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from trimtab_common.documents import Count
from trimtab_common.errors import InputError

FORMAT: Final = "trimtab/queues-published/1"
RETENTION_SECONDS: Final = 600.0
"""A report of a process that is silent is there for so long."""
HISTORY: Final = 100
"""Published documents that the server keeps, the newest."""
CLASSES_MAX: Final = 200
"""Classes that a report tells apart; further ones count as `OTHER_CLASSES`."""
OTHER_CLASSES: Final = "(others)"
WAIT_BUCKETS: Final = 48
"""Waits are counted by their length: bucket k holds those of at most √2 to the power k milliseconds."""

WeightSeconds = Annotated[float, Meta(gt=0, le=1e6)]
"""Seconds of processing of a message."""


class ClassReport(msgspec.Struct, omit_defaults=True):
    """What one process has seen of one class since it began.

    Attributes
    ----------
    weight
        Seconds by which it is dispatched now.
    processed, busy_seconds, busy_squares
        Messages that were processed, their processing times and the squares of those, seconds and seconds².
    waited_seconds, waits
        From accepted to begun: the sum, and how many waits were of each length (`WAIT_BUCKETS`).
    accepted, refused
        Messages that this process sent, and that it could not send for want of an open queue.
    """

    weight: float = 0.0
    processed: int = 0
    busy_seconds: float = 0.0
    busy_squares: float = 0.0
    waited_seconds: float = 0.0
    waits: list[int] = []
    accepted: int = 0
    refused: int = 0


class ProcessReport(msgspec.Struct, kw_only=True):
    """What one process of a set of queues tells.

    Attributes
    ----------
    at
        Seconds since 1970, by its own clock.
    queue
        That it empties; None for one that only sends.
    queues, capacity
        How many queues there are, and the most messages that each may hold.
    version
        Of the published document that it goes by; 0 for none.
    policy, scheduling
        Name of its dispatch policy, and settings of balance scheduling; None for none of it.
    """

    process: str
    at: float
    queue: int | None
    queues: int
    capacity: int
    version: int
    default_weight: float
    policy: str
    scheduling: dict[str, float | str] | None
    classes: dict[str, ClassReport]


class PublishedWeights(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Weights and settings that all processes of a set of queues go by.

    Attributes
    ----------
    version
        From 1; grows by one with each.
    published_at
        Seconds since 1970.
    weights
        Seconds of processing by class; they go before what a program says itself.
    settings
        Keys of balance scheduling (`trimtab_queues.core.settings.SchedulingSettings`), and `policy`.
    """

    format: str = FORMAT
    version: Count
    published_at: float
    weights: dict[str, WeightSeconds]
    settings: dict[str, float | str] = {}


class RedisKeys:
    """Names of keys of a set of queues on its server; they share a hash tag, so that they lie in one slot."""

    def __init__(self, name: str) -> None:
        self.base = f"{{trimtab:{name}}}"
        self.counts = f"{self.base}:counts"
        self.processes = f"{self.base}:processes"
        self.published = f"{self.base}:published"
        self.history = f"{self.base}:published:history"
        self.claims = f"{self.base}:claims"

    def report(self, process: str) -> str:
        """Of the report of a process."""
        return f"{self.base}:report:{process}"


def read_published(data: bytes, subject: str) -> PublishedWeights:
    """A published document.

    Raises
    ------
    InputError
        If it is none, or of another version of the format.
    """
    try:
        found = msgspec.json.decode(data, type=PublishedWeights)
    except msgspec.DecodeError as error:
        raise InputError(f"{subject}: is no {FORMAT} ({error}); publish anew with trimtab apply") from None
    if found.format != FORMAT:
        raise InputError(f"{subject}: is {found.format}, this trimtab reads {FORMAT}; use one that wrote it")
    return found


def read_report(data: bytes) -> ProcessReport | None:
    """A report; None where it cannot be read."""
    try:
        return msgspec.json.decode(data, type=ProcessReport)
    except msgspec.DecodeError:
        return None


def document(value: ProcessReport | PublishedWeights) -> bytes:
    """The JSON text of either."""
    return msgspec.json.encode(value)
