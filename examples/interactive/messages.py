"""The one message model into which every channel is adapted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from zlib import crc32

STRANDS = 32
"""Users are dealt out to so many strands. A strand is an affinity key: its messages are processed in order,
and a batch becomes one task a strand, not one a message, which is what makes bursts cheap."""


class Refused(Exception):
    """A message that was not accepted, with the HTTP status that says so.

    Parameters
    ----------
    status
        4xx: the message or its moment is wrong; 503: nobody knows, send it again under the same id.
    sentence
        For whoever sent it.
    retry_after_seconds
        When trying again is worth it; None where it never is.
    """

    def __init__(self, status: int, sentence: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.retry_after_seconds = status, sentence, retry_after_seconds


@dataclass(frozen=True, slots=True)
class Message:
    """What a user said to a business, whatever the channel.

    Attributes
    ----------
    id
        The same when it is sent again; what is counted is ids.
    user
        One person; messages of one user are processed in the order in which they were accepted.
    answer
        As the business understands it: a choice in full, or a text.
    """

    id: str
    user: str
    business: str
    answer: str

    @property
    def strand(self) -> int:
        """The strand of its user, the same in every process."""
        return crc32(self.user.encode()) % STRANDS


def key_of(messages: Iterable[Message]) -> str:
    """A name for a group of messages: the same when the same group is sent again."""
    return hashlib.sha1("\n".join(one.id for one in messages).encode()).hexdigest()
