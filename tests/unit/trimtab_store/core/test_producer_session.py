"""A producer's side of a group, step by step."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import pairwise
from math import inf

import pytest

from trimtab_store.core.client_sessions import ProducerSession
from trimtab_store.core.messages import ProduceRequest, ProduceResponse, SendMessage

WINDOW = 256


def sending() -> ProducerSession:
    """A producer `p` of topic `t`, which asks node 0 of three first."""
    return ProducerSession("client", 7, "t", "p", nodes=3, timeout_seconds=1.0, again_seconds=0.02)


def accepted(posted: int = 0) -> ProducerSession:
    """One of which node 0 has stored message 1 at second 0, and to which it has sent so many more."""
    one = sending()
    (first,) = one.post(0.0, b"x")
    one.received(0.0, 0, answer(first, "stored"))
    for _ in range(posted):
        one.post(0.0, b"x")
    return one


def answer(order: SendMessage, verdict: str, master: int = 0) -> ProduceResponse:
    """The answer to a message that was sent."""
    sent = order.message
    return ProduceResponse("t", "p", sent.record.sequence, verdict, master, sent.attempt)


def sent(orders: list[SendMessage]) -> list[tuple[int | str, int]]:
    """Node and sequence of each."""
    assert all(isinstance(one.message, ProduceRequest) and one.group == 7 for one in orders)
    return [(one.to, one.message.record.sequence) for one in orders]


def test_messages_are_numbered_and_the_first_is_sent_alone() -> None:
    """Until a node has stored one, the master is unknown; then they are sent immediately."""
    one = sending()
    (first,), *others = [one.post(0.0, b"x") for _ in range(3)]
    assert sent([first]) == [(0, 1)] and others == [[], []]
    assert one.next_deadline() == 1.0
    assert one.received(0.1, 0, answer(first, "stored")) == [1]
    assert sent(one.tick(0.1)) == [(0, 2), (0, 3)]
    assert sent(one.post(0.1, b"x")) == [(0, 4)]


def test_messages_behind_a_stored_one_remain_open() -> None:
    """A message counts behind those before it alone, so the answer to one is that to all before."""
    one = accepted()
    orders = [order for _ in range(3) for order in one.post(0.0, b"x")]
    assert one.received(0.1, 0, answer(orders[1], "stored")) == [2, 3]
    assert one.received(0.1, 0, answer(orders[0], "stored")) == []
    assert list(one.open) == [4] and one.next_deadline() == 1.1
    assert one.received(0.2, 0, answer(orders[2], "stored")) == [4]
    assert one.next_deadline() == inf


def test_a_redirect_sends_the_oldest_to_the_named_node_and_then_all_in_order() -> None:
    """And a later message follows them."""
    one = accepted()
    order, _ = (*one.post(0.1, b"x"), *one.post(0.1, b"x"))
    one.received(0.1, 0, answer(order, "moved", 2))
    assert one.post(0.1, b"x") == []
    assert one.next_deadline() == 0.1
    (order,) = one.tick(0.1)
    assert sent([order]) == [(2, 2)]
    assert one.received(0.2, 2, answer(order, "stored", 2)) == [2]
    assert one.next_deadline() == 0.2
    assert sent(one.tick(0.2)) == [(2, 3), (2, 4)]


def test_late_answers_of_the_former_master_begin_no_round() -> None:
    """They are about what was sent before; the new one has been sent everything."""
    one = accepted()
    orders = [order for _ in range(3) for order in one.post(0.1, b"x")]
    one.received(0.1, 0, answer(orders[0], "moved", 2))
    (first,) = one.tick(0.1)
    one.received(0.11, 0, answer(orders[1], "moved", 1))
    one.received(0.12, 2, answer(first, "stored", 2))
    assert sent(one.tick(0.12)) == [(2, 3), (2, 4)]
    one.received(0.13, 0, answer(orders[2], "moved", 1))
    one.received(0.13, 0, answer(orders[2], "gap", 1))
    assert one.master == 2 and one.next_deadline() == pytest.approx(1.12)


def storm(seconds: float, *, latency_seconds: float = 0.01) -> int:
    """How many messages a producer sends while nodes 0 and 1 answer each with the other's name, for so long.

    Before that node 0 was master, and the producer had its window under way there.
    """
    one, now, count = accepted(), 0.0, 0
    coming: list[tuple[float, int, SendMessage]] = []

    def send(orders: list[SendMessage]) -> None:
        nonlocal count
        for order in orders:
            count += 1
            heappush(coming, (now + latency_seconds, count, order))

    for _ in range(WINDOW):
        send(one.post(now, b"x"))
    while (now := min(coming[0][0] if coming else inf, one.next_deadline())) < seconds:
        while coming and coming[0][0] <= now:
            _, _, order = heappop(coming)
            assert isinstance(order.to, int)
            one.received(now, order.to, answer(order, "moved", 1 - order.to))
        send(one.tick(now) if one.next_deadline() <= now else [])
    return count


def test_redirects_do_not_multiply() -> None:
    """256 messages in flight, and no master for three seconds: each is sent once, with a few lookups. When
    every rejection started another round it was 38,656 messages.
    """
    assert WINDOW < storm(1.0) <= WINDOW + 8
    assert storm(3.0) <= WINDOW + 14


def test_rounds_without_success_are_further_and_further_apart_up_to_a_bound() -> None:
    """And begin at once again as soon as something was stored."""
    one = accepted()
    (order,) = one.post(10.0, b"x")
    now, times = 10.0, [10.0]
    for _ in range(8):
        one.received(now, one.master, answer(order, "moved", (one.master + 1) % 3))
        now = one.next_deadline()
        (order,) = one.tick(now)
        times.append(now)
    pauses = [round(after - before, 3) for before, after in pairwise(times)]
    assert pauses == [0.0, 0.04, 0.08, 0.16, 0.32, 0.32, 0.32, 0.32]
    one.received(now, one.master, answer(order, "stored"))
    (order,) = one.post(now + 1.0, b"x")
    one.received(now + 1.0, one.master, answer(order, "moved", (one.master + 1) % 3))
    assert one.next_deadline() == now + 1.0


def test_messages_in_flight_at_a_slow_master_are_not_resent() -> None:
    """After a time-out another node names it: the oldest message checks whether it is alive, and the rest
    stays there.
    """
    one = accepted(posted=9)
    (order,) = one.tick(1.0)
    assert sent([order]) == [(1, 2)]
    one.received(1.0, 1, answer(order, "moved", 0))
    (order,) = one.tick(one.next_deadline())
    assert sent([order]) == [(0, 2)]
    one.received(1.5, 0, answer(order, "stored"))
    assert one.tick(1.5) == []
    assert sent(one.post(1.5, b"x")) == [(0, 11)]


def test_messages_lost_at_a_running_master_are_resent() -> None:
    """Nothing but the oldest is stored between two silences: the others did not get there."""
    one, now, orders = accepted(posted=9), 0.0, list[SendMessage]()
    for _ in range(20):
        now = one.next_deadline()
        orders = one.tick(now)
        for order in orders:
            told = answer(order, "stored") if order.to == 0 else answer(order, "moved", 0)
            one.received(now, one.master, told)
        if not one.open:
            break
    assert not one.open and now < 3.0


def test_a_gap_is_filled_by_sending_all_again() -> None:
    """A message was lost on its way, and those behind it do not count; late answers begin no other round."""
    one = accepted()
    orders = [order for _ in range(3) for order in one.post(0.1, b"x")]
    one.received(0.2, 1, answer(orders[1], "gap"))
    (order,) = one.tick(0.2)
    assert sent([order]) == [(0, 2)]
    one.received(0.2, 1, answer(orders[2], "gap"))
    one.received(0.3, 0, answer(order, "stored"))
    assert sent(one.tick(0.3)) == [(0, 3), (0, 4)]


def test_after_a_timeout_the_next_node_is_tried() -> None:
    """The master may be dead, and no other known."""
    one = sending()
    one.post(0.0, b"x")
    assert one.tick(0.9) == []
    assert sent(one.tick(1.0)) == [(1, 1)]
    assert sent(one.tick(2.0)) == [(2, 1)]
    assert sent(one.tick(3.0)) == [(0, 1)]


def test_a_broken_connection_is_no_reason_to_wait() -> None:
    """The next node is tried immediately; another node's connection does not matter."""
    one = sending()
    one.post(0.0, b"x")
    one.lost(0.1, 1)
    assert one.tick(0.1) == []
    one.lost(0.1, 0)
    assert sent(one.tick(0.1)) == [(1, 1)]


def test_messages_of_a_broken_connection_are_resent() -> None:
    """The node is tried again, accepts the oldest, and receives the others."""
    one = accepted(posted=2)
    one.lost(0.1, 0)
    (order,) = one.tick(0.1)
    one.received(0.2, 1, answer(order, "moved", 0))
    (order,) = one.tick(one.next_deadline())
    one.received(0.3, 0, answer(order, "stored"))
    assert sent(one.tick(0.3)) == [(0, 3)]


def test_answers_for_others_are_passed_over() -> None:
    """Several producers may share a connection."""
    one = sending()
    one.post(0.0, b"x")
    assert one.received(0.1, 0, ProduceResponse("t", "q", 1, "stored", 0)) == []
    assert one.received(0.1, 0, ProduceResponse("u", "p", 1, "stored", 0)) == []
    assert list(one.open) == [1]


def test_timers_fire_although_seconds_are_rounded() -> None:
    """A session that is woken at its deadline must advance, or it would be woken again without end."""
    for step in range(1000):
        one, posted = sending(), step * 0.001
        one.post(posted, b"x")
        assert one.tick(one.next_deadline()) != []
