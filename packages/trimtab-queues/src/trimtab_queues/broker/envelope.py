"""Messages as back-ends store them: the bytes of taskiq, and the fields that dispatch needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import isfinite
from typing import Final

from taskiq import TaskiqMessage, TaskiqMiddleware

from trimtab_common.errors import InputError

MICROSECONDS: Final = 1_000_000
BODY_BYTES_MAX: Final = 16 * 2**20
"""Of what taskiq has written; queues and journals of many such messages still fit into a server."""
WEIGHT_SECONDS_MAX: Final = 1e6
"""Some twelve days; sums of such weights stay exact in the server's arithmetic."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message in a back-end.

    Attributes
    ----------
    task_id
        The id of taskiq; the same at every delivery.
    body
        The bytes of taskiq, which are not parsed.
    class_name
        The class; messages of one class take about the same time.
    weight_microseconds
        Processing time; whole microseconds, so that sums are exact in every back-end.
    affinity_key
        Messages with the same key are processed in order; empty for none.
    idempotency_key
        A second message with the same key is not stored; empty for none.
    quick
        Whether it goes into the quick lane.
    accepted_at
        Seconds on the clock of the back-end; None before it is accepted, or if the back-end stores the time
        itself.
    retry
        Whether it replaces a message that its sender, a worker, still holds. It is stored although the queue
        is full or paused; otherwise all workers could wait for one another.
    """

    task_id: str
    body: bytes
    class_name: str
    weight_microseconds: int
    affinity_key: str = ""
    idempotency_key: str = ""
    quick: bool = False
    accepted_at: float | None = field(default=None, compare=False)
    retry: bool = False

    @property
    def weight(self) -> float:
        """Expected processing time in seconds."""
        return self.weight_microseconds / MICROSECONDS


class MessageOrigin(Enum):
    """The sender of a message, by the labels of taskiq."""

    SENDER = "sender"
    SCHEDULE = "schedule"
    RETRY = "retry"


_RETRY_LABELS: Final = ("_retries", "X-Taskiq-requeue")
"""Numbers of the retry middlewares and of `Context.requeue`: each run of a message has another pair."""
_SCHEDULE_LABEL: Final = "schedule_id"
_ACCEPTED_LABEL: Final = "_accepted_id"
"""Tells messages with the same idempotency key apart; retries carry that of their message along."""


def origin_of(labels: Mapping[str, object]) -> MessageOrigin:
    """The origin of a message; a retry of a scheduled message has both labels, and counts as a retry."""
    if any(name in labels for name in _RETRY_LABELS):
        return MessageOrigin.RETRY
    return MessageOrigin.SCHEDULE if _SCHEDULE_LABEL in labels else MessageOrigin.SENDER


class AcceptedIds(TaskiqMiddleware):
    """A middleware that labels each message with an idempotency key with an id, which its retries keep."""

    def pre_send(self, message: TaskiqMessage) -> TaskiqMessage:
        """Set the label; a retry keeps the label of its message."""
        labels = message.labels
        if labels.get("idempotency_key") and origin_of(labels) is not MessageOrigin.RETRY:
            labels[_ACCEPTED_LABEL] = self.broker.id_generator()
        return message


def _idempotency_key(labels: Mapping[str, object], task_id: str) -> str:
    """The idempotency key: of a sender, the label; of a schedule or a retry, a key of the single run.

    A retry that is sent twice, by a crashed worker and by its successor, has the same key both times.
    """
    key, origin = str(labels.get("idempotency_key") or ""), origin_of(labels)
    if not key or origin is MessageOrigin.SENDER:
        return key
    retries = [str(labels.get(name, 0)) for name in _RETRY_LABELS] if origin is MessageOrigin.RETRY else []
    return "\n".join([key, str(labels.get(_ACCEPTED_LABEL, task_id)), *retries])


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that a worker has.

    Attributes
    ----------
    queue
        The queue in which it counts until it is finished.
    id
        Its name in that queue, by the back-end.
    deaths
        Number of workers that have crashed with it.
    waited_seconds
        Time from acceptance to delivery; None if the back-end does not report it.
    """

    queue: int
    id: str
    envelope: Envelope
    deaths: int = 0
    waited_seconds: float | None = None


def envelope_of(
    task_id: str,
    task_name: str,
    body: bytes,
    labels: Mapping[str, object],
    weights: Mapping[str, float],
    default_weight: float,
) -> Envelope:
    """The envelope of a message, by its labels.

    Parameters
    ----------
    labels
        `message_class` (default: the task's name); `weight` in seconds (default: that of the class);
        `affinity_key`; `idempotency_key`; and labels of taskiq's retries and schedules. taskiq has converted
        them to strings.
    weights
        Seconds of processing by class.
    default_weight
        Seconds of processing of classes that are not in `weights`.

    Raises
    ------
    InputError
        If the weight is no number of seconds, or the message is larger than `BODY_BYTES_MAX`.
    """
    if len(body) > BODY_BYTES_MAX:
        raise InputError(
            f"message of task {task_name} has {len(body):,} bytes, expected at most {BODY_BYTES_MAX:,}: keep "
            f"what it carries elsewhere and send where that is"
        )
    class_name = str(labels.get("message_class") or task_name)
    said = labels.get("weight")
    weight = weights.get(class_name, default_weight) if said is None else said
    return Envelope(
        task_id=task_id,
        body=body,
        class_name=class_name,
        weight_microseconds=microseconds(weight, f"label weight of task {task_name}"),
        affinity_key=str(labels.get("affinity_key") or ""),
        idempotency_key=_idempotency_key(labels, task_id),
        retry=origin_of(labels) is MessageOrigin.RETRY,
    )


def microseconds(weight: object, subject: str) -> int:
    """A weight in whole microseconds, at least 1.

    Raises
    ------
    InputError
        If it is no number of seconds above 0, or more than `WEIGHT_SECONDS_MAX`.
    """
    try:
        seconds = float(weight)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        seconds = float("nan")
    if not isfinite(seconds) or not 0 < seconds <= WEIGHT_SECONDS_MAX:
        raise InputError(
            f"{subject} is {weight!r}, expected seconds of processing above 0 and at most "
            f"{WEIGHT_SECONDS_MAX:g}"
        )
    return max(1, round(seconds * MICROSECONDS))
