"""What of a group's written lines a node needs when it starts: all before a snapshot goes, but promises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from trimtab_common.errors import InputError
from trimtab_store.core.acceptor import LEARNT, NO_BALLOT
from trimtab_store.core.messages import AcceptedAt, Ballot, ChosenUpTo, GroupSnapshot, Promised

LocationT = TypeVar("LocationT")


class RetainedLog(Generic[LocationT]):
    """A group's lines, taken in one by one in the order in which they were written.

    What is left recovers the same `PaxosLog` as all of them, whatever is written behind; tests hold one
    against the other. So it has to change with `PaxosLog.recover`.

    Attributes
    ----------
    promised
        The highest ballot: that of a value accepted is promised, too, unless it was learnt.
    snapshot
        Slot and place of the last one.
    accepted
        Slot to the place of what was accepted there last; of slots that no snapshot covers.
    upto
        The last slot that is known as chosen.
    """

    __slots__ = ("accepted", "promised", "snapshot", "upto")

    def __init__(self) -> None:
        self.promised: Ballot = NO_BALLOT
        self.snapshot: tuple[int, LocationT] | None = None
        self.accepted: dict[int, LocationT] = {}
        self.upto = 0

    def absorb(self, written: Any, place: LocationT) -> list[LocationT]:
        """Take in the next line, which stands at a place; the places that are needed no more.

        Raises
        ------
        InputError
            If it is no line of a log: what is not understood here must not be thrown away.
        """
        match written:
            case Promised(ballot):
                self.promised = max(self.promised, ballot)
                return [place]
            case AcceptedAt(slot, ballot, _):
                if ballot != LEARNT:
                    self.promised = max(self.promised, ballot)
                before = self.accepted.get(slot)
                self.accepted[slot] = place
                return [] if before is None else [before]
            case ChosenUpTo(slot):
                self.upto = slot
                return [place]
            case GroupSnapshot(slot, _):
                covered = [self.accepted.pop(at) for at in [one for one in self.accepted if one <= slot]]
                if self.snapshot is not None:
                    covered.append(self.snapshot[1])
                self.snapshot, self.upto = (slot, place), slot
                return covered
        raise InputError(f"{type(written).__name__} is no line of a node's log: update this node")

    def places(self) -> Iterator[LocationT]:
        """Of the snapshot, then of what was accepted, by slot."""
        if self.snapshot is not None:
            yield self.snapshot[1]
        for slot in sorted(self.accepted):
            yield self.accepted[slot]

    def state_records(self) -> Iterator[Promised | ChosenUpTo]:
        """What stands at no place any more; to be written behind all places."""
        if self.promised != NO_BALLOT:
            yield Promised(self.promised)
        if self.upto > (0 if self.snapshot is None else self.snapshot[0]):
            yield ChosenUpTo(self.upto)
