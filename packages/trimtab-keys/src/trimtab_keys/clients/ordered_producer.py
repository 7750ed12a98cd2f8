"""The order guard of a producer, for any client library."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Protocol

from trimtab_keys.core.order import FillGap, Flush, OrderedSender, ReadEnds, SenderOrder, Stamp
from trimtab_keys.core.routing import RoutingTable
from trimtab_keys.format import HEADER, stamp_bytes

Headers = list[tuple[str, bytes]]

STEP_SECONDS = 0.002
"""Pause while placed records are passed to the client."""
GAP_FILL_TIMEOUT_SECONDS = 1.0
"""Time limit of one round of filling, so that a slow client does not delay the next table."""


class SerializedKey:
    """A key that is already serialised, so that the serialiser of the client does not run again."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class ProducerAdapter(Protocol):
    """The producer of a client library, as a thread of ours calls it.

    Attributes
    ----------
    quiet
        Whether a flush ends only if nothing is sent meanwhile. All keys then wait during the flush.
    """

    quiet: bool = False

    def may_hold_unsent_record(self) -> bool:
        """Whether a thread may have read `OrderedProducer.plain` without the lock and not sent its record."""
        return False

    def flush(self, seconds: float) -> bool:
        """Wait until each sent record is acknowledged or has failed; False if that takes too long."""
        ...

    def partitions(self, desired: int) -> int:
        """Number of partitions that the client knows. If it is below `desired`, the client refreshes its
        metadata.
        """
        ...

    def fill_gap(self, key: bytes, partition: int, headers: Headers, failed: Callable[[], None]) -> None:
        """Send a record without value; call `failed` if that fails."""
        ...


class OrderedProducer:
    """An `OrderedSender` with a lock: application threads place records, the follower's thread changes
    tables.

    Parameters
    ----------
    sender
        The order guard's producer side.
    process
        Name of this run.
    retry_seconds
        Time after which an abandoned change of tables is tried again.

    Attributes
    ----------
    topic_id
        Id of the topic, for stamps; set before the first table is followed.
    lock
        Its holder may pass a record that was `placed` directly to a client that never waits, because no
        change of routes begins meanwhile. All others use `begin` and `end`.
    plain
        Known partitions of keys that need no stamp. A client may read this without the lock if its adapter
        implements `may_hold_unsent_record`.
    """

    def __init__(self, sender: OrderedSender, process: str, retry_seconds: float) -> None:
        self.process, self._retry_seconds = process, retry_seconds
        self.topic_id = ""
        self._sender, self.plain = sender, sender.plain
        self.lock = threading.Lock()
        self._changed = threading.Condition(self.lock)
        # Records placed and not yet in the client's hands, by whether the last change was even or odd.
        self._in_hand, self._turn = [0, 0], 0
        self._flushing = 0
        self._failures: deque[tuple[bytes, Stamp]] = deque()
        self._retry_at = 0.0
        self._chance = random.random

    @property
    def version(self) -> int:
        """Version of the current table; 0 for the plain hash."""
        return self._sender.table.version

    @property
    def base(self) -> int:
        """Number of partitions by which the hash divides."""
        return self._sender.table.base

    def try_begin(self, key: bytes) -> tuple[int, int, Stamp] | None:
        """Place a record: turn, partition and stamp. None while the route of its key changes.

        `end` must follow once the client has accepted or rejected the record.
        """
        with self.lock:
            placed = self.placed(key)
            if placed is None:
                return None
            turn = self._turn
            self._in_hand[turn] += 1
            return turn, *placed

    def placed(self, key: bytes) -> tuple[int, Stamp] | None:
        """Place a record for the holder of the lock: partition and stamp. None while the route of its key
        changes.
        """
        # A client may call back within its flush, and the application send from there.
        if self._flushing and self._flushing != threading.get_ident():
            return None
        return self._sender.place(key, self._chance)

    def begin(self, key: bytes) -> tuple[int, int, Stamp]:
        """Like `try_begin`, but waits for a change of routes, at most for `switch_seconds`; then abandons
        the change.
        """
        begun = self.try_begin(key)
        if begun is not None:
            return begun
        until = time.monotonic() + self._sender.settings.switch_seconds
        while True:
            with self.lock:
                self._changed.wait(max(0.0, until - time.monotonic()))
                if time.monotonic() >= until:
                    self._give_up()
            begun = self.try_begin(key)
            if begun is not None:
                return begun

    def end(self, turn: int) -> None:
        """Report that the client has accepted or rejected a record."""
        with self.lock:
            self._in_hand[turn] -= 1

    def forget(self) -> None:
        """Discard the known partitions of keys."""
        with self.lock:
            self.plain.clear()

    def give_up(self) -> None:
        """Abandon a change that took too long, and continue with the old table."""
        with self.lock:
            self._give_up()

    def header(self, stamp: Stamp) -> tuple[str, bytes]:
        """The header of a record that has a stamp."""
        return HEADER, stamp_bytes(self.topic_id, self.process, stamp)

    def failed(self, key: bytes, stamp: Stamp) -> None:
        """Report that a record failed or was rejected, from any thread. Its place is filled soon."""
        if stamp.sequence:
            self._failures.append((key, stamp))

    def late(self, age_seconds: float) -> str | None:
        """Why a record counts as failed although it is acknowledged now; None if it does not.

        Parameters
        ----------
        age_seconds
            Time since the record was placed.
        """
        limit = self._sender.settings.delivery_seconds
        if age_seconds <= limit:
            return None
        # No client stops a request that a socket holds: of a process that slept it is appended years later.
        return (
            f"acknowledged after {age_seconds:.0f} s, expected within {limit:g} s (delivery_seconds): "
            "consumers may have gone on without it; send it again, or raise that and gap_seconds"
        )

    # -- from the follower's thread

    def follow(
        self,
        table: RoutingTable,
        adapter: ProducerAdapter,
        ends: Callable[[Sequence[int]], Mapping[int, int]],
    ) -> bool:
        """Change to a newer table; whether it is in use now."""
        now = time.monotonic()
        if table.version <= self.version:
            return True
        # What was placed two changes ago is counted where the next records would be: it must be gone.
        if now < self._retry_at or self._in_hand[1 - self._turn]:
            return False
        if adapter.partitions(table.partitions) < table.partitions:
            return False
        with self.lock:
            before, self._turn = self._turn, 1 - self._turn
            orders: list[SenderOrder] = self._sender.adopt_table(table, now)
            self._flushing = threading.get_ident() if orders and adapter.quiet else 0
        until = now + self._sender.settings.switch_seconds
        try:
            for order in orders:
                if isinstance(order, Flush) and not self._flush(before, adapter, until):
                    break
                with self.lock:
                    self._flushing = 0
                    self._changed.notify_all()
                    asked = self._sender.flushed(table.version)
                for one in asked:
                    if isinstance(one, ReadEnds):
                        found = ends(one.partitions)
                        with self.lock:
                            self._sender.ends_read(one.version, found, time.monotonic())
        finally:
            with self.lock:
                self._flushing = 0
                if self._sender.changing:
                    self._give_up()
                self._changed.notify_all()
        return self.version >= table.version

    def fill_gap(self, adapter: ProducerAdapter) -> int:
        """Fill the place of each failed record once; the number of places whose filling was rejected
        again.
        """
        # Refused at once, they come back while they are gone through: the next turn is early enough for them.
        until = time.monotonic() + GAP_FILL_TIMEOUT_SECONDS
        for _ in range(len(self._failures)):
            key, stamp = self._failures.popleft()
            with self.lock:
                orders = self._sender.failed(key, stamp)
            for order in orders:
                if isinstance(order, FillGap):
                    self._fill_gaps(order, adapter)
            if time.monotonic() >= until:
                break
        return len(self._failures)

    def _fill_gaps(self, order: FillGap, adapter: ProducerAdapter) -> None:
        place = order.partitions[int(self._chance() * len(order.partitions))]
        header = HEADER, stamp_bytes(self.topic_id, self.process, order.stamp, fill=True)

        def again() -> None:
            self._failures.append((order.key, order.stamp))

        adapter.fill_gap(order.key, place, [header], again)

    def _flush(self, before: int, adapter: ProducerAdapter, until: float) -> bool:
        """Whether all records placed before the change have reached the client, and are acknowledged or
        failed.
        """
        while (self._in_hand[before] or adapter.may_hold_unsent_record()) and self._sender.changing:
            if time.monotonic() >= until:
                return False
            time.sleep(STEP_SECONDS)
        return bool(self._sender.changing) and adapter.flush(max(0.0, until - time.monotonic()))

    def _give_up(self) -> None:
        self._flushing = 0
        if self._sender.changing:
            self._sender.ticked(inf)
            self._retry_at = time.monotonic() + self._retry_seconds
            self._changed.notify_all()
