"""A producer whose table changes, on a simulated client."""

import threading
import time
from collections.abc import Callable, Sequence

import pytest

from trimtab_keys.clients.ordered_producer import Headers, OrderedProducer
from trimtab_keys.core.order import PLAIN, OrderedSender, OrderingConfig
from trimtab_keys.core.routing import Route, RoutingTable
from trimtab_keys.format import HEADER, read_stamp

SPLIT = RoutingTable(1, 3, 3, {}, {b"hot": Route((0, 1, 2))})

STUCK_SECONDS = 20.0
"""Of a flush that nobody can hurry."""


class Client:
    """A client that records its calls."""

    def __init__(self, known: int = 3, quiet: bool = False) -> None:
        self.quiet, self.known = quiet, known
        self.flushing = threading.Event()
        self.let = threading.Event()
        self.let.set()
        self.filled: list[tuple[bytes, int, Headers]] = []
        self.failing = False

    def may_hold_unsent_record(self) -> bool:
        return False

    def flush(self, seconds: float) -> bool:
        self.flushing.set()
        return self.let.wait(seconds)

    def partitions(self, desired: int) -> int:
        return self.known

    def fill_gap(self, key: bytes, partition: int, headers: Headers, failed: Callable[[], None]) -> None:
        if self.failing:
            self.failing = False
            failed()
        else:
            self.filled.append((key, partition, headers))


def ends(partitions: Sequence[int]) -> dict[int, int]:
    """Every partition has seven records."""
    return dict.fromkeys(partitions, 7)


def sending(switch_seconds: float = 30.0, retry_seconds: float = 0.05) -> OrderedProducer:
    """A producer of a topic with three partitions."""
    guarding = OrderingConfig(switch_seconds=switch_seconds, run_records=1)
    made = OrderedProducer(OrderedSender(3, guarding), "p", retry_seconds)
    made.topic_id = "id"
    return made


def test_a_table_is_followed_and_records_of_a_split_key_are_stamped() -> None:
    """Other keys carry nothing."""
    one = sending()
    turn, _, stamp = one.begin(b"hot")
    one.end(turn)
    assert stamp is PLAIN
    assert one.follow(SPLIT, Client(), ends)
    found = [one.begin(b"hot") for _ in range(3)]
    assert {place for _, place, _ in found} == {0, 1, 2}
    assert [stamp.sequence for _, _, stamp in found] == [1, 2, 3]
    name, data = one.header(found[0][2])
    assert (name, read_stamp(data, "r")) == (HEADER, ("id", "p", found[0][2], False))
    assert found[0][2].fence == ((0, 7), (1, 7), (2, 7))
    assert one.begin(b"cold")[2] is PLAIN


def test_keys_without_a_stamp_are_known_until_routes_change() -> None:
    """The holder of the lock may pass records of these keys to the client at once."""
    one, client = sending(), Client()
    turn, place, _ = one.begin(b"hot")
    one.end(turn)
    assert one.plain == {b"hot": place}
    known: list[dict[bytes, int]] = []
    client.flush = lambda seconds: known.append({**one.plain}) or True  # type: ignore[method-assign]
    assert one.follow(SPLIT, client, ends)
    one.begin(b"hot")
    one.begin(b"cold")
    assert known == [{}]
    assert [*one.plain] == [b"cold"]


def test_only_keys_whose_route_changes_wait() -> None:
    """Records placed before the change must reach the client before the flush."""
    one, client = sending(), Client()
    turn, _, _ = one.begin(b"hot")
    thread = threading.Thread(target=one.follow, args=(SPLIT, client, ends))
    thread.start()
    while (begun := one.try_begin(b"hot")) is not None and not client.flushing.is_set():
        one.end(begun[0])
        time.sleep(0.001)
    assert one.try_begin(b"cold") is not None
    assert not client.flushing.wait(0.05), "a record is on its way to the client still"
    one.end(turn)
    thread.join()
    assert client.flushing.is_set()
    assert one.begin(b"hot")[2].sequence == 1


def test_a_send_waits_no_longer_than_its_limit() -> None:
    """An endless flush is abandoned, and the record follows the old table."""
    one, client = sending(switch_seconds=0.2), Client()
    client.let.clear()

    def stuck(seconds: float) -> bool:
        client.flushing.set()
        return client.let.wait(STUCK_SECONDS)

    client.flush = stuck  # type: ignore[method-assign]
    thread = threading.Thread(target=one.follow, args=(SPLIT, client, ends))
    thread.start()
    assert client.flushing.wait(30)
    turn, _, stamp = one.begin(b"hot")
    assert thread.is_alive(), "it came back before the flush did"
    one.end(turn)
    assert stamp is PLAIN
    client.let.set()
    thread.join()
    assert one.version == 0
    time.sleep(0.1)
    assert one.follow(SPLIT, client, ends), "it is tried again after a while"


def test_a_client_that_flushes_only_in_silence_gets_it() -> None:
    """All keys wait meanwhile, except for records that the application sends from within the flush."""
    one, client = sending(), Client(quiet=True)
    client.let.clear()
    thread = threading.Thread(target=one.follow, args=(SPLIT, client, ends))
    thread.start()
    assert client.flushing.wait(30)
    assert one.try_begin(b"cold") is None
    client.let.set()
    thread.join()
    assert one.try_begin(b"cold") is not None


def test_partitions_that_the_client_does_not_know_are_waited_for() -> None:
    """The producer does not follow a table that names them until the client knows them."""
    table = RoutingTable(1, 3, 4, {}, {b"hot": Route((3,))})
    one, client = sending(), Client()
    assert not one.follow(table, client, ends)
    client.known = 4
    assert one.follow(table, client, ends)
    assert one.begin(b"hot")[1] == 3


def test_the_place_of_a_record_that_failed_is_filled_until_it_is() -> None:
    """Records without a sequence need no filler."""
    one, client = sending(), Client()
    one.failed(b"cold", PLAIN)
    one.follow(SPLIT, client, ends)
    turn, _, stamp = one.begin(b"hot")
    one.failed(b"hot", stamp)
    one.end(turn)
    client.failing = True
    assert one.fill_gap(client) == 1
    assert not client.filled, "what is refused at once has to wait for the next turn"
    assert one.fill_gap(client) == 0
    ((key, partition, [(_, data)]),) = client.filled
    assert (key, read_stamp(data, "r")) == (b"hot", ("id", "p", stamp, True))
    assert partition in (0, 1, 2)


class Refusing(Client):
    """A client whose topic is gone: it rejects every record, at once or after a while."""

    def __init__(self, slow: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.asked, self._slow = 0, slow

    def fill_gap(self, key: bytes, partition: int, headers: Headers, failed: Callable[[], None]) -> None:
        self.asked += 1
        assert self.asked < 100, "for ever"
        self._slow()
        failed()


def failures(one: OrderedProducer, count: int) -> None:
    """Report this many failed records of a split key."""
    for _ in range(count):
        turn, _, stamp = one.begin(b"hot")
        one.failed(b"hot", stamp)
        one.end(turn)


def test_a_client_that_always_rejects_is_called_once_for_each_failure() -> None:
    """In each turn again; in between the thread reads tables and sends heartbeats."""
    one, client = sending(), Refusing()
    one.follow(SPLIT, client, ends)
    failures(one, 3)
    assert one.fill_gap(client) == 3
    assert one.fill_gap(client) == 3
    assert client.asked == 6


def test_a_client_that_rejects_slowly_is_called_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes a minute: one a turn, and the others are not forgotten."""
    now = [0.0]
    monkeypatch.setattr("trimtab_keys.clients.ordered_producer.time.monotonic", lambda: now[0])

    def slow() -> None:
        now[0] += 60

    one, client = sending(), Refusing(slow)
    one.follow(SPLIT, client, ends)
    failures(one, 3)
    assert one.fill_gap(client) == 3
    assert client.asked == 1


def test_a_late_acknowledgement_does_not_count_as_delivery() -> None:
    """A suspended process still had the request in a socket: consumers had continued without it."""
    one = sending()
    assert one.late(119) is None
    assert "expected within 120 s (delivery_seconds)" in str(one.late(121))


def test_ends_that_cannot_be_read_leave_the_old_table() -> None:
    """The change is cancelled, no sender waits, and it is retried."""

    def broken(_: Sequence[int]) -> dict[int, int]:
        raise OSError("away")

    one = sending(retry_seconds=0.01)
    with pytest.raises(OSError, match="away"):
        one.follow(SPLIT, Client(), broken)
    turn, _, stamp = one.begin(b"hot")
    one.end(turn)
    assert stamp is PLAIN
    time.sleep(0.02)
    assert one.follow(SPLIT, Client(), ends)
