"""Routing tables in a client: a follower reads the newest table, and a router sends records by it.

The follower also writes heartbeats. They tell the publisher of tables which process follows which version.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from typing import Final
from uuid import uuid4

from kafka.errors import KafkaError

from trimtab_common.errors import InputError
from trimtab_keys.clients.metadata_connection import MetadataConnection, TopicDescription
from trimtab_keys.clients.ordered_producer import OrderedProducer, ProducerAdapter
from trimtab_keys.clients.settings import RoutingConfig
from trimtab_keys.core.order import OrderedSender
from trimtab_keys.format import (
    HEARTBEAT_PARTITION,
    LONGEST_SECONDS,
    ClientHeartbeat,
    PublishedTable,
    heartbeat_bytes,
    read_table,
    read_table_file,
)
from trimtab_keys.format import heartbeat_record_key as beat_key
from trimtab_keys.format import table_record_key as table_key

LOG = logging.getLogger("trimtab.keys")
TURN_SECONDS = 0.2
"""Longest pause between two looks at the topic of tables."""
HEARTBEATS_PER_SECOND: Final = 50.0
"""Heartbeats that all processes together write, as long as none waits `LONGEST_SECONDS`: up to 1,000."""
POLLS_PER_SECOND: Final = 500.0
"""Questions what the topic is, by all processes together."""

Job = Callable[[MetadataConnection], None]


class RequestIntervals:
    """Intervals of heartbeats and requests of a process, which grow with the number of processes.

    No process reads heartbeats of others for this. The broker reports the offset of each heartbeat, so two
    heartbeats of one process show how many all processes wrote in between. All processes use the same
    interval, so rate times interval is their number.

    Parameters
    ----------
    least_seconds
        Interval of heartbeats while processes are few.

    Attributes
    ----------
    every_seconds
        Current interval of heartbeats.
    processes
        Estimated number of processes that write heartbeats; 1 at first.
    """

    def __init__(self, least_seconds: float) -> None:
        self.every_seconds, self.processes = least_seconds, 1.0
        self._least_seconds = least_seconds
        self._started: tuple[int, float] | None = None
        self._appended: tuple[int, float] | None = None

    def appended(self, offset: int, at: float) -> None:
        """Note the offset of a heartbeat and its time; from any thread."""
        self._appended = offset, at

    def next_interval(self) -> float:
        """The time until the next heartbeat, for the heartbeat that is written now.

        It changes only here, because a reader counts a process as gone after the time that its heartbeat
        names.
        """
        begun, last = self._started, self._appended
        if begun is None or last is None:
            self._started = last
        elif last[1] - begun[1] >= self.every_seconds:
            self._started = last
            rate = (last[0] - begun[0]) / (last[1] - begun[1])
            self.processes = max(1.0, rate * self.every_seconds)
            self.every_seconds = min(LONGEST_SECONDS, self.spread(self._least_seconds, HEARTBEATS_PER_SECOND))
        return self.every_seconds

    def spread(self, least_seconds: float, per_second: float) -> float:
        """The interval of requests of this process at which all processes together send this many per
        second.
        """
        return max(least_seconds, self.processes / per_second)


class TableFollower:
    """The thread that follows tables and writes heartbeats.

    Parameters
    ----------
    settings
        Where routing tables are.
    topic
        Topic of the records.
    turn
        Called after each read with the table (None before the first) and the topic as last read. It returns
        why the table cannot be followed, if so.
    heartbeat
        The heartbeat to write, without the topic and the reason for the plain hash.
    clock
        Seconds, from any beginning.

    Attributes
    ----------
    table
        The newest table; None before the first.
    description
        The topic at the start; None before it is known.
    recreated
        The new id of the topic if it was deleted and recreated since.
    trouble
        Why no table can be read or followed; None if there is no such reason.
    intervals
        Intervals of heartbeats and requests.
    """

    def __init__(
        self,
        settings: RoutingConfig,
        topic: str,
        turn: Callable[[PublishedTable | None, TopicDescription, MetadataConnection], str | None],
        heartbeat: Callable[[], ClientHeartbeat],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.table: PublishedTable | None = None
        self.description: TopicDescription | None = None
        self.recreated: str | None = None
        self.trouble: str | None = None
        self._settings, self._topic, self._turn, self._make_heartbeat = settings, topic, turn, heartbeat
        self._clock, self.intervals = clock, RequestIntervals(settings.heartbeat_interval_seconds)
        self._side = MetadataConnection(settings.connection, topic, settings.tables_topic)
        self._jobs: queue.Queue[Job | None] = queue.Queue()
        self._polled_at, self._stopping = threading.Event(), threading.Event()
        self._reported_at, self._observed = -inf, -inf
        self._reported: tuple[object, ...] = ()
        self._timeout_error: str | None = None
        self._thread = threading.Thread(target=self._run, name=f"trimtab-keys-{topic}", daemon=True)

    def start(self) -> None:
        """Start, and wait for the first read, at most for `start_seconds`."""
        self._thread.start()
        if not self._polled_at.wait(self._settings.start_seconds):
            self._log(f"nothing was heard of the cluster within {self._settings.start_seconds:g} s")

    def submit(self, job: Job) -> None:
        """Queue a request for the second connection, which this thread uses."""
        self._jobs.put(job)

    def stop(self) -> None:
        """End the thread, which deletes its heartbeat at the end."""
        self._stopping.set()
        self._jobs.put(None)
        if self._thread.is_alive():
            self._thread.join(10)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._poll_and_report()
            self._work()
        with suppress(KafkaError, OSError):
            if self._reported:
                self._side.write_record(
                    beat_key(self._topic, self._make_heartbeat().process), None, lambda _: None
                )
        self._side.close()

    def _poll_and_report(self) -> None:
        self._log(self._poll_error())
        self._polled_at.set()
        with suppress(KafkaError, OSError):
            self._send_heartbeat()

    def _poll_error(self) -> str | None:
        """Read the table and have it followed; the reason if that is not possible."""
        against = [self._tried(self._poll)]
        if self.description is not None:
            # Also by a table that was read before: what failed is filled in this turn too.
            against.append(self._tried(partial(self._turn, self.table, self.description, self._side)))
        return "; ".join(why for why in against if why) or None

    def _tried(self, step: Callable[[], str | None]) -> str | None:
        """The result of a step, or the error with which it failed."""
        try:
            return step()
        except (InputError, KafkaError, OSError) as error:
            return str(error) or type(error).__name__

    def _work(self) -> None:
        """Carry out queued requests, or wait briefly for one, without delaying tables and heartbeats."""
        with suppress(queue.Empty):
            self._do(self._jobs.get(timeout=TURN_SECONDS))
            until = time.monotonic() + TURN_SECONDS
            while time.monotonic() < until:
                self._do(self._jobs.get_nowait())

    def _do(self, job: Job | None) -> None:
        if job is not None:
            try:
                job(self._side)
            except (KafkaError, OSError, InputError) as error:
                # Whoever asked asks again: what waits goes on waiting.
                LOG.warning("keys of %s: %s", self._topic, error)

    def _poll(self) -> str | None:
        now = self._clock()
        due = now - self._observed >= self.intervals.spread(self._settings.read_seconds, POLLS_PER_SECOND)
        if due:
            self._refresh_topic(now)
        if self.description is None:
            return self._timeout_error
        data = self._read(due)
        if data is not None and (self.table is None or data.table.version > self.table.table.version):
            self.table = data
            if not due and data.table.partitions > self.description.partitions:
                self._refresh_topic(now)
        if 0 < self.description.tables <= HEARTBEAT_PARTITION:
            return (
                f"topic {self._settings.tables_topic} of routing tables has 1 partition, expected 2: "
                "heartbeats have none, so that trimtab apply does not see this process; apply adds it"
            )
        return self._timeout_error

    def _refresh_topic(self, now: float) -> None:
        if self.description is not None:
            self._observed = now  # also where brokers do not answer: all ask them at once then
        try:
            found = self._side.topic()
        except (InputError, KafkaError, OSError) as error:
            self._timeout_error = str(error) or type(error).__name__
            return
        self._observed, self._timeout_error = now, None
        if self.description is None or found.topic_id == self.description.topic_id:
            self.description = found
        else:
            self.recreated = found.topic_id

    def _read(self, deadline: bool) -> PublishedTable | None:
        settings, topic_id = self._settings, self.description.topic_id if self.description else None
        if settings.tables_topic is not None:
            if self.description is not None and not self.description.tables:
                raise InputError(
                    f"topic {settings.tables_topic} of routing tables: is not there; publish with trimtab "
                    "apply, or create it with 2 partitions, cleanup.policy=compact and segment.ms=60000"
                )
            data = self._side.read(table_key(self._topic))
            if data is None:
                return None
            return read_table(
                data, f"table of {self._topic} on {settings.tables_topic}", self._topic, topic_id
            )
        if settings.table_file is not None and (deadline or self.table is None):
            return read_table_file(settings.table_file, self._topic, topic_id)
        return None

    def _log(self, why: str | None) -> None:
        if self.trouble != why:
            version = self._make_heartbeat().version
            goes_by = f"table {version}" if version else "the plain hash"
            told = "the routing table can be read and followed" if why is None else why
            LOG.warning("keys of %s: going by %s: %s", self._topic, goes_by, told)
            self.trouble = why

    def _send_heartbeat(self) -> None:
        if self.description is None or self.description.tables <= HEARTBEAT_PARTITION:
            return
        beat, now = self._make_heartbeat(), self._clock()
        changed = (beat.version, tuple(beat.assigned), beat.partitions, beat.member)
        if now - self._reported_at < self.intervals.every_seconds and changed == self._reported:
            return
        beat.topic_id = self.description.topic_id
        beat.at, beat.every_seconds = time.time(), self.intervals.next_interval()
        beat.plain_because = None if beat.version else self.trouble
        self._side.write_record(
            beat_key(self._topic, beat.process),
            heartbeat_bytes(beat),
            lambda offset: self.intervals.appended(offset, self._clock()),
        )
        self._reported_at, self._reported = now, changed


CLOSE_SECONDS: Final = 5.0
"""Time that a closing client gets to make room for fills; after it, consumers find gaps."""


class TableRouter:
    """Sends the records of a topic by routing tables.

    Parameters
    ----------
    settings
        Where routing tables are.
    topic
        Topic of the records.
    client
        Name of the client library, for heartbeats.
    adapter
        The client's producer.

    Attributes
    ----------
    sending
        The `OrderedProducer` that places records.
    """

    def __init__(self, settings: RoutingConfig, topic: str, client: str, adapter: ProducerAdapter) -> None:
        self._topic, self._client, self._adapter, self._base = topic, client, adapter, settings.base
        self._process = uuid4().hex
        self._sending: OrderedProducer | None = None
        self._settled = threading.Event()
        self.follower = TableFollower(settings, topic, self._turn, self._send_heartbeat)
        self.follower.start()
        table, seen = self.follower.table, self.follower.description
        count = seen.partitions if seen is not None else adapter.partitions(1)
        base = table.table.base if table is not None else settings.base or count
        sender = OrderedSender(base, settings.ordering)
        self.sending = self._sending = OrderedProducer(sender, self._process, settings.retry_seconds)
        if table is not None:
            # What earlier runs sent goes first only if this one reads a table before it sends.
            self._settled.wait(settings.start_seconds)

    def check(self) -> None:
        """Reject records if the topic was replaced.

        Raises
        ------
        InputError
            If the topic was deleted and recreated: fences name offsets of the old topic.
        """
        if self.follower.recreated is not None:
            raise InputError(
                f"topic {self._topic} was deleted and made anew since this producer began (its id is "
                f"{self.follower.recreated}): make the producer anew, and plan its keys anew"
            )

    def close(self) -> None:
        """End the thread, and fill the places of failed records. The client must be flushed afterwards."""
        self.follower.stop()
        if self.sending.fill_gap(self._adapter):
            self._adapter.flush(CLOSE_SECONDS)
            self.sending.fill_gap(self._adapter)

    def _turn(
        self, table: PublishedTable | None, topic: TopicDescription, side: MetadataConnection
    ) -> str | None:
        sending = self._sending
        if sending is None:
            return None
        if self.follower.recreated is not None:
            sending.forget()  # so that all records come by `check`
            return None
        sending.fill_gap(self._adapter)
        if table is None:
            return self._grown(topic, sending.base)
        if table.table.base != sending.base:
            return (
                f"table {table.table.version} divides by {table.table.base} partitions, this producer by "
                f"{sending.base} since it began without a table; start it anew"
            )
        if table.table.partitions > topic.partitions:
            return (
                f"table {table.table.version} names {table.table.partitions} partitions, the topic has "
                f"{topic.partitions}; plan and apply anew"
            )
        sending.topic_id = topic.topic_id
        followed = sending.follow(table.table, self._adapter, side.ends)
        self._settled.set()
        return None if followed else f"changing to table {table.table.version} was given up for now"

    def _grown(self, topic: TopicDescription, base: int) -> str | None:
        """A warning while no table names the base and partitions were added: the next run divides by another
        number.

        Only a run that began before the partitions were added can notice this.
        """
        if self._base is not None or topic.partitions <= base:
            return None
        return (
            f"topic {self._topic} has {topic.partitions} partitions now, and this producer's hash divides by "
            f"the {base} that it began with; one that starts anew would divide by {topic.partitions}, and "
            f"nearly all keys would move without order: give base={base} in RoutingConfig, or publish a table"
        )

    def _send_heartbeat(self) -> ClientHeartbeat:
        sending = self._sending
        return ClientHeartbeat(
            process=self._process,
            role="producer",
            client=self._client,
            topic=self._topic,
            topic_id="",
            at=0.0,
            version=0 if sending is None else sending.version,
            partitions=0 if sending is None else self._adapter.partitions(0),
            wrapped=True,
        )
