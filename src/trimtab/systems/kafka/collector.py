"""The collector of Kafka. One tick: ask all brokers at once, and make rows of whatever they answer.

`CounterCheck` decides whether what an endpoint calls a counter counts: a rate under a counter's name, or
another broker's counter, looks right in one scrape. Two scrapes, compared with the growth of the broker's
logs, tell.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from trimtab.observe.collect.clients import ClientFiles
from trimtab.observe.collect.sampler import RequestError, SystemSampler, TickSample
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings, unknown_ids
from trimtab.observe.collect.sinks import RowBatch, RowBatchBuilder, whole_number
from trimtab.observe.replicas.pipeline import COLUMNS
from trimtab.systems.kafka.client import open_admin
from trimtab.systems.kafka.metrics import (
    BROKER_COLUMNS,
    BrokerCounters,
    ClusterNames,
    CounterScrape,
    MetricsEndpoints,
    endpoints,
    scrape,
    topic_batch,
)
from trimtab.systems.kafka.samples import (
    OFFLINE,
    AdminRequestSender,
    KafkaBrokerSample,
    KafkaPlacement,
    Offsets,
    RequestSender,
    read_placement,
    sample_broker,
)
from trimtab.systems.kafka.settings import KafkaConnection

_FRACTIONS = ("processors", "handler_idle_fraction")
_DECLARED = {
    "cpu_capacity_cores": "cpu_cores",
    "network_in_capacity_bytes_per_second": "network_in_bytes_per_second",
    "network_out_capacity_bytes_per_second": "network_out_bytes_per_second",
}
"""Columns that declare capacity, and fields of `BrokerCapacity`."""


def broker_batch(
    placement: KafkaPlacement,
    answers: Mapping[int, KafkaBrokerSample],
    scrapes: Mapping[int, CounterScrape],
    capacity: CapacitySettings,
    hosts: Mapping[str, str],
    placed_at: datetime.datetime,
) -> RowBatch:
    """One row per broker, also for those that are fenced, do not answer, or only hold replicas by name.

    Counters are empty without a metrics endpoint. `hosts` names the machines of brokers whose advertised
    address does not, by id.
    """
    writer = RowBatchBuilder(
        "broker", "broker", "host", "rack", "broker_state", "sampled_at", *_DECLARED, *BROKER_COLUMNS
    )
    for broker in placement.brokers:
        answer, found = answers.get(broker.id), scrapes.get(broker.id)
        state = "fenced" if answer is None else "alive" if answer.reachable else "unreachable"
        read_at = found.sampled_at if found else answer.sampled_at if answer else placed_at
        values = found.counters.broker if found else {}
        writer.add(
            broker.id,
            hosts.get(str(broker.id), broker.host),
            broker.rack,
            state,
            read_at,
            *_declared(capacity, broker.id),
            *(
                values.get(name) if name in _FRACTIONS else whole_number(values.get(name))
                for name in BROKER_COLUMNS
            ),
        )
    for broker_id in placement.unregistered():
        writer.add(
            broker_id,
            hosts.get(str(broker_id)),
            None,
            "unreachable",
            placed_at,
            *_declared(capacity, broker_id),
            *(None for _ in BROKER_COLUMNS),
        )
    return writer.batch()


def _declared(capacity: CapacitySettings, broker: int) -> list[float | None]:
    found = capacity.of(broker)
    return [getattr(found, field) for field in _DECLARED.values()]


def log_dir_batch(answers: Mapping[int, KafkaBrokerSample], capacity: CapacitySettings) -> RowBatch:
    """One row per log dir; a declared disk goes before what the broker's file systems say.

    Log dirs that share a file system each report all of it, so their sum is wrong: declare the disk there.
    """
    writer = RowBatchBuilder(
        "log_dir", "broker", "log_dir", "dir_state", "disk_total_bytes", "disk_usable_bytes", "sampled_at"
    )
    for answer in answers.values():
        declared = capacity.of(answer.broker).disk_bytes
        for found in answer.log_dirs:
            total, usable = found.total_bytes, found.usable_bytes
            if declared is not None:
                total = int(declared / len(answer.log_dirs))
                usable = max(0, total - found.used_bytes)
            writer.add(answer.broker, found.path, found.state, total, usable, answer.sampled_at)
    return writer.batch()


def partition_batch(
    placement: KafkaPlacement, answers: Mapping[int, KafkaBrokerSample], placed_at: datetime.datetime
) -> RowBatch:
    """One row per partition; offsets are empty where its leader did not give them."""
    writer = RowBatchBuilder(
        "partition",
        *("topic", "partition", "leader", "replicas", "in_sync", "adding", "removing"),
        *("start_offset", "end_offset", "sampled_at"),
    )
    for partition in placement.partitions:
        key = (partition.topic, partition.number)
        adding, removing = placement.moving.get(key, (None, None))
        answer = answers.get(partition.leader)
        writer.add(
            partition.topic,
            partition.number,
            None if partition.leader == OFFLINE else partition.leader,
            partition.replicas,
            partition.in_sync,
            adding,
            removing,
            answer.start_offsets.get(key) if answer else None,
            answer.end_offsets.get(key) if answer else None,
            answer.sampled_at if answer else placed_at,
        )
    return writer.batch()


TOLERANCE: Final = 0.25
"""Largest difference of counter and logs, of the larger of both: the two are not read in the same instant."""
MIN_BYTES: Final = 10_000
"""Below it the logs grow too little to say anything about a counter."""
_STILL: Final = 0.01
"""A counter that rises by less than this share of what the logs grow by does not count bytes."""
_MAX_ERROR: Final = 10
"""How many comparisons are remembered against a counter."""

NOT_COUNTING: Final = "it does not rise as the logs of the partitions that the broker leads do"


class CounterCheckResult(StrEnum):
    """Result of comparing a broker's traffic counter with its logs."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NO_COUNTER = "no counter"
    IDLE = "idle"
    UNKNOWN = "unknown"
    """There is no counter, it was reset, sizes are not told, or leaders moved in between."""


@dataclass(frozen=True)
class TrafficReading:
    """One broker at one instant: its counters, and the logs of the partitions that it leads.

    Attributes
    ----------
    sizes
        Bytes of its own replica, by partition that it leads.
    """

    sampled_at: datetime.datetime
    counters: BrokerCounters
    start_offsets: Offsets
    end_offsets: Offsets
    sizes: Mapping[tuple[str, int], int]

    @classmethod
    def of(cls, found: CounterScrape, answer: KafkaBrokerSample) -> TrafficReading:
        """The reading that a scrape and an answer of the same tick make."""
        sizes: dict[tuple[str, int], int] = {}
        if answer.replicas is not None:
            columns = answer.replicas.columns
            names = ("topic", "partition", "is_future", "size_bytes")
            for topic, number, is_future, size in zip(*(columns[name] for name in names), strict=True):
                if not is_future and (topic, number) in answer.end_offsets:
                    sizes[topic, number] = size
        return cls(found.sampled_at, found.counters, answer.start_offsets, answer.end_offsets, sizes)


@dataclass(frozen=True)
class CounterComparison:
    """A broker's bytes in between two readings, by its counter and by its logs.

    Attributes
    ----------
    counted_bytes
        The counter's change; None where it is not there.
    logged_bytes
        By how much the logs of the partitions grew that the broker led at both readings.
    cpu_seconds
        The change of the CPU time; None where it is not there.
    """

    outcome: CounterCheckResult
    seconds: float
    counted_bytes: float | None
    logged_bytes: float
    cpu_seconds: float | None


def compare_readings(before: TrafficReading, after: TrafficReading) -> CounterComparison:
    """Compare two readings of one broker."""
    counted = _change(before, after, "bytes_in_total")
    cpu = _change(before, after, "cpu_time_ns")
    logged = sum(_growth(before, after, key) for key in before.end_offsets.keys() & after.end_offsets.keys())
    seconds = (after.sampled_at - before.sampled_at).total_seconds()

    def result(outcome: CounterCheckResult) -> CounterComparison:
        return CounterComparison(outcome, seconds, counted, logged, None if cpu is None else cpu / 1e9)

    sized = all(one.sizes or not one.end_offsets for one in (before, after))
    if counted is None or not sized or before.end_offsets.keys() != after.end_offsets.keys():
        return result(CounterCheckResult.UNKNOWN)
    if counted < 0:
        # Where the broker was restarted, its CPU time fell as well.
        return result(
            CounterCheckResult.NO_COUNTER if cpu is not None and cpu >= 0 else CounterCheckResult.UNKNOWN
        )
    if max(counted, logged) < MIN_BYTES:
        return result(CounterCheckResult.IDLE)
    if counted < _STILL * logged:
        return result(CounterCheckResult.NO_COUNTER)
    close = abs(counted - logged) <= TOLERANCE * max(counted, logged)
    return result(CounterCheckResult.AGREES if close else CounterCheckResult.DIFFERS)


class CounterCheck:
    """Which brokers' counters of traffic do not count, as readings come in.

    One comparison is enough against a counter that never followed the logs. Against another it takes two: a
    burst between the scrape and the sizes of one tick makes one comparison wrong, and the next differ.
    """

    def __init__(self) -> None:
        self._last: dict[int, TrafficReading] = {}
        self._map_error: dict[int, int] = {}
        self._followed: set[int] = set()

    def checked(self, broker: int, reading: TrafficReading) -> BrokerCounters:
        """The counters of a reading, without those of traffic where these do not count."""
        before = self._last.get(broker)
        self._last[broker] = reading
        wrong = self._map_error.get(broker, 0)
        if before is not None:
            outcome = compare_readings(before, reading).outcome
            if outcome is CounterCheckResult.NO_COUNTER:
                wrong = min(wrong + 1, _MAX_ERROR)
            elif outcome is CounterCheckResult.AGREES:
                wrong = 0
                self._followed.add(broker)
            elif outcome is CounterCheckResult.DIFFERS:
                wrong = max(wrong - 1, 0)
            self._map_error[broker] = wrong
        if wrong < (2 if broker in self._followed else 1):
            return reading.counters
        return reading.counters.without_traffic(NOT_COUNTING)


def _change(before: TrafficReading, after: TrafficReading, column: str) -> float | None:
    first, second = before.counters.broker.get(column), after.counters.broker.get(column)
    return None if first is None or second is None else second - first


def _growth(before: TrafficReading, after: TrafficReading, key: tuple[str, int]) -> float:
    """Bytes that a log grew by; where some were removed, offsets times its bytes per record."""
    first, second = before.sizes.get(key), after.sizes.get(key)
    if first is None or second is None:
        return 0.0
    same_start = before.start_offsets.get(key) == after.start_offsets.get(key)
    if second >= first and same_start:
        return float(second - first)
    records = after.end_offsets[key] - before.end_offsets[key]
    held = after.end_offsets[key] - after.start_offsets.get(key, 0)
    return max(0.0, records * second / held) if held > 0 else 0.0


THREADS = 64
"""Two a broker while the cluster is small; past that, brokers queue and are sampled a little apart."""


class KafkaCollector:
    """Samples one cluster.

    Parameters
    ----------
    sender
        The way to the brokers.
    settings, capacity
        What to read, and what brokers can carry.
    now
        The clock that stamps samples, UTC.

    Attributes
    ----------
    readings
        Of the newest tick, what every broker's endpoint and logs said, by broker.
    unmetered
        Of the newest tick, what is wrong with endpoints, by broker: no answer, or counters that are lacking.
    """

    def __init__(
        self,
        sender: RequestSender,
        settings: CollectSettings,
        capacity: CapacitySettings,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._request_sender = sender
        self._settings = settings
        self._capacity = capacity
        self._endpoints: MetricsEndpoints = endpoints(settings.prometheus)
        self._clients = ClientFiles(settings.client_samples)
        self._now = now
        self._counter_check = CounterCheck()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="collect")
        self.readings: dict[int, TrafficReading] = {}
        self.unmetered: dict[int, str] = {}

    def close(self) -> None:
        """Let the threads end after their current request."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def sample(self) -> TickSample:
        """Sample brokers, partitions, log dirs and counters once."""
        begun = time.perf_counter()
        patience = self._settings.request_timeout_seconds
        placement = read_placement(self._request_sender, patience)
        placed_at = self._now()
        led = placement.led_by()
        known = {*(broker.id for broker in placement.brokers), *placement.unregistered()}
        problems = [*placement.problems, *unknown_ids(self._settings, self._capacity, known)]
        scrapes: dict[int, Future[CounterScrape]] = {}
        asked: dict[int, Future[KafkaBrokerSample]] = {}
        clusters = self._clusters(placement)
        for broker in placement.brokers:
            if broker.fenced:
                problems.append(f"broker {broker.id} is fenced: the controller counts it as dead")
                continue
            # Counters and sizes of one broker are read in the same moment, and all brokers side by side.
            if (url := self._endpoints.url(broker)) is not None:
                scrapes[broker.id] = self._pool.submit(scrape, url, patience, clusters[broker.id])
            asked[broker.id] = self._pool.submit(
                sample_broker,
                self._request_sender,
                broker.id,
                led.get(broker.id, {}),
                self._settings.groups,
                patience,
                self._now,
            )
        answers = {broker: future.result() for broker, future in asked.items()}
        counters = self._metered(scrapes, answers)
        clients, unread = self._clients.read(
            placed_at - datetime.timedelta(seconds=2 * self._settings.interval_seconds),
        )
        for answer in answers.values():
            problems += answer.problems
        batches = [
            broker_batch(placement, answers, counters, self._capacity, self._settings.hosts, placed_at),
            log_dir_batch(answers, self._capacity),
            partition_batch(placement, answers, placed_at),
            *(answer.replicas for answer in answers.values() if answer.replicas is not None),
            *(answer.groups for answer in answers.values() if answer.groups is not None),
            *(topic_batch(broker, found) for broker, found in counters.items()),
            clients,
        ]
        return TickSample(
            cluster=self._settings.cluster or placement.cluster_id,
            batches=tuple(batch for batch in batches if len(batch)),
            answered=sum(answer.reachable for answer in answers.values()),
            brokers=len(placement.brokers),
            scraped=len(counters),
            endpoints=len(scrapes),
            dropped_values=sum(found.counters.dropped for found in counters.values()),
            problems=(*problems, *self.metrics_problems(), *unread),
            seconds=time.perf_counter() - begun,
        )

    def _clusters(self, placement: KafkaPlacement) -> dict[int, ClusterNames]:
        """For every broker's endpoint, what its labels are compared with."""
        hosts = {one.id: one.host for one in placement.brokers}
        topics = frozenset(one.topic for one in placement.partitions)
        sharing: dict[str | None, list[int]] = {}
        for one in placement.brokers:
            sharing.setdefault(self._endpoints.url(one), []).append(one.id)
        return {
            one.id: ClusterNames(
                one.id, hosts, topics, self._settings.topic_label, sharing[self._endpoints.url(one)]
            )
            for one in placement.brokers
        }

    def _metered(
        self, scrapes: Mapping[int, Future[CounterScrape]], answers: Mapping[int, KafkaBrokerSample]
    ) -> dict[int, CounterScrape]:
        """The scrapes that came, without counters that do not count."""
        counters: dict[int, CounterScrape] = {}
        self.readings, self.unmetered = {}, {}
        if self._settings.prometheus is not None:
            unset = "no endpoint is set for it; add it to collect.prometheus"
            self.unmetered = {broker: unset for broker in answers if broker not in scrapes}
        for broker, future in scrapes.items():
            try:
                found = future.result()
            except RequestError as error:
                self.unmetered[broker] = f"{error}; start it, or correct collect.prometheus"
                continue
            self.readings[broker] = TrafficReading.of(found, answers[broker])
            counters[broker] = replace(
                found, counters=self._counter_check.checked(broker, self.readings[broker])
            )
            if lacking := counters[broker].counters.lacking():
                self.unmetered[broker] = f"the endpoint {lacking}"
        return counters

    def metrics_problems(self) -> list[str]:
        """What is wrong with endpoints at the newest tick, a sentence for all brokers with one fault."""
        by_fault: dict[str, list[int]] = {}
        for broker, fault in sorted(self.unmetered.items()):
            by_fault.setdefault(fault, []).append(broker)
        return [
            f"metrics of broker{'s' * (len(brokers) > 1)} {', '.join(map(str, brokers))}: {fault}"
            for fault, brokers in by_fault.items()
        ]


@contextmanager
def open_collector(
    connection: KafkaConnection, settings: CollectSettings, capacity: CapacitySettings
) -> Iterator[KafkaCollector]:
    """A collector on a connection of its own, as `SystemSampler.open`."""
    # The client's default would leave a broker that comes back unasked for up to 30 s.
    with open_admin(connection, reconnect_backoff_max_ms=1000) as admin:
        collector = KafkaCollector(AdminRequestSender(admin), settings, capacity)
        try:
            yield collector
        finally:
            collector.close()


def warnings(settings: CollectSettings) -> tuple[str, ...]:
    """A remark where CPU cannot be known."""
    if settings.prometheus is not None:
        return ()
    return ("no metrics endpoint is set (collect.prometheus): no CPU, three resources remain",)


COLLECTING: Final = SystemSampler(COLUMNS, open_collector, warnings)
