"""A producer's side of a group, step by step."""

from __future__ import annotations

from math import inf

from trimtab.online.masters.messages import Publish, Published, Send
from trimtab.online.masters.sending import Sending


def sending() -> Sending:
    """A producer `p` of topic `t`, which asks node 0 of three first."""
    return Sending("client", 7, "t", "p", nodes=3, patience_seconds=1.0, again_seconds=0.02)


def told(sequence: int, verdict: str, master: int = 0) -> Published:
    """An answer."""
    return Published("t", "p", sequence, verdict, master)


def sent(orders: list[Send]) -> list[tuple[int | str, int]]:
    """Node and sequence of each."""
    assert all(isinstance(one.message, Publish) and one.group == 7 for one in orders)
    return [(one.to, one.message.record.sequence) for one in orders]


def test_messages_are_numbered_and_sent_at_once() -> None:
    """One behind the other, to the node that is thought to be master."""
    one = sending()
    assert [sent(one.post(0.0, b"x")) for _ in range(3)] == [[(0, 1)], [(0, 2)], [(0, 3)]]
    assert one.due() == 1.0


def test_what_stands_behind_a_stored_message_only_is_open() -> None:
    """A message counts behind those before it alone, so the answer to one is that to all before."""
    one = sending()
    for _ in range(3):
        one.post(0.0, b"x")
    assert one.received(0.1, 0, told(2, "stored")) == [1, 2]
    assert one.received(0.1, 0, told(1, "stored")) == []
    assert list(one.open) == [3] and one.due() == 1.1
    assert one.received(0.2, 0, told(3, "stored")) == [3]
    assert one.due() == inf


def test_a_redirect_sends_all_that_is_open_to_the_named_node_in_order() -> None:
    """And a message that comes meanwhile goes behind them."""
    one = sending()
    one.post(0.0, b"x")
    one.post(0.0, b"x")
    one.received(0.1, 0, told(1, "moved", 2))
    assert one.post(0.1, b"x") == []
    assert one.due() == 0.1
    assert sent(one.go_on(0.1)) == [(2, 1), (2, 2), (2, 3)]


def test_late_answers_of_the_former_master_send_nobody_back() -> None:
    """They are about what was sent before; everything goes to the new one once more, not at once."""
    one = sending()
    one.post(0.0, b"x")
    one.post(0.0, b"x")
    one.received(0.1, 0, told(1, "moved", 2))
    one.go_on(0.1)
    one.received(0.1, 0, told(2, "moved", 1))
    assert one.master == 2
    assert one.go_on(0.11) == []
    assert sent(one.go_on(0.13)) == [(2, 1), (2, 2)]


def test_two_nodes_that_name_one_another_are_not_asked_in_a_circle_at_once() -> None:
    """While a mastership changes hands each may believe it of the other."""
    one, rounds, now = sending(), 0, 0.0
    one.post(now, b"x")
    while now < 1.0:
        one.received(now, one.master, told(1, "moved", 1 - one.master))
        now = max(now, one.due())
        rounds += bool(one.go_on(now))
    assert rounds <= 51


def test_a_gap_is_filled_by_sending_all_again() -> None:
    """A message was lost on its way, and those behind it do not count."""
    one = sending()
    one.post(0.0, b"x")
    one.post(0.0, b"x")
    one.received(0.1, 1, told(2, "gap"))
    assert sent(one.go_on(0.1)) == [(0, 1), (0, 2)]


def test_after_a_silence_the_next_node_is_asked() -> None:
    """The master may be dead, and nobody may know another."""
    one = sending()
    one.post(0.0, b"x")
    assert one.go_on(0.9) == []
    assert sent(one.go_on(1.0)) == [(1, 1)]
    assert sent(one.go_on(2.0)) == [(2, 1)]
    assert sent(one.go_on(3.0)) == [(0, 1)]


def test_a_broken_connection_is_no_reason_to_wait() -> None:
    """The next node is asked at once; of another node's connection nothing hangs."""
    one = sending()
    one.post(0.0, b"x")
    one.lost(0.1, 1)
    assert one.go_on(0.1) == []
    one.lost(0.1, 0)
    assert sent(one.go_on(0.1)) == [(1, 1)]


def test_answers_for_others_are_passed_over() -> None:
    """Several producers may share a connection."""
    one = sending()
    one.post(0.0, b"x")
    assert one.received(0.1, 0, Published("t", "q", 1, "stored", 0)) == []
    assert one.received(0.1, 0, Published("u", "p", 1, "stored", 0)) == []
    assert list(one.open) == [1]
