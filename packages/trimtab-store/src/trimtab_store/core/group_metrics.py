"""What a node has done for a group since its process began: counters, which others make rates of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from trimtab_store.core.entries import MessageRecord


@dataclass(slots=True)
class GroupMetrics:
    """Counters of one group on one node; they only rise.

    Attributes
    ----------
    stored, stored_bytes
        Messages that came to this node and were stored, and their payloads.
    pulls, pulled, pulled_bytes
        Questions of consumers that it answered as master, messages that went out by that, and their payloads.
    proposals, proposed_seconds
        Batches that it proposed and saw applied, and how long that took, summed up.
    """

    stored: int = 0
    stored_bytes: int = 0
    pulls: int = 0
    pulled: int = 0
    pulled_bytes: int = 0
    proposals: int = 0
    proposed_seconds: float = 0.0
    _open: dict[tuple[str, str, int], float] = field(default_factory=dict)

    def proposed(self, first: MessageRecord, now: float) -> None:
        """A batch is proposed; its first message tells it from others."""
        self._open[first.topic, first.producer, first.sequence] = now

    def applied(self, first: MessageRecord, now: float) -> None:
        """A batch is applied, this node's or another's."""
        began = self._open.pop((first.topic, first.producer, first.sequence), None)
        if began is not None:
            self.proposals += 1
            self.proposed_seconds += now - began

    def fenced(self) -> None:
        """What is proposed may be void by now: its time says nothing."""
        self._open.clear()

    def count_produced(self, record: MessageRecord) -> None:
        """A message that came to this node is stored."""
        self.stored += 1
        self.stored_bytes += len(record.payload)

    def count_fetched(self, records: Iterable[MessageRecord]) -> None:
        """A consumer's question is answered."""
        self.pulls += 1
        for record in records:
            self.pulled += 1
            self.pulled_bytes += len(record.payload)
