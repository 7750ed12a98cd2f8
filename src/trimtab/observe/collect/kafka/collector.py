"""The collector of Kafka. One tick: ask all brokers at once, and make rows of whatever they answer."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from trimtab.connect.kafka.client import open_admin
from trimtab.connect.kafka.settings import KafkaConnection
from trimtab.observe.collect.clients import ClientFiles
from trimtab.observe.collect.collecting import Collecting, TickSample, Unanswered
from trimtab.observe.collect.kafka.asking import AdminAsker, Asker
from trimtab.observe.collect.kafka.broker_answer import BrokerAnswer, ask_broker
from trimtab.observe.collect.kafka.placement import read_placement
from trimtab.observe.collect.kafka.prometheus import Endpoints, Scrape, endpoints, scrape, topic_batch
from trimtab.observe.collect.kafka.raw import COLUMNS
from trimtab.observe.collect.kafka.rows import broker_batch, log_dir_batch, partition_batch
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings, unknown_ids

THREADS = 64
"""Two a broker while the cluster is small; past that, brokers queue and are sampled a little apart."""


class Collector:
    """Samples one cluster.

    Parameters
    ----------
    asker
        The way to the brokers.
    settings, capacity
        What to read, and what brokers can carry.
    now
        The clock that stamps samples, UTC.
    """

    def __init__(
        self,
        asker: Asker,
        settings: CollectSettings,
        capacity: CapacitySettings,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._asker = asker
        self._settings = settings
        self._capacity = capacity
        self._endpoints: Endpoints = endpoints(settings.prometheus)
        self._clients = ClientFiles(settings.client_samples)
        self._now = now
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="collect")

    def close(self) -> None:
        """Let the threads end."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def sample(self) -> TickSample:
        """As `Sampler.sample`."""
        begun = time.perf_counter()
        patience = self._settings.patience_seconds
        placement = read_placement(self._asker, patience)
        placed_at = self._now()
        led = placement.led_by()
        known = {*(broker.id for broker in placement.brokers), *placement.unregistered()}
        problems = [*placement.problems, *unknown_ids(self._settings, self._capacity, known)]
        scrapes: dict[int, Future[Scrape]] = {}
        asked: dict[int, Future[BrokerAnswer]] = {}
        for broker in placement.brokers:
            if broker.fenced:
                problems.append(f"broker {broker.id} is fenced: the controller counts it as dead")
                continue
            # Counters and sizes of one broker are read in the same moment, and all brokers side by side.
            if (url := self._endpoints.url(broker)) is not None:
                scrapes[broker.id] = self._pool.submit(scrape, url, patience)
            asked[broker.id] = self._pool.submit(
                ask_broker,
                self._asker,
                broker.id,
                led.get(broker.id, {}),
                self._settings.groups,
                patience,
                self._now,
            )
        answers = {broker: future.result() for broker, future in asked.items()}
        counters, unscraped = _scraped(scrapes)
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
            problems=(*problems, *unscraped, *unread),
            seconds=time.perf_counter() - begun,
        )


def _scraped(scrapes: Mapping[int, Future[Scrape]]) -> tuple[dict[int, Scrape], list[str]]:
    counters, problems = {}, []
    for broker, future in scrapes.items():
        try:
            counters[broker] = future.result()
        except Unanswered as error:
            problems.append(f"no metrics of broker {broker}: {error}")
            continue
        if not counters[broker].counters.broker:
            problems.append(
                f"the metrics endpoint of broker {broker} answers, but has no counter of a Kafka broker"
            )
    return counters, problems


@contextmanager
def open_collector(
    connection: KafkaConnection, settings: CollectSettings, capacity: CapacitySettings
) -> Iterator[Collector]:
    """A collector on a connection of its own, as `Collecting.open`."""
    # The client's default would leave a broker that comes back unasked for up to 30 s.
    with open_admin(connection, reconnect_backoff_max_ms=1000) as admin:
        collector = Collector(AdminAsker(admin), settings, capacity)
        try:
            yield collector
        finally:
            collector.close()


def remarks(settings: CollectSettings) -> tuple[str, ...]:
    """A remark where CPU cannot be known."""
    if settings.prometheus is not None:
        return ()
    return ("no metrics endpoint is set (collect.prometheus): no CPU, three resources remain",)


COLLECTING: Final = Collecting(COLUMNS, open_collector, remarks)
