"""A consumer's records on their way through the order guard, whichever client brings them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final
from uuid import uuid4

from trimtab.dataplane.keys.follower import Follower
from trimtab.dataplane.keys.marks import Marks, mark_name
from trimtab.dataplane.keys.settings import Following
from trimtab.dataplane.keys.side import SideConnection
from trimtab.files.keys.heartbeat import Heartbeat
from trimtab.files.keys.stamp import HEADER, read_stamp
from trimtab.files.keys.table import PublishedTable
from trimtab.model.errors import InputError
from trimtab.model.keys.routing import GROUPS
from trimtab.online.keys.murmur2 import Hashes
from trimtab.online.keys.order.messages import (
    AskMark,
    Commit,
    Drop,
    Probe,
    ReceiverOrder,
    Record,
    Release,
    Search,
    Skip,
    Stream,
)
from trimtab.online.keys.order.receiver import Receiver

TICK_SECONDS: Final = 0.2
"""Time between two looks at what waits where nothing does."""
QUICK_SECONDS: Final = 0.005
"""The same where something waits: what it waits for may have taken effect with another consumer."""
HEAR_SECONDS: Final = 0.05
"""Time between two questions what others have committed, where something waits, and between two commits."""
KEYLESS: Final = -1
"""The group of records without a key: they wait for nothing."""

Handler = Callable[[Any], object]


class Receiving:
    """A `Receiver` with what it orders: handlers run, marks are kept, offsets are named for committing.

    All of it belongs to one thread, but for what the follower's answers.

    Parameters
    ----------
    settings
        Where tables are.
    topic, group
        Of the records, and the consumer group.
    client
        Name of the client, for heartbeats.
    handler
        Called with each record, as its client gives it, in each key's order, inside a transaction of `marks`.
    marks
        Where effects are kept.

    Attributes
    ----------
    commits
        Offsets to be committed, by partition.
    member
        The consumer's id in its group, as the client tells it.
    partitions
        That the topic has, as the client sees it.

    Raises
    ------
    InputError
        If the cluster does not tell what the topic is.
    """

    def __init__(
        self,
        settings: Following,
        topic: str,
        group: str,
        client: str,
        handler: Handler,
        marks: Marks,
    ) -> None:
        self.commits: dict[int, int] = {}
        self.member: str | None = None
        self.partitions = 0
        self._topic, self._group, self._client = topic, group, client
        self._handler, self._marks = handler, marks
        self._process = uuid4().hex
        self._receiver = Receiver(settings.guarding)
        self._messages: dict[tuple[int, int], tuple[Record, bool, Any]] = {}
        self._ready: deque[tuple[int, int]] = deque()
        self._answers: SimpleQueue[Callable[[], list[ReceiverOrder]]] = SimpleQueue()
        self._hashes, self._ticked, self._heard, self._asked = Hashes(), 0.0, True, False
        self._heard_at = self._committed_at = 0.0
        self._failed = False
        self._unread: InputError | None = None
        self._assigned: tuple[int, ...] = ()
        self._paused: dict[int, bool] = {}
        self.follower = Follower(settings, topic, lambda *_: None, self._beat)
        self.follower.start()
        if self.follower.seen is None:
            self.follower.stop()
            raise InputError(
                f"topic {topic}: marks name it by its id, and the cluster did not tell it ("
                f"{self.follower.trouble}); check connection of Following"
            )
        self._topic_id = self.follower.seen.topic_id

    @property
    def held(self) -> int:
        """Records received that may not take effect yet."""
        return self._receiver.held

    @property
    def lanes(self) -> Iterable[int]:
        """Partitions that are ours."""
        return self._receiver.lanes

    def assigned(self, partition: int, position: int) -> None:
        """A partition is ours, and will be received from an offset on: committed, or its beginning."""
        self.revoked([partition])
        self._carry_out(self._receiver.assigned(partition, position))
        self._assigned = tuple(sorted(self._receiver.lanes))

    def revoked(self, partitions: Iterable[int]) -> None:
        """Partitions are another's; what was received of them is forgotten."""
        for partition in partitions:
            self._receiver.revoked(partition)
            self.commits.pop(partition, None)
            # A client may keep it paused over a rebalance, or not: whoever has it next is told anew.
            self._paused.pop(partition, None)
            for place in [one for one in self._messages if one[0] == partition]:
                del self._messages[place]
        self._ready = deque(one for one in self._ready if one in self._messages)
        self._assigned = tuple(sorted(self._receiver.lanes))

    def received(
        self, partition: int, offset: int, key: bytes | None, headers: Sequence[tuple[str, Any]], message: Any
    ) -> None:
        """A record came; what is released by it waits until `turn`.

        Raises
        ------
        InputError
            If its stamp cannot be read: neither it nor what comes behind it takes effect, or is committed.
        """
        lane = self._receiver.lanes.get(partition)
        if lane is None:
            return
        if offset < lane.position:
            self._check_topic()
            return
        data = next((its for name, its in headers if name == HEADER), None) if headers else None
        subject = f"{self._topic}, partition {partition}, offset {offset}"
        try:
            producer, stamp, fill = read_stamp(data, subject)
        except InputError as error:
            # Its place in its key's order is unknown, and the client would go on behind it.
            self._unread = error
            raise
        group = KEYLESS if key is None else self._hashes[key] % GROUPS
        record = Record(producer, key or b"", group, stamp)
        self._messages[partition, offset] = record, fill, message
        self._carry_out(self._receiver.arrived(partition, offset, record, time.monotonic()))

    def positioned(self, partition: int, position: int) -> None:
        """Up to there, the client has handed everything over; it may lie behind markers of transactions."""
        self._receiver.positioned(partition, position)

    def turn(self) -> None:
        """Let what is released take effect, and look after what waits; `commits` is up to date then.

        Raises
        ------
        InputError
            If the topic was deleted and made anew, a handler failed, or a stamp could not be read.
        """
        if self.follower.recreated is not None:
            raise self._recreated()
        if self._unread is not None:
            raise self._unread
        if self._failed:
            raise InputError(
                f"{self._topic}: a handler failed; make the consumer anew, and its record is done again"
            )
        while True:
            try:
                self._carry_out(self._answers.get_nowait()())
            except Empty:
                break
        self._take_effect()
        now = time.monotonic()
        waits = bool(self._messages)
        if now - self._ticked >= (QUICK_SECONDS if waits else TICK_SECONDS) or self._receiver.may_commit:
            self._ticked = now
            self._carry_out(self._receiver.ticked(now))
            self._take_effect()
            if self._heard and waits and now - self._heard_at >= HEAR_SECONDS:
                self._heard, self._heard_at = False, now
                self.follower.ask(self._hear)

    def flow(self) -> tuple[list[int], list[int]]:
        """Partitions for the client to pause now, since enough of their records wait, and to resume."""
        now = time.monotonic()
        full = {one: not self._receiver.room(one, now) for one in self._receiver.lanes}
        told = [one for one in sorted(full) if self._paused.get(one) != full[one]]
        self._paused = full
        return [one for one in told if full[one]], [one for one in told if not full[one]]

    def steer(
        self,
        pause: Callable[[int], object],
        resume: Callable[[int], object],
        lost: type[Exception],
    ) -> list[int]:
        """Have the client pause and resume what `flow` says; `lost` is its error for what it has no more.

        Returns
        -------
        list
            The partitions resumed.
        """
        stop, go = self.flow()
        for change, partitions in (pause, stop), (resume, go):
            for partition in partitions:
                # What a rebalance has just taken is told by the next step.
                with suppress(lost):
                    change(partition)
        return go

    def patience(self, seconds: float) -> float:
        """How long a client may wait for records: less while some wait here."""
        return min(seconds, QUICK_SECONDS) if self._messages else seconds

    def due(self) -> dict[int, int]:
        """Those of `commits` that are to be committed now; empty a while after the last time."""
        now = time.monotonic()
        if not self.commits or now - self._committed_at < HEAR_SECONDS:
            return {}
        self._committed_at = now
        return dict(self.commits)

    def committed(self, offsets: dict[int, int]) -> None:
        """The client has committed these of `commits`."""
        for partition, offset in offsets.items():
            if self.commits.get(partition) == offset:
                del self.commits[partition]
            self._carry_out(self._receiver.passed(partition, offset))

    def close(self) -> None:
        """End the thread."""
        self.follower.stop()

    # -- orders

    def _carry_out(self, orders: Iterable[ReceiverOrder]) -> None:
        left = deque(orders)
        while left:
            order = left.popleft()
            if isinstance(order, Release):
                self._ready.append((order.partition, order.offset))
            elif isinstance(order, Drop):
                self._messages.pop((order.partition, order.offset), None)
            elif isinstance(order, Commit):
                self.commits[order.partition] = order.offset
            elif isinstance(order, AskMark):
                mark = self._marks.read(self._stream_name(order.stream))
                left += self._receiver.marked(order.stream, mark)
            elif isinstance(order, Skip):
                left += self._receiver.marked(order.stream, self._skip(order))
            elif isinstance(order, Search):
                self.follower.ask(partial(self._search, order))
            else:
                self.follower.ask(partial(self._probe, order))

    def _take_effect(self) -> None:
        """All that is released, in one transaction; what that releases in its turn as well."""
        if not self._ready:
            return
        # Whatever goes wrong inside is taken back there and not here: a consumer made anew does it again.
        self._failed = True
        with self._marks.transaction():
            while self._ready:
                place = self._ready.popleft()
                record, fill, message = self._messages.pop(place)
                self._effect(place, record, fill, message)
                self._carry_out(self._receiver.applied(*place))
        self._failed = False

    def _effect(self, place: tuple[int, int], record: Record, fill: bool, message: Any) -> None:
        sequence = record.stamp.sequence
        if sequence:
            name, number = self._stream_name(record.stream), sequence
        else:
            # Offsets begin at 0, marks at 1.
            name, number = self._lane_name(place[0], record.group), place[1] + 1
        mark = self._marks.read(name)
        if number <= mark:
            return
        assert not sequence or sequence == mark + 1, f"sequence {sequence} was released after {mark}"
        if not fill:
            self._handler(message)
        self._marks.write(name, number)

    def _skip(self, order: Skip) -> int:
        name = self._stream_name(order.stream)
        with self._marks.transaction():
            mark = self._marks.read(name)
            if mark == order.first - 1:
                mark = order.last
                self._marks.write(name, mark)
        return mark

    # -- questions, answered on the follower's thread

    def _hear(self, side: SideConnection) -> None:
        try:
            offsets = side.committed(self._group)
        finally:
            self._heard = True
        for partition, offset in offsets.items():
            self._answers.put(partial(self._receiver.passed, partition, offset))

    def _search(self, order: Search, side: SideConnection) -> None:
        found = side.search(self._group, order)
        self._answers.put(partial(self._receiver.searched, order.stream, order.first, found, order.last))

    def _probe(self, order: Probe, side: SideConnection) -> None:
        committed = side.committed(self._group).get(order.partition, 0)
        end = side.ends([order.partition])[order.partition]
        self._answers.put(partial(self._receiver.probed, order.partition, committed, end))

    # -- names

    def _stream_name(self, stream: Stream) -> bytes:
        return mark_name(self._topic_id, self._group, *stream)

    def _lane_name(self, partition: int, group: int) -> bytes:
        return mark_name(self._topic_id, self._group, partition, group)

    def _check_topic(self) -> None:
        """See whether it is still the same log: offsets went back, as where a client begins anew."""
        if not self._asked:
            self._asked = True
            self.follower.ask(self._look)

    def _look(self, side: SideConnection) -> None:
        found = side.topic()
        if found.topic_id != self._topic_id:
            self.follower.recreated = found.topic_id
        self._asked = False

    def _recreated(self) -> InputError:
        return InputError(
            f"topic {self._topic} was deleted and made anew while it was consumed (its id is "
            f"{self.follower.recreated}): start the consumer anew; it begins where the new topic begins"
        )

    def _beat(self) -> Heartbeat:
        table: PublishedTable | None = self.follower.table
        return Heartbeat(
            process=self._process,
            role="consumer",
            client=self._client,
            topic=self._topic,
            topic_id="",
            at=0.0,
            version=0 if table is None else table.table.version,
            partitions=self.partitions,
            wrapped=True,
            group=self._group,
            member=self.member,
            assigned=list(self._assigned),
        )
