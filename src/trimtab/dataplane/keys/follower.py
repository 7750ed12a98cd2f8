"""A thread beside the application: reads tables, tells heartbeats, and asks what the order guard asks."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf

from kafka.errors import KafkaError

from trimtab.dataplane.keys.settings import Following
from trimtab.dataplane.keys.side import SideConnection, Topic
from trimtab.files.keys.heartbeat import Heartbeat, heartbeat_bytes
from trimtab.files.keys.heartbeat import record_key as beat_key
from trimtab.files.keys.table import PublishedTable, read_table, read_table_file
from trimtab.files.keys.table import record_key as table_key
from trimtab.model.errors import InputError

LOG = logging.getLogger("trimtab.keys")
TURN_SECONDS = 0.2
"""Longest pause between two looks at the topic of tables."""

Job = Callable[[SideConnection], None]


class Follower:
    """The thread.

    Parameters
    ----------
    settings
        Where tables are.
    topic
        Of the records.
    turn
        Called after each look with the table (None before there is one) and the topic as it was last seen; it
        says what stands against following the table.
    beat
        What to tell, but for the topic and why the plain hash is followed.

    Attributes
    ----------
    table
        The newest that was read; None before there is one.
    seen
        The topic as it was when this began; None before anybody said so.
    recreated
        Its new id, if it was deleted and made anew since.
    trouble
        Why no table can be read or followed; None where it can, or where none is asked for.
    """

    def __init__(
        self,
        settings: Following,
        topic: str,
        turn: Callable[[PublishedTable | None, Topic, SideConnection], str | None],
        beat: Callable[[], Heartbeat],
    ) -> None:
        self.table: PublishedTable | None = None
        self.seen: Topic | None = None
        self.recreated: str | None = None
        self.trouble: str | None = None
        self._settings, self._topic, self._turn, self._beat = settings, topic, turn, beat
        self._side = SideConnection(settings.connection, topic)
        self._jobs: queue.Queue[Job | None] = queue.Queue()
        self._looked, self._stopping = threading.Event(), threading.Event()
        self._told_at, self._looked_at = 0.0, -inf
        self._told: tuple[object, ...] = ()
        self._thread = threading.Thread(target=self._run, name=f"trimtab-keys-{topic}", daemon=True)

    def start(self) -> None:
        """Begin, and wait for the first look, for `start_seconds` at most."""
        self._thread.start()
        if not self._looked.wait(self._settings.start_seconds):
            self._say(f"nothing was heard of the cluster within {self._settings.start_seconds:g} s")

    def ask(self, job: Job) -> None:
        """Have something asked on the side connection, by this thread."""
        self._jobs.put(job)

    def stop(self) -> None:
        """End the thread; its last word deletes its heartbeat."""
        self._stopping.set()
        self._jobs.put(None)
        if self._thread.is_alive():
            self._thread.join(10)

    def _run(self) -> None:
        while not self._stopping.is_set():
            why = self._looked_or_why()
            self._say(why)
            self._looked.set()
            with suppress(KafkaError, OSError):
                self._tell()
            self._work()
        with suppress(KafkaError, OSError):
            if self._settings.tables_topic is not None and self._told_at:
                self._side.tell(
                    self._settings.tables_topic, beat_key(self._topic, self._beat().process), None
                )
        self._side.close()

    def _looked_or_why(self) -> str | None:
        """Look, and let the table be followed; what stands against it."""
        against = [self._tried(self._look)]
        if self.seen is not None:
            # Also by a table that was read before: what failed is filled in this turn too.
            against.append(self._tried(partial(self._turn, self.table, self.seen, self._side)))
        return "; ".join(why for why in against if why) or None

    def _tried(self, step: Callable[[], str | None]) -> str | None:
        """What a step says, or what it failed with."""
        try:
            return step()
        except (InputError, KafkaError, OSError) as error:
            return str(error) or type(error).__name__

    def _work(self) -> None:
        """Do what is asked, or wait a little for it; tables and heartbeats wait for no long queue of it."""
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

    def _look(self) -> None:
        now = time.monotonic()
        due = now - self._looked_at >= self._settings.read_seconds
        if due:
            found = self._side.topic()
            self._looked_at = now
            if self.seen is None or found.topic_id == self.seen.topic_id:
                self.seen = found
            else:
                self.recreated = found.topic_id
        data = self._read(due)
        if data is not None and (self.table is None or data.table.version > self.table.table.version):
            self.table = data

    def _read(self, due: bool) -> PublishedTable | None:
        settings, topic_id = self._settings, self.seen.topic_id if self.seen else None
        if settings.tables_topic is not None:
            key = table_key(self._topic)
            data = self._side.read(settings.tables_topic, [key]).get(key)
            if data is None:
                return None
            return read_table(
                data, f"table of {self._topic} on {settings.tables_topic}", self._topic, topic_id
            )
        if settings.table_file is not None and (due or self.table is None):
            return read_table_file(settings.table_file, self._topic, topic_id)
        return None

    def _say(self, why: str | None) -> None:
        if self.trouble != why:
            version = self._beat().version
            goes_by = f"table {version}" if version else "the plain hash"
            told = "the routing table can be read and followed" if why is None else why
            LOG.warning("keys of %s: going by %s: %s", self._topic, goes_by, told)
            self.trouble = why

    def _tell(self) -> None:
        if self._settings.tables_topic is None or self.seen is None:
            return
        beat, now = self._beat(), time.monotonic()
        changed = (beat.version, tuple(beat.assigned), beat.partitions)
        if now - self._told_at < self._settings.beat_seconds and changed == self._told:
            return
        beat.topic_id = self.seen.topic_id
        beat.at, beat.every_seconds = time.time(), self._settings.beat_seconds
        beat.plain_because = None if beat.version else self.trouble
        self._side.tell(
            self._settings.tables_topic, beat_key(self._topic, beat.process), heartbeat_bytes(beat)
        )
        self._told_at, self._told = now, changed
