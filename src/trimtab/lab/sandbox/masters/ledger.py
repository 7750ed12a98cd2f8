"""What producers were told and consumers have read, held against what was promised."""

from __future__ import annotations

from collections import defaultdict

from trimtab_store.clients.consumer import StoredMessage


class StoreViolation(AssertionError):
    """Something was promised and did not hold."""


def payload(producer: str, sequence: int, size: int = 0) -> bytes:
    """What a message holds: whose it is, and which one, filled up to a size."""
    return f"{producer} {sequence} ".encode().ljust(size, b".")


class MessageLedger:
    """Of one topic.

    Attributes
    ----------
    acknowledged
        Producer to the last sequence of which it was told that it is stored.
    log
        Producer and sequence of what consumers have read, by offset.
    stored
        Consumer to the highest offset of which it was told that it is kept.
    position
        Consumer to the offset behind the last message that any consumer of the name has got.
    again
        Messages that a later consumer of a name got though an earlier one had got them.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.acknowledged: dict[str, int] = {}
        self.log: dict[int, tuple[str, int]] = {}
        self.committed: dict[str, int] = defaultdict(int)
        self.position: dict[str, int] = {}
        self.again = 0

    def stored(self, producer: str, sequence: int) -> None:
        """A producer was told that a message is stored."""
        self.acknowledged[producer] = max(sequence, self.acknowledged.get(producer, 0))

    def consumer_started(self, consumer: str, message: StoredMessage) -> None:
        """The first message of a consumer, of whose name there may have been others before."""
        kept, position = self.committed[consumer], self.position.setdefault(consumer, message.offset)
        if message.offset < kept:
            raise StoreViolation(
                f"{consumer} of {self.topic} begins at {message.offset}, and {kept} was kept"
            )
        if message.offset > position:
            raise StoreViolation(
                f"{consumer} of {self.topic} begins at {message.offset}, and was at {position}"
            )
        self.again += position - message.offset

    def read(self, consumer: str, message: StoredMessage, before: StoredMessage | None) -> None:
        """A consumer got a message, after another one or as its first."""
        if before is None:
            self.consumer_started(consumer, message)
        elif message.offset != before.offset + 1:
            raise StoreViolation(f"{consumer} of {self.topic} got {message.offset} after {before.offset}")
        if not message.payload.startswith(payload(message.producer, message.sequence)):
            raise StoreViolation(f"{consumer} of {self.topic} read {message}, which nobody sent")
        found = message.producer, message.sequence
        known = self.log.setdefault(message.offset, found)
        if known != found:
            raise StoreViolation(
                f"{consumer} of {self.topic} read {found} at {message.offset}, where {known} stood"
            )
        self.position[consumer] = max(self.position[consumer], message.offset + 1)

    def audit(self) -> int:
        """The log has been read: everything acknowledged is there, once, in order. Messages there.

        What stood there before this ledger was opened may have been let go since; what came later was read.
        """
        begin = min(self.log, default=0)
        if sorted(self.log) != list(range(begin, begin + len(self.log))):
            raise StoreViolation(f"the log of {self.topic} was read with gaps")
        last = dict.fromkeys(self.acknowledged, 0)
        for offset, (producer, sequence) in sorted(self.log.items()):
            expected = last.get(producer, 0 if begin == 0 else sequence - 1) + 1
            if sequence != expected:
                raise StoreViolation(
                    f"message {sequence} of {producer} stands at {offset} of {self.topic}, not {expected}"
                )
            last[producer] = sequence
        for producer, sequence in self.acknowledged.items():
            if last[producer] < sequence:
                raise StoreViolation(
                    f"{sequence} messages of {producer} in {self.topic} were acknowledged, and "
                    f"{last[producer]} are there"
                )
        return len(self.log)
