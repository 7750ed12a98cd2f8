"""The head of every file of ours: format, cluster, time, and how far its loads can be trusted."""

import datetime
import re
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from trimtab.files.document import JsonDocument
from trimtab.model.documents import Amount, Quality
from trimtab_common.documents import one_of, quote
from trimtab_common.errors import InputError

TIME_PATTERN = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$"
"""RFC 3339, with its offset."""


class QualityRecord(Struct, forbid_unknown_fields=True):
    """The trust that the loads deserve."""

    valid_share: Annotated[float, Meta(ge=0, le=1)]
    oldest_sample_seconds: Amount
    cpu: Annotated[str, one_of("measured", "shares", "absent")]


def checked_cluster(document: JsonDocument) -> str:
    """The name of the cluster that a snapshot is of."""
    cluster = document.part("cluster", object)
    if not isinstance(cluster, str) or not cluster:
        raise document.error("$.cluster", cluster, "the cluster's name")
    return cluster


def checked_time(context: str, at: str, found: object) -> str:
    """Return `found` if it is an RFC 3339 timestamp with its offset, else refuse it."""
    if isinstance(found, str) and re.search(TIME_PATTERN.replace("$", r"\Z"), found, re.ASCII):
        try:
            datetime.datetime.fromisoformat(
                found[:19] + "+00:00" if found.endswith("Z") else found[:19] + found[-6:]
            )
            return found
        except ValueError:
            pass
    raise InputError(
        f"{context}: {at} is {quote(found)}, expected a time like 2026-11-21T05:00:00Z; correct it there"
    )


def seconds_of(time: str) -> float:
    """An instant in seconds since 1970."""
    return datetime.datetime.fromisoformat(time).timestamp()


def unit_seconds(at: float) -> float:
    """The unit of a number that stands for an instant: seconds, or since 1970 in milli-, micro-, nanoseconds.

    Kafka's tools write milliseconds. As seconds they would be dates of thousands of years to come, so that
    no number can be meant in two ways.
    """
    return next((unit for least, unit in ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3)) if at >= least), 1.0)


def time_text(at: float) -> str:
    """An instant (seconds since 1970) in RFC 3339, to the microsecond, without zeros at the end."""
    text = datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat().removesuffix("+00:00")
    return (text.rstrip("0") if "." in text else text) + "Z"


def checked_quality(document: JsonDocument) -> Quality:
    """The quality of a snapshot, with the user's own `x_` facts.

    Raises
    ------
    InputError
        If a field is missing, unknown, or out of its range.
    """
    found = document.part("quality", QualityRecord)
    given: dict[str, object] = msgspec.json.decode(document.parts["quality"])
    extra = tuple((name, given[name]) for name in sorted(given) if name.startswith("x_"))
    return Quality(found.valid_share, found.oldest_sample_seconds, str(found.cpu), extra)


def quality_fields(quality: Quality) -> dict[str, object]:
    """Fields of the quality for a file; the inverse of `checked_quality`."""
    return {
        "valid_share": quality.valid_share,
        "oldest_sample_seconds": quality.oldest_sample_seconds,
        "cpu": quality.cpu,
        **dict(quality.extra),
    }


def instant(option: str, text: str | None) -> datetime.datetime | None:
    """An instant that somebody wrote; without a zone it is UTC.

    Raises
    ------
    InputError
        If it is none; `option` is what it was given by.
    """
    if text is None:
        return None
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option} is {text!r}: write a time as 2026-11-21T05:00 (UTC)") from None
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def duration(option: str, text: str) -> float:
    """Seconds that somebody wrote, as `10s`, `250ms` or `2m`.

    Raises
    ------
    InputError
        If they are none, or more than a day; `option` is what they were given by.
    """
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0}
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    try:
        seconds = float(number) * units[text[len(number) :].strip() or "s"]
    except (ValueError, KeyError):
        raise InputError(f"{option} is {text!r}: write seconds, as 10s") from None
    if not 0 < seconds <= 86_400:
        raise InputError(f"{option} is {text!r}: write more than 0 seconds, a day at most")
    return seconds
