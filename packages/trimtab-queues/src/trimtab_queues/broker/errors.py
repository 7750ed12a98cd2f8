"""Refusals of a data plane, as exceptions that a program may catch."""

from __future__ import annotations

from trimtab_common.errors import TrimtabError


class QueuesFullError(TrimtabError):
    """No queue may receive the message now: back-pressure.

    Attributes
    ----------
    retry_after_seconds
        When it is worth trying again; what a web layer puts into Retry-After.
    """

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class QueueOwnershipLostError(TrimtabError):
    """The worker's queue belongs to another worker now: this one was silent for too long."""


def retry_after_seconds(error: BaseException) -> float | None:
    """Seconds of the back-pressure behind an error; None where it is another error.

    taskiq raises `SendTaskError` from whatever a broker raised, so that is looked into.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, QueuesFullError):
            return seen.retry_after_seconds
        seen = seen.__cause__
    return None
