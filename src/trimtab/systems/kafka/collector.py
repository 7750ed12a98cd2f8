"""The collector of Kafka. One tick: ask all brokers at once, and make rows of whatever they answer."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from trimtab.observe.collect.clients import ClientFiles
from trimtab.observe.collect.sampler import RequestError, SystemSampler, TickSample
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings, unknown_ids
from trimtab.observe.replicas.pipeline import COLUMNS
from trimtab.systems.kafka.broker_sample import KafkaBrokerSample, sample_broker
from trimtab.systems.kafka.client import open_admin
from trimtab.systems.kafka.counter_check import CounterCheck, TrafficReading
from trimtab.systems.kafka.exposition import ClusterNames
from trimtab.systems.kafka.placement import KafkaPlacement, read_placement
from trimtab.systems.kafka.prometheus import (
    CounterScrape,
    MetricsEndpoints,
    endpoints,
    scrape,
    topic_batch,
)
from trimtab.systems.kafka.requests import AdminRequestSender, RequestSender
from trimtab.systems.kafka.rows import broker_batch, log_dir_batch, partition_batch
from trimtab.systems.kafka.settings import KafkaConnection

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
        """Let the threads end."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def sample(self) -> TickSample:
        """As `Sampler.sample`."""
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
