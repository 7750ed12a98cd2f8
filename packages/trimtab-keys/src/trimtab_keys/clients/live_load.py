"""A thread beside a producer that reads a topic's load, and adds partitions if a policy requests one."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any, Final, Self

from kafka.errors import KafkaError

from trimtab_common.errors import ConnectError, InputError, SettingsError
from trimtab_keys.clients.metadata_connection import MetadataConnection
from trimtab_keys.clients.settings import LoadConfig
from trimtab_keys.core.load import LoadEstimate, TopicLoad

LOG = logging.getLogger("trimtab.keys")
TOPIC_SECONDS: Final = 2.0
"""Between two looks at how many partitions the topic has, and at which members of the group have them."""

RETRY_SECONDS: Final = 0.2
"""Between two tries of the first reading."""


class LiveLoad:
    """The load of a topic by a `LoadConfig`, read by a thread until it is closed.

    An added partition is offered to policies once a member of the consumer group has it. Earlier records
    might wait for minutes, or be skipped by consumers that start at the end. While offsets cannot be read,
    the last reading stays in force.

    Parameters
    ----------
    settings
        What to read.

    Attributes
    ----------
    settings
        The given settings.
    load
        The last reading.
    partitions
        Number of partitions of the topic.

    Raises
    ------
    SettingsError
        If `base` or `max_partitions` does not fit the topic.
    InputError
        If there is no such topic.
    ConnectError
        If the first reading fails, or takes longer than `start_seconds`.
    """

    load: TopicLoad
    _trouble: Exception | None = None

    def __init__(
        self,
        settings: LoadConfig,
        side: Callable[[Any, str], Any] = MetadataConnection,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings, self.partitions = settings, 0
        self._side, self._clock = side(settings.connection, settings.topic), clock
        self._estimate = self._estimated()
        self._assigned: set[int] | None = None
        self._topic_id, self._base, self._offered = "", 0, 0
        self._topic_at = self._grown_at = -inf
        self._requested = self._full = False
        self._logged: str | None = None
        self._polled_at, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"trimtab-load-{settings.topic}", daemon=True)
        self._thread.start()
        answered = self._polled_at.wait(settings.start_seconds)
        if self._trouble is not None:
            self.close()
            if isinstance(self._trouble, InputError):
                raise self._trouble
            raise ConnectError(
                f"load of topic {settings.topic}: offsets of group {settings.group} cannot be read "
                f"({_reason(self._trouble)}): check that the brokers are up, and the rights of this client"
            ) from self._trouble
        if not answered:
            self._stopping.set()
            raise ConnectError(
                f"load of topic {settings.topic}: brokers did not answer within {settings.start_seconds:g} "
                "s; check bootstrap_servers, or raise start_seconds"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def request_partition(self, known: int) -> None:
        """Request a further partition, because a policy found none below its threshold.

        Parameters
        ----------
        known
            Number of partitions that the client knows. A client that does not know all of them is ignored.
        """
        self._requested = self._requested or known >= self.partitions

    def close(self) -> None:
        """End the thread and its connection."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.refresh()
            except (InputError, KafkaError, OSError) as error:
                if not self._polled_at.is_set():
                    self._trouble = error
                    # The first group of a new cluster has no coordinator for a moment.
                    if getattr(error, "retriable", False):
                        self._stopping.wait(RETRY_SECONDS)
                        continue
                    self._polled_at.set()
                    break
                # Set anew, so that what producers count themselves does not pile up meanwhile.
                self.load = replace(self.load)
                self._log(f"the last reading holds: {_reason(error)}")
            else:
                self._trouble = None
                self._log(None)
                self._polled_at.set()
            self._stopping.wait(self.settings.interval_seconds)
        self._side.close()

    def refresh(self) -> None:
        """Read the load once, and add a partition if one is requested."""
        now, settings = self._clock(), self.settings
        if now - self._topic_at >= TOPIC_SECONDS:
            self._refresh_topic(now)
        found = self._side.ends(range(self.partitions))
        ends = [found.get(one, 0) for one in range(self.partitions)]
        committed = self._side.committed(settings.group)
        self._estimate.read(now, ends, committed)
        while self._offered < self.partitions and (
            self._assigned is None or self._offered in self._assigned or self._offered in committed
        ):
            self._offered += 1
        in_use = max((one + 1 for one, end in enumerate(ends) if end), default=0)
        self.load = TopicLoad(
            self._topic_id, self._base, max(self._base, min(in_use, self._offered)),
            self._estimate.backlog[: self._offered], self._estimate.rate[: self._offered],
            self._estimate.capacity[: self._offered],
        )  # fmt: skip
        if self._requested:
            self._requested = False
            self._add(now)

    def _refresh_topic(self, now: float) -> None:
        settings, found = self.settings, self._side.topic()
        if found.topic_id != self._topic_id:
            # Its first reading, or another topic of the same name: nothing of the old one holds.
            base = settings.base or found.partitions
            if base > found.partitions:
                raise SettingsError(
                    f"LoadSettings.base is {base}, and topic {settings.topic} has {found.partitions} "
                    "partitions: give at most as many"
                )
            if 0 < settings.max_partitions < found.partitions:
                raise SettingsError(
                    f"LoadSettings.max_partitions is {settings.max_partitions}, and topic {settings.topic} "
                    f"has {found.partitions} partitions already: raise it, or set 0 to add none"
                )
            self._topic_id, self._base, self._offered = found.topic_id, base, base
            self._grown_at = -inf
            self._estimate = self._estimated()
        elif found.partitions > self.partitions:
            self._grown_at = now
        self.partitions = found.partitions
        self._assigned = self._side.assigned(settings.group) if self._offered < self.partitions else None
        self._topic_at = now

    def _add(self, now: float) -> None:
        settings, count = self.settings, self.partitions
        if count >= settings.max_partitions:
            if not self._full and settings.max_partitions:
                LOG.warning(
                    "load of %s: no partition is added above max_partitions, %d", settings.topic, count
                )
            self._full = True
            return
        if self._offered < count or now - self._grown_at < settings.add_seconds:
            return
        # Another producer may have added one since the last look: then that one is looked at first.
        self._refresh_topic(now)
        if self.partitions == count:
            self._grown_at = now
            self._side.add_partition(count + 1)
            LOG.warning(
                "load of %s: no partition tried was below the threshold, partition %d was added",
                settings.topic, count,
            )  # fmt: skip
            self._topic_at = -inf

    def _estimated(self) -> LoadEstimate:
        settings = self.settings
        return LoadEstimate(settings.capacity_per_second, settings.rate_seconds, settings.commit_seconds)

    def _log(self, what: str | None) -> None:
        if what != self._logged:
            LOG.warning("load of %s: %s", self.settings.topic, what or "is read again")
            self._logged = what


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
