"""A consumer's side of a group, step by step."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab_store.core.client_sessions import ConsumerSession
from trimtab_store.core.messages import (
    FetchRequest,
    FetchResponse,
    MessageRecord,
    OffsetCommitted,
    OffsetUpload,
    RequestOffset,
    SendMessage,
)

RECORDS = tuple(MessageRecord("t", "p", sequence, b"") for sequence in range(1, 6))


def reading(**options: Any) -> ConsumerSession:
    """A consumer `c` of topic `t`, which asks node 0 of three first."""
    return ConsumerSession("client", 7, "t", "c", nodes=3, max_messages=10, **options)


def pulled(
    one: ConsumerSession, orders: list[SendMessage], verdict: str = "stored", **told: Any
) -> FetchResponse:
    """The answer to the pull among these orders."""
    (pull,) = (order.message for order in orders if isinstance(order.message, FetchRequest))
    offset = told.get("offset", pull.offset)
    return FetchResponse(
        "c", "t", pull.number, verdict, offset, told.get("records", ()), told.get("master", 0)
    )


def begun() -> ConsumerSession:
    """One that has begun at offset 40, got five messages, and waits for room."""
    one = reading()
    one.has_capacity = 5
    orders = one.tick(0.0)
    _, records = one.received(0.0, 0, pulled(one, orders, offset=40, records=RECORDS))
    assert records == RECORDS and one.has_capacity == 0
    return one


def test_it_starts_at_the_masters_offset() -> None:
    """And goes on from there by itself."""
    one = reading()
    (order,) = one.tick(0.0)
    assert order.to == 0 and order.message.offset == -1
    _, records = one.received(0.1, 0, pulled(one, [order], offset=40, records=RECORDS))
    assert records == RECORDS and (one.position, one.done, one.committed_offset) == (45, 40, 40)
    (order,) = one.tick(0.1)
    assert order.message.offset == 45


def test_it_skips_messages_that_are_no_longer_retained() -> None:
    """The answer contains the first offset."""
    one = begun()
    one.has_capacity = 10
    orders = one.tick(1.0)
    _, records = one.received(1.0, 0, pulled(one, orders, offset=90, records=RECORDS))
    assert records == RECORDS and one.position == 95


def test_an_answer_to_an_earlier_question_is_passed_over() -> None:
    """The fetch timed out, and another node was tried."""
    one = reading()
    early = one.tick(0.0)
    late = one.tick(1.0)
    assert [one.to for one in late] == [1]
    assert one.received(1.1, 0, pulled(one, early, offset=0, records=RECORDS)) == ([], ())
    _, records = one.received(1.2, 1, pulled(one, late, offset=0, records=RECORDS))
    assert records == RECORDS


def test_a_redirect_is_followed() -> None:
    """Soon, not at once: while there is no master each node names the last."""
    one = reading()
    one.received(0.0, 0, pulled(one, one.tick(0.0), "moved", master=2))
    assert one.next_deadline() == 0.02
    assert [order.to for order in one.tick(0.02)] == [2]


def test_redirects_in_a_circle_are_followed_more_and_more_slowly() -> None:
    """While there is no master a question each 0.32 s is enough; with the next answer all is as before."""
    one, now, times = reading(), 0.0, []
    while now < 3.0:
        orders = one.tick(now)
        times.append(now)
        one.received(now, one.master, pulled(one, orders, "moved", master=(one.master + 1) % 3))
        now = one.next_deadline()
    assert len(times) == 13
    one.received(now, one.master, pulled(one, one.tick(now), records=RECORDS))
    one.received(now, one.master, pulled(one, one.tick(now), "moved", master=0))
    assert one.next_deadline() == now + 0.02


def test_a_transfer_is_answered_with_processed_not_received_offsets() -> None:
    """The next consumer of the name gets what this one had not worked off."""
    one = begun()
    one.work_off(0.1, 42)
    orders, _ = one.received(0.2, 0, RequestOffset("c", "t", 9))
    assert orders == [SendMessage(0, 7, OffsetUpload("client", "c", "t", 42, 9), False)]


def test_after_a_transfer_it_continues_at_its_offset() -> None:
    """Whatever the new master knows: nothing is delivered twice."""
    one = begun()
    one.has_capacity = 10
    one.received(1.0, 0, pulled(one, one.tick(1.0), "wait"))
    assert one.master == 0
    one.received(1.1, 0, pulled(one, one.tick(1.1), "moved", master=1))
    (order,) = one.tick(1.2)
    assert order.to == 1 and order.message.offset == 45


def test_an_offset_is_uploaded_until_it_is_stored() -> None:
    """A node that is no longer master does not answer it, so the master is looked up."""
    one = begun()
    one.work_off(0.0, 43)
    assert one.next_deadline() == 0.5
    orders = one.tick(0.5)
    assert [type(order.message) for order in orders] == [FetchRequest, OffsetUpload]
    assert orders[0].message.max_messages == 0
    one.received(0.5, 0, pulled(one, orders, "moved", master=1))
    *_, upload = one.tick(1.0)
    assert (upload.to, upload.message.offset) == (1, 43)
    one.received(1.1, 1, OffsetCommitted("c", "t", 43))
    assert one.committed_offset == 43 and one.tick(3.0) == []


def test_a_stored_offset_does_not_end_the_next_upload() -> None:
    """More was worked off since."""
    one = begun()
    one.work_off(0.0, 43)
    one.tick(0.5)
    one.work_off(0.6, 44)
    one.received(0.7, 0, OffsetCommitted("c", "t", 43))
    assert any(order.message == OffsetUpload("client", "c", "t", 44, -1) for order in one.tick(1.0))


def test_a_leaving_consumer_uploads_its_offset_until_a_master_confirms() -> None:
    """Its last word to a node is that it leaves, or it would be waited for; it asks for no message."""
    one = begun()
    one.work_off(0.0, 43)
    one.leave(0.1)
    orders, now = one.tick(0.1), 0.1
    assert [type(order.message) for order in orders] == [FetchRequest, OffsetUpload]
    assert orders[0].message.max_messages == 0
    assert orders[1].message == OffsetUpload("client", "c", "t", 43, -1, True)
    one.received(now, 0, pulled(one, orders, "moved", master=2))
    now = one.next_deadline()
    assert now == pytest.approx(0.12)
    *_, upload = one.tick(now)
    assert (upload.to, upload.message.leaves, one.left) == (2, True, False)
    orders, _ = one.received(now, 2, RequestOffset("c", "t", 9))
    assert orders == [SendMessage(2, 7, OffsetUpload("client", "c", "t", 43, 9, True), False)]
    one.received(now, 2, OffsetCommitted("c", "t", 43))
    assert one.left and one.committed_offset == 43


def test_an_offset_stored_earlier_does_not_confirm_a_later_departure() -> None:
    """The master may not know it yet."""
    one = begun()
    one.received(0.1, 0, OffsetCommitted("c", "t", 40))
    one.leave(0.2)
    assert not one.left and one.next_deadline() == 0.2


def test_nothing_is_fetched_while_the_buffer_is_full() -> None:
    """A program that does not read does not fill its memory."""
    one = begun()
    assert one.tick(5.0) == []
    one.has_capacity = 3
    (order,) = one.tick(5.0)
    assert order.message.max_messages == 3


def test_after_a_timeout_or_a_broken_connection_the_next_node_is_tried() -> None:
    """The master may be dead."""
    one = reading()
    one.tick(0.0)
    assert one.tick(0.9) == []
    assert [order.to for order in one.tick(1.0)] == [1]
    one.lost(1.1, 0)
    assert one.tick(1.2) == []
    one.lost(1.2, 1)
    assert [order.to for order in one.tick(1.3)] == [2]


def test_timers_fire_although_seconds_are_rounded() -> None:
    """A session that is woken at its deadline must advance, or it would be woken again without end."""
    for step in range(1000):
        one = reading()
        one.tick(step * 0.001)
        assert one.tick(one.next_deadline()) != []
