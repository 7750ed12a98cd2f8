"""What clients of each group asked for and were told, as histories that one log must explain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from simulate.linear import ClientOperation
from trimtab_store.core.messages import FetchResponse

Message = tuple[str, int]
"""Producer and sequence."""


class MessageAppended(NamedTuple):
    """A producer was told that its message is stored."""

    message: Message


class MessagesRead(NamedTuple):
    """A consumer got messages from an offset on; fewer than `most` only if there were no more."""

    offset: int
    max_messages: int
    messages: tuple[Message, ...]


class ReadStarted(NamedTuple):
    """The same, from where the master said that it was; that is the offset that was kept."""

    consumer: str
    read: MessagesRead


class OffsetAcknowledged(NamedTuple):
    """A consumer was told that its offset, or a later one, is kept."""

    consumer: str
    offset: int


OperationKind = MessageAppended | MessagesRead | ReadStarted | OffsetAcknowledged


class TopicHistory(NamedTuple):
    """Of a topic: which list of messages it is, and kept offsets, each (consumer, offset).

    Lists are numbered by `LogModel`: a search has to compare them a hundred thousand times.
    """

    log: int
    offsets: tuple[tuple[str, int], ...]


class LogModel:
    """A topic as clients should see it: a list that grows at its end, and offsets that rise.

    A producer's messages stand in it in the order of their numbers, from 1 on, without a gap.

    Parameters
    ----------
    history
        What the places of messages are looked up in. A message that anybody has read at an offset stands
        there in every order that explains the history, so that other places need not be tried.
    """

    def __init__(self, history: Iterable[ClientOperation]) -> None:
        # Number of a list to the list without its last message, to that message and to the list's length;
        # and to the last number of each producer in it.
        self._before, self._ends, self._lengths = [0], [("", 0)], [0]
        self._lasts: list[dict[str, int]] = [{}]
        self._longer: dict[tuple[int, Message], int] = {}
        self._places: dict[Message, int] = {}
        for one in history:
            read = one.what.read if isinstance(one.what, ReadStarted) else one.what
            if isinstance(read, MessagesRead):
                self._places.update((message, at) for at, message in enumerate(read.messages, read.offset))

    def begin(self) -> TopicHistory:
        """Nothing is there."""
        return TopicHistory(0, ())

    def after(self, state: TopicHistory, what: OperationKind) -> TopicHistory | None:
        """Give the state after an operation; None if it cannot have had its answer here."""
        log, kept = state
        if isinstance(what, MessageAppended):
            (producer, sequence), at = what.message, self._lengths[log]
            if self._places.get(what.message, at) != at or sequence != self._lasts[log].get(producer, 0) + 1:
                return None
            return TopicHistory(self._appended(log, what.message), kept)
        if isinstance(what, OffsetAcknowledged):
            risen = dict(kept)
            risen[what.consumer] = max(what.offset, risen.get(what.consumer, 0))
            return TopicHistory(log, tuple(sorted(risen.items())))
        if isinstance(what, ReadStarted):
            if dict(kept).get(what.consumer, 0) != what.read.offset:
                return None
            what = what.read
        return state if self._read(log, what.offset, what.max_messages) == what.messages else None

    def reads(self, what: OperationKind) -> bool:
        """All but new messages: kept offsets only rise, so that one which raises nothing here never will."""
        return not isinstance(what, MessageAppended)

    def _appended(self, log: int, message: Message) -> int:
        """The number of the list with one more message."""
        number = self._longer.setdefault((log, message), len(self._before))
        if number == len(self._before):
            self._before.append(log)
            self._ends.append(message)
            self._lengths.append(self._lengths[log] + 1)
            self._lasts.append({**self._lasts[log], message[0]: message[1]})
        return number

    def _read(self, log: int, offset: int, most: int) -> tuple[Message, ...]:
        """What stands in a list from an offset on."""
        while self._lengths[log] > offset + most:
            log = self._before[log]
        found = list[Message]()
        while self._lengths[log] > offset:
            found.append(self._ends[log])
            log = self._before[log]
        return tuple(reversed(found))


class ClientHistories:
    """One history a group; its topics are one each."""

    def __init__(self, groups: int) -> None:
        self._answered: list[list[ClientOperation]] = [[] for _ in range(groups)]
        self._appends: dict[tuple[int, Message], float] = {}
        self._pulls: dict[tuple[int, str], tuple[float, bool, int]] = {}
        self._keeps: dict[tuple[int, str], dict[int, float]] = {}

    def appends(self, now: float, group: int, message: Message) -> None:
        """A producer sends a message, for the first time or again."""
        self._appends.setdefault((group, message), now)

    def appended(self, now: float, group: int, message: Message) -> None:
        """It is stored."""
        self._answered[group].append(
            ClientOperation(MessageAppended(message), self._appends.pop((group, message)), now)
        )

    def pulls(self, now: float, group: int, consumer: str, offset: int, most: int) -> None:
        """A consumer asks; if it has asked before, that answer is not listened to any more."""
        self._pulls[group, consumer] = now, offset < 0, most

    def pulled(self, now: float, group: int, text: FetchResponse) -> None:
        """It got messages, or hears that there are none; twice if the network has doubled the question."""
        called, begins, most = self._pulls[group, text.consumer]
        read = MessagesRead(text.offset, most, tuple([(one.producer, one.sequence) for one in text.records]))
        what = ReadStarted(text.consumer, read) if begins else read
        self._answered[group].append(ClientOperation(what, called, now))

    def keeps(self, now: float, group: int, consumer: str, offset: int) -> None:
        """A consumer hands its offset in."""
        self._keeps.setdefault((group, consumer), {}).setdefault(offset, now)

    def offset_acknowledged(self, now: float, group: int, consumer: str, offset: int) -> None:
        """It, or a later one, is kept: so are all before."""
        under_way = self._keeps.get((group, consumer), {})
        for handed_in in sorted(under_way):
            if handed_in <= offset:
                called = under_way.pop(handed_in)
                self._answered[group].append(
                    ClientOperation(OffsetAcknowledged(consumer, handed_in), called, now)
                )

    def history(self, group: int) -> list[ClientOperation]:
        """All that was asked of a group so far; whoever has no answer may have been heard."""
        found = list(self._answered[group])
        for (of, message), called in self._appends.items():
            if of == group:
                found.append(ClientOperation(MessageAppended(message), called))
        for (of, consumer), handed_in in self._keeps.items():
            if of == group:
                found += [
                    ClientOperation(OffsetAcknowledged(consumer, one), called)
                    for one, called in handed_in.items()
                ]
        return found
