"""What clients of a group saw: one log explains it, and a story with one wrong answer is told from it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import inf

import pytest

from simulate.linear import ClientOperation, check_linearizability
from simulate.masters.histories import (
    ClientHistories,
    LogModel,
    MessageAppended,
    MessagesRead,
    OffsetAcknowledged,
    ReadStarted,
)
from simulate.masters.world import StoreWorld
from trimtab_store.core.messages import FetchResponse, MessageRecord
from trimtab_store.core.settings import StoreSettings


@cache
def played() -> tuple[ClientOperation, ...]:
    """Two producers and two consumers of a group, whose preferred node changes; nothing else goes wrong."""
    world = StoreWorld(1, nodes=3, groups=1, settings=StoreSettings(), clients=2)
    for preferred in (0, 1, 2):
        world.run_until(world.now + 25.0)
        world.publish_map((preferred,))
    world.closing = True  # so that all is read in the end
    world.run_until(world.now + 10.0)
    return tuple(world.histories.history(0))


def linearizable(history: list[ClientOperation]) -> bool | None:
    """The verdict."""
    return check_linearizability(history, LogModel(history)).linearizable


def changed(at: int, what: object) -> list[ClientOperation]:
    """The history with one other answer."""
    history = list(played())
    history[at] = replace(history[at], what=what)
    return history


def test_observations_of_clients_are_explained() -> None:
    """Hundreds of operations, across transfers; consumers started at the master's offset, several times."""
    history = list(played())
    assert linearizable(history) is True
    kinds = [type(one.what) for one in history]
    assert kinds.count(MessageAppended) > 100 and kinds.count(MessagesRead) > 20
    assert kinds.count(ReadStarted) >= 4 and kinds.count(OffsetAcknowledged) >= 4


def reads() -> list[int]:
    """Places of reads that found less than they asked for, and something."""
    return [
        at
        for at, one in enumerate(played())
        if isinstance(one.what, MessagesRead) and 0 < len(one.what.messages) < one.what.max_messages
    ]


@pytest.mark.parametrize("at", reads()[:: max(1, len(reads()) // 8)])
def test_a_stale_read_is_noticed(at: int) -> None:
    """The newest message was acknowledged before the question, and the answer leaves it out."""
    what = played()[at].what
    newest = next(one for one in played() if one.what == MessageAppended(what.messages[-1]))
    if newest.returned >= played()[at].called:
        pytest.skip("they are beside one another: both answers are right")
    assert linearizable(changed(at, what._replace(messages=what.messages[:-1]))) is False


def test_a_message_that_was_acknowledged_and_is_not_there_is_noticed() -> None:
    """Every answer leaves it out, from the first to the last."""
    lost = _log()[-1]
    history = []
    for one in played():
        read = one.what.read if isinstance(one.what, ReadStarted) else one.what
        if isinstance(read, MessagesRead):
            read = read._replace(messages=tuple(message for message in read.messages if message != lost))
        what = one.what._replace(read=read) if isinstance(one.what, ReadStarted) else read
        history.append(replace(one, what=what))
    assert linearizable(history) is False
    # Nobody was told that it is stored: then it may be missing.
    unknown = [replace(one, returned=inf) if one.what == MessageAppended(lost) else one for one in history]
    assert linearizable(unknown) is True


def _log() -> list[tuple[str, int]]:
    """All that was read, by offset."""
    found: dict[int, tuple[str, int]] = {}
    for one in played():
        read = one.what.read if isinstance(one.what, ReadStarted) else one.what
        if isinstance(read, MessagesRead):
            found.update(enumerate(read.messages, read.offset))
    return [found[at] for at in range(len(found))]


def test_an_offset_that_decreases_is_detected() -> None:
    """A consumer starts before its confirmed offset, with exactly the messages stored there."""
    at, begun = max(
        (at, one.what)
        for at, one in enumerate(played())
        if isinstance(one.what, ReadStarted) and one.what.read.offset
    )
    before = begun.read.offset - 1
    read = MessagesRead(
        before, begun.read.max_messages, tuple(_log()[before : before + len(begun.read.messages)])
    )
    assert linearizable(changed(at, begun._replace(read=read))) is False


def test_two_messages_of_two_producers_in_the_wrong_order_are_noticed() -> None:
    """The second was sent when the first had been acknowledged."""
    early, late = MessageAppended(("a", 1)), MessageAppended(("b", 1))
    read = MessagesRead(0, 10, (("b", 1), ("a", 1)))
    rows = [ClientOperation(early, 0, 1), ClientOperation(late, 2, 3), ClientOperation(read, 4, 5)]
    assert linearizable(rows) is False
    assert linearizable([rows[0], replace(rows[1], called=1), rows[2]]) is True


def test_messages_of_a_producer_stand_in_their_order() -> None:
    """No client has read them, and all were in flight together: an order exists, and is found immediately."""
    many = [ClientOperation(MessageAppended(("p", number)), 0, 1) for number in range(1, 31)]
    assert check_linearizability(many[::-1], LogModel(many), max_steps=1000).linearizable is True
    assert check_linearizability(many[1:], LogModel(many[1:]), max_steps=1000).linearizable is False
    assert (
        linearizable([*many[:2], ClientOperation(MessagesRead(0, 10, (("p", 2), ("p", 1))), 2, 3)]) is False
    )


def test_questions_and_answers_are_put_together() -> None:
    """A message sent again has one beginning; an answer that keeps more keeps less, too."""
    histories = ClientHistories(1)
    histories.appends(1.0, 0, ("p", 1))
    histories.appends(2.0, 0, ("p", 1))
    histories.appended(3.0, 0, ("p", 1))
    histories.pulls(4.0, 0, "c", -1, 10)
    record = MessageRecord("t", "p", 1, b"1")
    histories.pulled(5.0, 0, FetchResponse("c", "t", 1, "stored", 0, (record,), 0))
    histories.keeps(6.0, 0, "c", 1)
    histories.keeps(7.0, 0, "c", 2)
    histories.offset_acknowledged(8.0, 0, "c", 2)
    histories.appends(9.0, 0, ("p", 2))
    read = MessagesRead(0, 10, (("p", 1),))
    assert histories.history(0) == [
        ClientOperation(MessageAppended(("p", 1)), 1.0, 3.0),
        ClientOperation(ReadStarted("c", read), 4.0, 5.0),
        ClientOperation(OffsetAcknowledged("c", 1), 6.0, 8.0),
        ClientOperation(OffsetAcknowledged("c", 2), 7.0, 8.0),
        ClientOperation(MessageAppended(("p", 2)), 9.0, inf),
    ]
    assert linearizable(histories.history(0)) is True
