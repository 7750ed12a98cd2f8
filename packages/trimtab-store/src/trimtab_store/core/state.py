"""The replicated state of a group: its mastership, its messages, and how far its consumers are."""

from __future__ import annotations

from collections import Counter

from trimtab_store.core.messages import (
    AppendMessages,
    ClaimMastership,
    Entry,
    MessageRecord,
    SyncOffsets,
    TransferMastership,
)
from trimtab_store.core.settings import TransferScheme

NO_MASTER = -1
READ_BYTES = 1 << 20
"""Messages are handed out up to so many bytes at once, and one at least."""
KEEP_BYTES = 16 << 20
RECORD_BYTES = 64
"""What a message takes beside its payload and its names, about."""
Topic = tuple[str, int, tuple[MessageRecord, ...]]
"""Its name, the offset of its first message, and its messages."""
Count = tuple[str, str, int]
"""A producer's last sequence in a topic, or a consumer's next offset there."""
Integers = tuple[int, int, int, int, int, tuple[Topic, ...], tuple[Count, ...], tuple[Count, ...]]
"""The whole state as a value: master, version, fence, preferred, life, topics, sequences, offsets."""


class GroupState:
    """The same on every node after the same slot.

    Attributes
    ----------
    master
        Who was master last; -1 before the first.
    version
        The slot in which the mastership last changed or was renewed; it only rises.
    fence
        The slot by which the one who may write became that one.
    preferred
        To whom the mastership is being handed; -1 if to nobody.
    incarnation
        Of the process that may write: one that was started anew knows nothing of its consumers any more.
    topics
        Messages of each topic, from offset `begins` on: the oldest go when a group holds too much.
    sequences
        The last sequence of each (topic, producer).
    offsets
        The next offset of each (consumer, topic); it only rises.
    """

    def __init__(self, keep_bytes: int = KEEP_BYTES) -> None:
        self._keep_bytes = keep_bytes
        self._sizes: Counter[str] = Counter()
        self.begins: Counter[str] = Counter()
        self.master = self.preferred = NO_MASTER
        self.version = self.fence = self.incarnation = 0
        self.topics: dict[str, list[MessageRecord]] = {}
        self.sequences: dict[tuple[str, str], int] = {}
        self.offsets: dict[tuple[str, str], int] = {}

    @property
    def writer(self) -> int:
        """Who may write: the master, or whom it hands over to."""
        return self.master if self.preferred == NO_MASTER else self.preferred

    def apply(self, slot: int, entry: Entry) -> tuple[str, ...] | bool:
        """Take in a chosen value: a verdict for each message of a batch, else whether it counted."""
        match entry:
            case AppendMessages(fence, records):
                if fence != self.fence:
                    return ("moved",) * len(records)
                return tuple([self._append(record) for record in records])
            case SyncOffsets(fence, offsets):
                if fence != self.fence:
                    return False
                for consumer, topic, offset in offsets:
                    key = consumer, topic
                    self.offsets[key] = max(offset, self.offsets.get(key, 0))
                return True
            case ClaimMastership(node, (life, _), expected):
                if expected != self.version:
                    return False
                if (node, life) != (self.writer, self.incarnation):
                    self.fence, self.incarnation = slot, life
                self.master, self.preferred, self.version = node, NO_MASTER, slot
                return True
            case TransferMastership(current_master, preferred, expected, scheme, (life, _)):
                if expected != self.version or current_master != self.master or self.preferred != NO_MASTER:
                    return False
                self.version = self.fence = slot
                self.incarnation = life
                if scheme == TransferScheme.INSTATE:
                    self.master = preferred
                else:
                    self.preferred = preferred
                return True
        return False

    def _append(self, record: MessageRecord) -> str:
        key = record.topic, record.producer
        last = self.sequences.get(key, 0)
        if record.sequence <= last:
            return "stored"
        if record.sequence > last + 1:
            return "gap"
        self.sequences[key] = record.sequence
        self.topics.setdefault(record.topic, []).append(record)
        self._sizes[record.topic] += _bytes(record)
        if self._sizes.total() > self._keep_bytes:
            self._forget()
        return "stored"

    def _forget(self) -> None:
        """Let the oldest messages of the largest topics go: the same on every node, as all else here."""
        while self._sizes.total() > self._keep_bytes * 3 // 4:
            topic, _ = max(self._sizes.items(), key=lambda one: (one[1], one[0]))
            records = self.topics[topic]
            old = len(records) // 8 + 1
            self._sizes[topic] -= sum(map(_bytes, records[:old]))
            self.begins[topic] += old
            del records[:old]

    def read(self, topic: str, offset: int, most: int) -> tuple[int, tuple[MessageRecord, ...]]:
        """Messages of a topic from an offset on, as many as go into one answer, behind the first one's."""
        found: list[MessageRecord] = []
        size, begin = 0, self.begins[topic]
        offset = max(offset, begin)
        for record in self.topics.get(topic, [])[offset - begin : offset - begin + most]:
            size += len(record.payload)
            if found and size > READ_BYTES:
                break
            found.append(record)
        return offset, tuple(found)

    def snapshot(self) -> Integers:
        """All of it as a value, the same on every node."""
        return (
            self.master,
            self.version,
            self.fence,
            self.preferred,
            self.incarnation,
            tuple(
                (topic, self.begins[topic], tuple(records)) for topic, records in sorted(self.topics.items())
            ),
            tuple((*key, last) for key, last in sorted(self.sequences.items())),
            tuple((*key, offset) for key, offset in sorted(self.offsets.items())),
        )

    def restore(self, value: Integers) -> None:
        """Restore the state from a value of `snapshot`."""
        (
            self.master,
            self.version,
            self.fence,
            self.preferred,
            self.incarnation,
            topics,
            sequences,
            offsets,
        ) = value
        self.topics = {topic: [MessageRecord(*record) for record in records] for topic, _, records in topics}
        self.begins = Counter({topic: begin for topic, begin, _ in topics})
        self._sizes = Counter({topic: sum(map(_bytes, records)) for topic, records in self.topics.items()})
        self.sequences = {(topic, producer): last for topic, producer, last in sequences}
        self.offsets = {(consumer, topic): offset for consumer, topic, offset in offsets}


def _bytes(record: MessageRecord) -> int:
    """What a message takes, about."""
    return len(record.payload) + len(record.topic) + len(record.producer) + RECORD_BYTES
