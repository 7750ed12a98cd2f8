"""What must hold of effects, whatever happened on the way."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from trimtab_keys.core.order import OrderedRecord, Stream


class KeysInvariantError(Exception):
    """Something was promised and did not hold."""


@dataclass(slots=True)
class SimulatedEffects:
    """Where effects are kept, with the marks that make them idempotent, and what the checker knows of them.

    Attributes
    ----------
    checkpoints
        Last sequence of each stream that took effect.
    lasts
        Last offset that took effect, by partition and key group.
    numbers
        By producer and key, the numbers that took effect, in their order.
    acknowledged
        By producer and key, the numbers that the log has told to be there.
    doubled
        Records that came again and had no second effect.
    deleted
        By producer and key, the numbers that retention deleted before they took effect.
    """

    checkpoints: dict[Stream, int] = field(default_factory=dict)
    lasts: dict[tuple[int, int], int] = field(default_factory=dict)
    numbers: dict[tuple[str, bytes], list[int]] = field(default_factory=dict)
    acknowledged: dict[tuple[str, bytes], list[int]] = field(default_factory=dict)
    doubled: int = 0
    deleted: dict[tuple[str, bytes], set[int]] = field(default_factory=dict)

    def apply(self, partition: int, offset: int, record: OrderedRecord, number: int) -> None:
        """Let a record take effect, unless it has done so.

        Parameters
        ----------
        number
            Its place in what its producer sent of its key, from 1 on; 0 for one that fills a gap.

        Raises
        ------
        ViolationError
            If it is not its turn.
        """
        sequence = record.stamp.sequence
        if sequence:
            mark = self.checkpoints.get(record.stream, 0)
            if sequence > mark + 1:
                raise KeysInvariantError(f"{record} was released after sequence {mark}")
            if sequence <= mark:
                self.doubled += 1
                return
            self.checkpoints[record.stream] = sequence
        else:
            if offset <= self.lasts.get((partition, record.group), -1):
                self.doubled += 1
                return
            self.lasts[partition, record.group] = offset
        if number:
            done = self.numbers.setdefault((record.producer, record.key), [])
            if done and number <= done[-1]:
                raise KeysInvariantError(
                    f"{record} is number {number} of its key and took effect after {done[-1]}"
                )
            done.append(number)

    def delete(self, record: OrderedRecord, number: int) -> None:
        """Retention has deleted a record; one that had not taken effect may be missing from now on."""
        name = record.producer, record.key
        done = self.numbers.get(name, [])
        place = bisect_left(done, number)
        if number and (place == len(done) or done[place] != number):
            self.deleted.setdefault(name, set()).add(number)

    @property
    def lost(self) -> int:
        """Records that retention deleted before they took effect, and that nobody had in hand."""
        return sum(len(one.difference(self.numbers.get(name, ()))) for name, one in self.deleted.items())

    def skip(self, stream: Stream, first: int, last: int) -> int:
        """Set a stream's mark past what is nowhere, if nobody was quicker; the mark then."""
        if self.checkpoints.get(stream, 0) == first - 1:
            self.checkpoints[stream] = last
        return self.checkpoints.get(stream, 0)

    def check_complete(self) -> None:
        """Everything acknowledged has taken effect, but for what retention deleted before.

        Raises
        ------
        ViolationError
            With how many of which key have not.
        """
        for name, numbers in self.acknowledged.items():
            lost = set(numbers) - set(self.numbers.get(name, ())) - self.deleted.get(name, set())
            if lost:
                raise KeysInvariantError(
                    f"{len(lost)} acknowledged records of {name} are lost, first {min(lost)}"
                )
