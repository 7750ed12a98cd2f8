"""What producers were told and consumers have read, held against what was promised."""

from __future__ import annotations

from collections import defaultdict

from trimtab.dataplane.masters.consumer import Message


class Violation(AssertionError):
    """Something was promised and did not hold."""


def payload(producer: str, sequence: int, size: int = 0) -> bytes:
    """What a message holds: whose it is, and which one, filled up to a size."""
    return f"{producer} {sequence} ".encode().ljust(size, b".")


class Ledger:
    """Of one topic.

    Attributes
    ----------
    acknowledged
        Producer to the last sequence of which it was told that it is stored.
    log
        What consumers have read, by offset.
    kept
        Consumer to the highest offset of which it was told that it is kept.
    position
        Consumer to the offset behind the last message that any consumer of the name has got.
    again
        Messages that a later consumer of a name got though an earlier one had got them.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.acknowledged: dict[str, int] = {}
        self.log: dict[int, Message] = {}
        self.kept: dict[str, int] = defaultdict(int)
        self.position: dict[str, int] = defaultdict(int)
        self.again = 0

    def stored(self, producer: str, sequence: int) -> None:
        """A producer was told that a message is stored."""
        self.acknowledged[producer] = max(sequence, self.acknowledged.get(producer, 0))

    def began(self, consumer: str, message: Message) -> None:
        """The first message of a consumer, of whose name there were others before."""
        if message.offset < self.kept[consumer]:
            raise Violation(
                f"{consumer} of {self.topic} begins at {message.offset}, and {self.kept[consumer]} was kept"
            )
        if message.offset > self.position[consumer]:
            raise Violation(
                f"{consumer} of {self.topic} begins at {message.offset}, and was at {self.position[consumer]}"
            )
        self.again += self.position[consumer] - message.offset

    def read(self, consumer: str, message: Message, before: Message | None) -> None:
        """A consumer got a message, after another one or as its first."""
        if before is None:
            self.began(consumer, message)
        elif message.offset != before.offset + 1:
            raise Violation(f"{consumer} of {self.topic} got {message.offset} after {before.offset}")
        known = self.log.setdefault(message.offset, message)
        if known != message:
            raise Violation(f"{consumer} of {self.topic} read {message}, and {known} stood there")
        self.position[consumer] = max(self.position[consumer], message.offset + 1)

    def audit(self) -> int:
        """The whole log has been read: everything acknowledged is there, once, in order. Messages there."""
        if sorted(self.log) != list(range(len(self.log))):
            raise Violation(f"the log of {self.topic} was read with gaps")
        last: dict[str, int] = defaultdict(int)
        for _, message in sorted(self.log.items()):
            last[message.producer] += 1
            if message.sequence != last[message.producer]:
                raise Violation(
                    f"{message} of {self.topic} stands behind {last[message.producer] - 1} of its producer"
                )
            if not message.payload.startswith(payload(message.producer, message.sequence)):
                raise Violation(f"{message} of {self.topic} holds what nobody sent")
        for producer, sequence in self.acknowledged.items():
            if last[producer] < sequence:
                raise Violation(
                    f"{sequence} messages of {producer} in {self.topic} were acknowledged, and "
                    f"{last[producer]} are there"
                )
        return len(self.log)
