"""The order guard of a consumer, and the consumer classes that all client libraries share."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, Final, Protocol
from uuid import uuid4

from trimtab_common.errors import InputError
from trimtab_keys.clients.checkpoints import CheckpointStore, mark_name
from trimtab_keys.clients.metadata_connection import MetadataConnection
from trimtab_keys.clients.settings import RoutingConfig, check_consumer_config
from trimtab_keys.clients.table_router import TableFollower
from trimtab_keys.core.order import (
    PLAIN,
    CommitOffset,
    DropRecord,
    OrderedReceiver,
    OrderedRecord,
    ProbePartition,
    ReadCheckpoint,
    ReceiverOrder,
    ReleaseRecord,
    SearchStream,
    SkipSequence,
    Stamp,
    Stream,
)
from trimtab_keys.core.routing import GROUPS, Hashes
from trimtab_keys.format import HEADER, UNSTAMPED, ClientHeartbeat, PublishedTable, read_stamp, stamp_in

LOG = logging.getLogger("trimtab.keys")
LOG_SECONDS: Final = 60.0
"""Minimum interval of log lines about one kind of event."""
TICK_SECONDS: Final = 0.2
"""Interval of checks while no record waits."""
QUICK_SECONDS: Final = 0.005
"""Interval of checks while records wait: another consumer may have released them."""
POLL_SECONDS: Final = 0.05
"""Interval of commits, and of reading others' commits while a fence waits for them."""
HEARS_PER_SECOND: Final = 2000.0
"""Maximum rate of such reads by all processes together."""
WITHOUT: Final = UNSTAMPED[1:]
KEYLESS: Final = -1
"""The group of records without a key, which wait for nothing."""
BELOW: Final = -2
"""Instead of a group: the offset of a partition below which all records have taken effect."""
AHEAD: Final = -3
"""Instead of a group: the offset of a partition from which on no group has its own mark."""

Handler = Callable[[Any], object]


@dataclass(slots=True)
class ConsumerCounters:
    """Counters of records that a consumer has dropped, held or passed; each event is logged too.

    Attributes
    ----------
    handled
        Records passed to the handler.
    duplicates
        Records that had taken effect before: received again after a rebalance, or copies of a record of a
        split key with its stamp.
    foreign_stamps
        Records with a stamp of another topic; they were handled as records without a stamp.
    unreadable_stamps
        Records with a header that trimtab did not write; they were handled as records without a stamp.
    gap_searches
        Searches for missing records of a stream, after `gap_seconds`.
    skipped
        Sequences that were not found; the consumer no longer waits for them.
    fence_probes
        Reads of the end of a partition for which records had waited `fence_seconds`.
    pauses
        Pauses of partitions with `held_records` waiting records.
    """

    handled: int = 0
    duplicates: int = 0
    foreign_stamps: int = 0
    unreadable_stamps: int = 0
    gap_searches: int = 0
    skipped: int = 0
    fence_probes: int = 0
    pauses: int = 0


class OrderedConsumer:
    """An `OrderedReceiver` whose orders are carried out: handlers run, marks are stored, offsets are to be
    committed.

    One thread uses it. Only answers of the follower come from another thread.

    Parameters
    ----------
    settings
        Where routing tables are.
    topic, group
        Topic of the records, and consumer group.
    client
        Name of the client library, for heartbeats.
    handler
        Called with each record in the order of its key, inside a transaction of `marks`.
    marks
        Where effects are stored.

    Attributes
    ----------
    commits
        Offsets to commit, by partition.
    counts
        Counters of dropped, held and passed records.
    member
        Id of the consumer in its group, as the client reports it.
    partitions
        Number of partitions of the topic, as the client knows it.

    Raises
    ------
    InputError
        If the cluster does not report the id of the topic.
    """

    def __init__(
        self,
        settings: RoutingConfig,
        topic: str,
        group: str,
        client: str,
        handler: Handler,
        marks: CheckpointStore,
    ) -> None:
        self.commits: dict[int, int] = {}
        self.counts = ConsumerCounters()
        self._logged_at: dict[str, float] = {}
        self.member: str | None = None
        self.partitions = 0
        self._topic, self._group, self._client = topic, group, client
        self._handler, self._marks = handler, marks
        self._process = uuid4().hex
        self._receiver = OrderedReceiver(settings.ordering)
        self._messages: dict[tuple[int, int], tuple[OrderedRecord, bool, object]] = {}
        self._ready: deque[tuple[int, int]] = deque()
        self._answers: SimpleQueue[Callable[[], list[ReceiverOrder]]] = SimpleQueue()
        self._hashes, self._ticked, self._polled_at, self._requested = Hashes(), 0.0, True, False
        self._response_at = self._committed_at = 0.0
        self._failed = False
        # Of one transaction: the marks of partitions as it found them, and what it has done by key group.
        self._known: dict[int, tuple[int, int]] = {}
        self._done: dict[int, dict[int, int]] = {}
        self._unread: InputError | None = None
        self._assigned: tuple[int, ...] = ()
        self._paused: dict[int, bool] = {}
        self.follower = TableFollower(settings, topic, lambda *_: None, self._send_heartbeat)
        self.follower.start()
        if self.follower.description is None:
            self.follower.stop()
            raise InputError(
                f"topic {topic}: marks name it by its id, and the cluster did not tell it ("
                f"{self.follower.trouble}); check the connection of RoutingConfig"
            )
        self._topic_id = self.follower.description.topic_id

    @property
    def held(self) -> int:
        """Number of records that must still wait."""
        return self._receiver.held

    @property
    def assigned_partitions(self) -> Iterable[int]:
        """Partitions assigned to this consumer."""
        return self._receiver.lanes

    def assigned(self, partition: int, position: int) -> None:
        """Start a partition at an offset: its commit, or the beginning of its log."""
        self.revoked([partition])
        self._carry_out(self._receiver.assigned(partition, position))
        self._assigned = tuple(sorted(self._receiver.lanes))

    def revoked(self, partitions: Iterable[int]) -> None:
        """Forget the records of partitions that this consumer has lost."""
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
        self,
        partition: int,
        offset: int,
        key: bytes | None,
        headers: Sequence[tuple[str, object]],
        message: object,
    ) -> None:
        """Accept a record. The records that it releases take effect in `turn`.

        Raises
        ------
        InputError
            If a newer trimtab wrote its stamp. Neither this record nor a later one takes effect or is
            committed.
        """
        lane = self._receiver.lanes.get(partition)
        if lane is None or self._unread is not None:
            return
        if offset < lane.position:
            self._check_topic()
            return
        data = stamp_in(headers) if headers else None
        producer, stamp, fill = WITHOUT if data is None else self._stamp(partition, offset, data)
        group = KEYLESS if key is None else self._hashes[key] % GROUPS
        record = OrderedRecord(producer, key or b"", group, stamp)
        self._messages[partition, offset] = record, fill, message
        self._carry_out(self._receiver.arrived(partition, offset, record, time.monotonic()))

    def positioned(self, partition: int, position: int) -> None:
        """Note that the client has returned all records before this position, which may lie behind
        transaction markers.
        """
        self._receiver.positioned(partition, position)

    def turn(self) -> None:
        """Let released records take effect, and check waiting records; afterwards `commits` is up to date.

        Raises
        ------
        InputError
            If the topic was deleted and recreated, a handler failed, or a stamp could not be read.
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
        self._apply_released()
        now = time.monotonic()
        waits = bool(self._messages)
        if now - self._ticked >= (QUICK_SECONDS if waits else TICK_SECONDS) or self._receiver.may_commit:
            self._ticked = now
            self._carry_out(self._receiver.ticked(now))
            self._apply_released()
            # Who waits for a sequence alone waits for a mark: commits tell it nothing.
            if self._polled_at and self._receiver.waits_at_fence:
                self._request_commits(now)

    def _request_commits(self, now: float) -> None:
        if now - self._response_at >= self.follower.intervals.spread(POLL_SECONDS, HEARS_PER_SECOND):
            self._polled_at, self._response_at = False, now
            self.follower.submit(self._receive)

    def flow(self) -> tuple[list[int], list[int]]:
        """Partitions to pause now, because enough of their records wait, and partitions to resume."""
        now = time.monotonic()
        full = {one: not self._receiver.has_capacity(one, now) for one in self._receiver.lanes}
        told = [one for one in sorted(full) if self._paused.get(one) != full[one]]
        self._paused = full
        for one in told:
            if full[one]:
                self._note("pauses", f"partition {one} is fetched no further: {self.held:,} records wait")
        return [one for one in told if full[one]], [one for one in told if not full[one]]

    def steer(
        self,
        pause: Callable[[int], object],
        resume: Callable[[int], object],
        lost: type[Exception],
    ) -> list[int]:
        """Pause and resume partitions of the client as `flow` says; `lost` is its error for a revoked
        partition.

        Returns
        -------
        list
            The resumed partitions.
        """
        stop, go = self.flow()
        for change, partitions in (pause, stop), (resume, go):
            for partition in partitions:
                # What a rebalance has just taken is told by the next step.
                with suppress(lost):
                    change(partition)
        return go

    def poll_timeout(self, seconds: float) -> float:
        """Time that a client may wait for records; shorter while records wait here."""
        return min(seconds, QUICK_SECONDS) if self._messages else seconds

    def pending_commits(self) -> dict[int, int]:
        """The part of `commits` to commit now; empty for a while after the last commit."""
        now = time.monotonic()
        if not self.commits or now - self._committed_at < POLL_SECONDS:
            return {}
        self._committed_at = now
        return dict(self.commits)

    def committed(self, offsets: dict[int, int]) -> None:
        """Report offsets that the client has committed."""
        for partition, offset in offsets.items():
            if self.commits.get(partition) == offset:
                del self.commits[partition]
            self._carry_out(self._receiver.passed(partition, offset))

    def close(self) -> None:
        """Stop the thread that follows routing tables."""
        self.follower.stop()

    # -- orders

    def _carry_out(self, orders: Iterable[ReceiverOrder]) -> None:
        left = deque(orders)
        while left:
            order = left.popleft()
            if isinstance(order, ReleaseRecord):
                self._ready.append((order.partition, order.offset))
            elif isinstance(order, DropRecord):
                self._drop((order.partition, order.offset))
            elif isinstance(order, CommitOffset):
                self.commits[order.partition] = order.offset
            elif isinstance(order, ReadCheckpoint):
                mark = self._marks.read(self._stream_name(order.stream))
                left += self._receiver.marked(order.stream, mark)
            elif isinstance(order, SkipSequence):
                left += self._receiver.marked(order.stream, self._skip(order))
            elif isinstance(order, SearchStream):
                told = f"{_sequences(order)} are searched for: a record has waited for them for gap_seconds"
                self._note("gap_searches", told)
                self.follower.submit(partial(self._search, order))
            else:
                told = f"records have waited at a fence in partition {order.partition} for fence_seconds"
                self._note("fence_probes", told)
                self.follower.submit(partial(self._probe, order))

    def _apply_released(self) -> None:
        """Apply all released records in one transaction, with the records that they release in turn."""
        if not self._ready:
            return
        # Whatever goes wrong inside is taken back there and not here: a consumer made anew does it again.
        self._failed = True
        self._known.clear()
        self._done.clear()
        with self._marks.transaction():
            while self._ready:
                place = self._ready.popleft()
                record, fill, message = self._messages.pop(place)
                try:
                    self._effect(place, record, fill, message)
                except Exception as error:
                    # The next member of the group gets it, and fails as well: all of them may end by it.
                    told = "partition %d, offset %d: could not take effect (%r), and this consumer ends"
                    LOG.error("keys of %s, group %s: " + told, self._topic, self._group, *place, error)
                    raise
                self._carry_out(self._receiver.applied(*place))
            for partition, done in self._done.items():
                self._keep(partition, done)
        self._failed = False

    def _effect(self, place: tuple[int, int], record: OrderedRecord, fill: bool, message: object) -> None:
        sequence = record.stamp.sequence
        if sequence:
            name = self._stream_name(record.stream)
            mark = self._marks.read(name)
            if sequence <= mark:
                if not fill:
                    self._note_duplicate(place, sequence)
                return
            assert sequence == mark + 1, f"sequence {sequence} was released after {mark}"
            self._marks.write(name, sequence)
        else:
            if self._is_done(*place, record.group):
                self.counts.duplicates += not fill
                return
            self._done.setdefault(place[0], {})[record.group] = place[1] + 1
        if not fill:
            self._handler(message)
            self.counts.handled += 1

    def _is_done(self, partition: int, offset: int, group: int) -> bool:
        """Whether a record without a sequence has taken effect, by the marks of its partition and group."""
        known = self._known.get(partition)
        if known is None:
            names = self._partition_name(partition, BELOW), self._partition_name(partition, AHEAD)
            known = self._known[partition] = self._marks.read(names[0]), self._marks.read(names[1])
        below, ahead = known
        if offset < below:
            return True
        return offset < ahead and offset < self._marks.read(self._partition_name(partition, group))

    def _keep(self, partition: int, done: Mapping[int, int]) -> None:
        """Store the effects on a partition in this transaction: one mark, or more if records wait.

        Parameters
        ----------
        done
            By key group: the offset behind its last record without a sequence.
        """
        below, ahead = self._known[partition]
        low = self._receiver.done_below(partition)
        if low > below:
            self._marks.write(self._partition_name(partition, BELOW), low)
        over = {group: number for group, number in done.items() if number > low}
        for group, number in over.items():
            self._marks.write(self._partition_name(partition, group), number)
        most = max(over.values(), default=0)
        if most > ahead:
            self._marks.write(self._partition_name(partition, AHEAD), most)

    def _skip(self, order: SkipSequence) -> int:
        name = self._stream_name(order.stream)
        with self._marks.transaction():
            mark = self._marks.read(name)
            if mark == order.first - 1:
                mark = order.last
                self._marks.write(name, mark)
                told = f"{_sequences(order)} are nowhere, and are waited for no longer"
                self._note("skipped", told, order.last - order.first + 1)
        return mark

    # -- what is dropped or held

    def _stamp(self, partition: int, offset: int, data: object) -> tuple[str, Stamp, bool]:
        """Producer, stamp and whether the record fills a gap. A stamp of another topic counts as none."""
        place = f"partition {partition}, offset {offset}"
        try:
            written = read_stamp(data, f"{self._topic}, {place}")
        except InputError as error:
            # Its place in its key's order is unknown, and the client would go on behind it.
            self._unread = error
            raise
        if written is None:
            told = f"{place}: no trimtab wrote its header {HEADER}; it is handled as one without a stamp"
            self._note("unreadable_stamps", told)
            return WITHOUT
        if written.topic_id != self._topic_id:
            told = f"{place}: its stamp is of another topic; it is handled as one without a stamp"
            self._note("foreign_stamps", told)
            # A record in the place of one that failed has no content in any topic.
            return "", PLAIN, written.is_gap_filler
        return written[1:]

    def _drop(self, place: tuple[int, int]) -> None:
        record, fill, _ = self._messages.pop(place)
        if not fill:
            self._note_duplicate(place, record.stamp.sequence)

    def _note_duplicate(self, place: tuple[int, int], sequence: int) -> None:
        told = (
            f"partition {place[0]}, offset {place[1]}: no effect, since sequence {sequence} of its stream "
            f"was there already: it was received again, or is a copy that carries the header {HEADER}"
        )
        self._note("duplicates", told)

    def _note(self, kind: str, text: str, number: int = 1) -> None:
        """Count an event, and log it unless an event of its kind was logged recently."""
        count = getattr(self.counts, kind) + number
        setattr(self.counts, kind, count)
        now = time.monotonic()
        if now - self._logged_at.get(kind, -inf) >= LOG_SECONDS:
            self._logged_at[kind] = now
            LOG.warning("keys of %s, group %s: %s (%s: %d)", self._topic, self._group, text, kind, count)

    # -- questions, answered on the follower's thread

    def _receive(self, side: MetadataConnection) -> None:
        try:
            offsets = side.committed(self._group)
        finally:
            self._polled_at = True
        for partition, offset in offsets.items():
            self._answers.put(partial(self._receiver.passed, partition, offset))

    def _search(self, order: SearchStream, side: MetadataConnection) -> None:
        found = side.search(self._group, order)
        self._answers.put(partial(self._receiver.searched, order.stream, order.first, found, order.last))

    def _probe(self, order: ProbePartition, side: MetadataConnection) -> None:
        committed = side.committed(self._group).get(order.partition, 0)
        end = side.ends([order.partition])[order.partition]
        self._answers.put(partial(self._receiver.probed, order.partition, committed, end))

    # -- names

    def _stream_name(self, stream: Stream) -> bytes:
        return mark_name(self._topic_id, self._group, *stream)

    def _partition_name(self, partition: int, group: int) -> bytes:
        return mark_name(self._topic_id, self._group, partition, group)

    def _check_topic(self) -> None:
        """Check that the log is the same: offsets went back, as they do if the client starts again."""
        if not self._requested:
            self._requested = True
            self.follower.submit(self._poll_metadata)

    def _poll_metadata(self, side: MetadataConnection) -> None:
        found = side.topic()
        if found.topic_id != self._topic_id:
            self.follower.recreated = found.topic_id
        self._requested = False

    def _recreated(self) -> InputError:
        return InputError(
            f"topic {self._topic} was deleted and made anew while it was consumed (its id is "
            f"{self.follower.recreated}): start the consumer anew; it begins where the new topic begins"
        )

    def _send_heartbeat(self) -> ClientHeartbeat:
        table: PublishedTable | None = self.follower.table
        return ClientHeartbeat(
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


def _sequences(order: SearchStream | SkipSequence) -> str:
    """The sequences of an order in words."""
    return f"sequences {order.first} to {order.last} of run {order.stream[0]}"


def start_offset(committed: int | None, beginning: int, end: int) -> int:
    """The offset at which a new partition starts: its commit, or the beginning of its log."""
    return max(committed or 0, beginning) if (committed or 0) <= end else beginning


class GroupMember:
    """A member of a consumer group that lets records take effect in each key's order.

    The class `Consumer` of each client module is a subclass.

    Parameters
    ----------
    topic, group_id
        The topic, and the consumer group.
    handler
        Called with each record, in order, as the client library returns it.
    marks
        Where effects are stored.
    following
        Where routing tables are.
    config, options
        Configuration of the client, as a mapping or as keyword arguments.

    Raises
    ------
    SettingsError
        If the client would commit offsets itself, or skip records written before it joined.
    """

    client_name: ClassVar[str]
    separator: ClassVar[str] = "_"
    """The character between the words of a configuration name."""
    receiving: OrderedConsumer

    def __init__(
        self,
        topic: str,
        group_id: str,
        handler: Handler,
        marks: CheckpointStore,
        following: RoutingConfig,
        config: Mapping[str, object] | None = None,
        **options: object,
    ) -> None:
        config = {**(config or {}), **options}
        auto_commit, reset, group = (
            name.replace("_", self.separator)
            for name in ("enable_auto_commit", "auto_offset_reset", "group_id")
        )
        check_consumer_config(config.get(auto_commit, False), config.get(reset, "earliest"))
        self._config = {**config, auto_commit: False, reset: "earliest", group: group_id}
        self._topic, self._group, self._handler = topic, group_id, handler
        self._marks, self._following, self._stopped = marks, following, False
        self._connect()

    def stop(self) -> None:
        """End `run` after its current step. Any thread may call this."""
        self._stopped = True

    def _connect(self) -> None:
        """Start the client; one that needs an event loop does so in `start`."""

    def _ordered(self, handler: Handler) -> OrderedConsumer:
        return OrderedConsumer(
            self._following, self._topic, self._group, self.client_name, handler, self._marks
        )


class _Partition(Protocol):
    @property
    def partition(self) -> int: ...


class _Record(Protocol):
    offset: int
    key: bytes | None
    headers: Sequence[tuple[str, bytes]]


class PollingMember(GroupMember):
    """A member whose client returns batches of records and reports rebalances to a listener.

    The listener only notes them, since it may run on another thread; the next step acts on them.
    """

    def _connect(self) -> None:
        self._revoked: deque[set[int]] = deque()
        self._new: set[int] = set()

    def note_revoked(self, names: Iterable[_Partition]) -> None:
        """Note partitions that a rebalance revokes."""
        partitions = {name.partition for name in names}
        self._revoked.append(partitions)
        self._new.difference_update(partitions)

    def note_assigned(self, names: Iterable[_Partition]) -> None:
        """Note partitions that a rebalance assigns."""
        self._new.update(name.partition for name in names)

    def _forget_revoked(self) -> None:
        while self._revoked:
            self.receiving.revoked(self._revoked.popleft())

    def _receive(self, batches: Mapping[_Partition, Sequence[_Record]]) -> None:
        """Accept records of partitions that have started."""
        self._forget_revoked()
        for name, records in batches.items():
            if name.partition not in self._new:
                for record in records:
                    self.receiving.received(name.partition, record.offset, record.key, record.headers, record)

    def _lacks_partitions(self, known: int) -> bool:
        """Whether the topic has more partitions than the client knows; heartbeats report the known ones."""
        self.receiving.partitions = known
        description = self.receiving.follower.description
        return description is not None and known < description.partitions
