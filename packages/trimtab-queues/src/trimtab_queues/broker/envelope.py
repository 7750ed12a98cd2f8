"""Messages as back-ends carry them: the bytes of taskiq, and what dispatch has to know of them."""

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
    """A message on its way.

    Attributes
    ----------
    task_id
        taskiq's; the same at every delivery.
    body
        What taskiq has written, not looked into.
    class_name
        Messages of a class take alike long.
    weight_microseconds
        Processing time; whole microseconds, so that sums are exact in every back-end.
    affinity_key
        Messages with the same key are processed in order; empty for none.
    idempotency_key
        A second message with the same key is not put in; empty for none.
    quick
        Whether it goes into the quick lane.
    accepted_at
        Seconds on the back-end's own clock; None where it is not accepted yet, or the back-end knows itself.
    retry
        Whether it takes the place of a message that its sender, a worker, still holds: it is put in
        although the queue is full or paused, or all workers could wait for one another.
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
    """Who sends a message, by the labels that taskiq gives it."""

    SENDER = "sender"
    SCHEDULE = "schedule"
    RETRY = "retry"


_RETRY_LABELS: Final = ("_retries", "X-Taskiq-requeue")
"""Numbers of the retry middlewares and of `Context.requeue`: each run of a message has another pair."""
_SCHEDULE_LABEL: Final = "schedule_id"
_ACCEPTED_LABEL: Final = "_accepted_id"
"""Tells messages with the same idempotency key apart; retries carry that of their message along."""


def origin_of(labels: Mapping[str, object]) -> MessageOrigin:
    """A retry of a scheduled message has the labels of both, and is a retry."""
    if any(name in labels for name in _RETRY_LABELS):
        return MessageOrigin.RETRY
    return MessageOrigin.SCHEDULE if _SCHEDULE_LABEL in labels else MessageOrigin.SENDER


class AcceptedIds(TaskiqMiddleware):
    """Gives each message with an idempotency key an id of its own, from which its retries are known."""

    def pre_send(self, message: TaskiqMessage) -> TaskiqMessage:
        """Set the label; a retry keeps that of its message."""
        labels = message.labels
        if labels.get("idempotency_key") and origin_of(labels) is not MessageOrigin.RETRY:
            labels[_ACCEPTED_LABEL] = self.broker.id_generator()
        return message


def _idempotency_key(labels: Mapping[str, object], task_id: str) -> str:
    """The key of a sender is the label alone; a run by a schedule or a retry is a message of its own.

    The same retry sent twice, by a worker that died in between and the one that went on, has one key.
    """
    key, origin = str(labels.get("idempotency_key") or ""), origin_of(labels)
    if not key or origin is MessageOrigin.SENDER:
        return key
    retries = [str(labels.get(name, 0)) for name in _RETRY_LABELS] if origin is MessageOrigin.RETRY else []
    return "\n".join([key, str(labels.get(_ACCEPTED_LABEL, task_id)), *retries])


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message in a worker's hands.

    Attributes
    ----------
    queue
        Where it counts until it is finished.
    id
        The back-end's name for it in that queue.
    deaths
        How many workers have died with it in hand.
    waited_seconds
        From accepted to taken; None where the back-end does not tell.
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
    """Read what dispatch has to know from a message's labels.

    Parameters
    ----------
    labels
        `message_class`, else the class is the task's name; `weight` in seconds, else that of the class;
        `affinity_key`; `idempotency_key`; those of taskiq's retries and schedules. taskiq has made strings
        of them.
    weights
        Seconds of processing by class.
    default_weight
        Seconds for a class that is not in `weights`, where the message has no label either.

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
    """Whole microseconds of a weight, one at least.

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
