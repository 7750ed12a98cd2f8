"""One tick of a Pulsar cluster: ask all brokers at once, and make rows of whatever they answer."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Final

from trimtab.observe.bundles.pipeline import COLUMNS
from trimtab.observe.collect.sampler import RequestError, SystemSampler, TickSample
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings, unknown_addresses
from trimtab.systems.pulsar.admin import PulsarAdmin, PulsarAdminError, PulsarConnection
from trimtab.systems.pulsar.broker import BrokerQueries, PulsarBrokerSample, sample_broker
from trimtab.systems.pulsar.bundles import bundle_samples, current_bundles
from trimtab.systems.pulsar.figures import SampleErrors
from trimtab.systems.pulsar.metrics import BrokerMetrics, read_metrics, topics_of, usage_of
from trimtab.systems.pulsar.namespaces import Namespaces, NamespacesSample
from trimtab.systems.pulsar.published import PublishedLoads
from trimtab.systems.pulsar.recording import RecordingSink
from trimtab.systems.pulsar.report import (
    CheckedReport,
    ReportClocks,
    modular_report,
    published_bundles,
    published_report,
)
from trimtab.systems.pulsar.rows import (
    BrokerSample,
    broker_batch,
    bundle_batches,
    capacity_columns,
    namespace_batch,
    topic_batches,
)
from trimtab.systems.pulsar.topics import bundle_sums, topic_samples
from trimtab.systems.pulsar.usage import DECLARED, UsageSource, undeclared

THREADS: Final = 64
EXTENSIBLE_SECONDS: Final = 300.0
"""A broker that has no load report is asked for one again after so long: its load manager may be another."""


class PulsarCollector:
    """Samples one cluster.

    Parameters
    ----------
    admin
        The way to the brokers.
    settings, capacity
        What to read, and what brokers can carry.
    now
        The clock that stamps samples, UTC.
    clock
        Seconds, on a clock that does not go back.
    listen
        Whether to listen for what brokers publish where the load manager makes no report; False for a single
        look, in which nothing would be heard.
    """

    def __init__(
        self,
        admin: PulsarAdmin,
        settings: CollectSettings,
        capacity: CapacitySettings,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
        clock: Callable[[], float] = time.monotonic,
        *,
        listen: bool = True,
    ) -> None:
        self._admin = admin
        self._settings = settings
        self._capacity = capacity
        self._now = now
        self._clock = clock
        self._listens = listen
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="collect")
        self._namespaces = Namespaces(admin, self._pool, clock)
        self._usage = UsageSource(settings.pulsar.usage)
        self._clocks = ReportClocks()
        self._extensible: dict[str, float] = {}
        self._published: PublishedLoads | None = None

    def close(self) -> None:
        """Let the threads end."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._published is not None:
            self._published.close()

    def sample(self) -> TickSample:
        """As `Sampler.sample`."""
        begun = time.perf_counter()
        problems: list[str] = []
        faults = SampleErrors()
        try:
            cluster = self._admin.cluster()
            names = self._admin.brokers()
        except PulsarAdminError as error:
            raise RequestError(str(error)) from error
        leader = None
        try:
            leader = self._admin.leader()
        except PulsarAdminError as error:
            problems.append(f"no leader can be told: {error}")
        problems += unknown_addresses(self._capacity, names)
        answers = self._ask(names)
        # Namespaces after brokers: a bundle that no longer fits was split meanwhile.
        namespaces = self._namespaces.sample(_observed(answers), faults)
        samples = self._samples(answers, namespaces, faults)
        problems += [problem for answer in answers for problem in answer.problems]
        problems += self._warnings(samples, answers) if self._listens else ()
        batches = [
            broker_batch(samples, leader),
            *bundle_batches(samples),
            *(topic_batches(samples) if self._settings.pulsar.topics else ()),
            namespace_batch(namespaces, self._now()),
        ]
        return TickSample(
            cluster=self._settings.cluster or cluster,
            batches=tuple(batch for batch in batches if len(batch)),
            answered=sum(answer.reachable for answer in answers),
            brokers=len(names),
            scraped=0,
            endpoints=0,
            dropped_values=faults.count,
            problems=(*problems, *namespaces.problems, *faults.sentences()),
            seconds=time.perf_counter() - begun,
        )

    def _ask(self, names: Sequence[str]) -> list[PulsarBrokerSample]:
        now = self._clock()
        published = {} if self._published is None else self._published.brokers.all()
        metrics = self._settings.pulsar.metrics
        asked = []
        for name in names:
            known = now < self._extensible.get(name, now)
            wanted = BrokerQueries(not known, metrics, metrics and known and name not in published)
            asked.append(self._pool.submit(sample_broker, self._admin, name, wanted, self._now))
        answers = [future.result() for future in asked]
        for answer in answers:
            if answer.load_manager == "modular":
                self._extensible.pop(answer.broker, None)
            elif answer.load_manager == "extensible" and now >= self._extensible.get(answer.broker, now):
                self._extensible[answer.broker] = now + EXTENSIBLE_SECONDS
        if self._listens and self._extensible and self._published is None:
            self._listen()
        return answers

    def _listen(self) -> None:
        try:
            url = self._admin.service_url()
        except PulsarAdminError:
            return  # said by `_remarks`, and tried again at the next tick
        self._published = PublishedLoads(self._admin.connection, url)

    def _samples(
        self, answers: Sequence[PulsarBrokerSample], namespaces: NamespacesSample, faults: SampleErrors
    ) -> list[BrokerSample]:
        samples = [self._sample(answer, namespaces, faults) for answer in answers]
        cpu = {one.broker: one.usage.get("cpu") for one in samples if one.reachable}
        sources = self._usage.of(cpu, self._clock())
        fitting = current_bundles({one.broker: one.bundles for one in samples}, namespaces.boundaries, faults)
        return [
            replace(one, source=sources.get(one.broker, one.source), bundles=fitting[one.broker])
            for one in samples
        ]

    def _sample(
        self, answer: PulsarBrokerSample, namespaces: NamespacesSample, faults: SampleErrors
    ) -> BrokerSample:
        """One broker's answers, joined: its report, or what it published, or its metrics."""
        broker = answer.broker
        capacity = capacity_columns(self._capacity.of(broker))
        if not answer.reachable:
            return BrokerSample(broker, False, answer.read_at, answer.read_at, capacity)
        report = self._report(answer, faults)
        metrics = BrokerMetrics()
        if answer.metrics is not None:
            metrics = read_metrics(answer.metrics, broker, faults)
        topics = (
            topics_of(metrics, namespaces.boundaries)
            if answer.topics is None
            else topic_samples(answer.topics, broker, faults)
        )
        stats = dict(report.stats) or metrics.complete_bundles
        published_at = self._clocks.stamp(broker, report.updated_ms, answer.read_at, faults)
        return BrokerSample(
            broker,
            True,
            answer.read_at,
            # Asked for, a report is made anew; its time is that of its last publication.
            published_at if answer.report is None else answer.read_at,
            capacity,
            load_manager=answer.load_manager,
            usage=report.usage or usage_of(metrics, capacity),
            traffic=report.traffic or metrics.sums,
            bundles=bundle_samples(report.bundles, stats, answer.owned, bundle_sums(topics)),
            topics=topics,
            weighted_max_ema=report.weighted_max_ema,
            msg_throughput_ema=report.msg_throughput_ema,
        )

    def _report(self, answer: PulsarBrokerSample, faults: SampleErrors) -> CheckedReport:
        if answer.report is not None:
            return modular_report(answer.report, answer.broker, faults)
        if answer.load_manager != "extensible" or self._published is None:
            return CheckedReport()
        told = self._published.brokers.all().get(answer.broker)
        report = CheckedReport() if told is None else published_report(told, answer.broker, faults)
        if answer.topics is not None:
            # The sums of topics are as new as this tick, and of all bundles, not of the top ones.
            return report
        top = self._published.bundles.all().get(answer.broker, {})
        return replace(report, stats=published_bundles(top, answer.broker, faults))

    def _warnings(self, samples: Sequence[BrokerSample], answers: Sequence[PulsarBrokerSample]) -> list[str]:
        """Remarks that hold for the whole tick and must be known to whoever reads it."""
        remarks = [self._usage.warning()]
        declared = {one.broker: one.capacity for one in samples if one.source == DECLARED and one.reachable}
        remarks.append(undeclared(declared) if declared else None)
        silent = [one.broker for one in samples if one.reachable and one.load_manager and not one.usage]
        if any(answer.load_manager == "extensible" for answer in answers):
            if self._published is None:
                remarks.append(
                    "load reports are not heard: this cluster's load manager publishes them on topics, and "
                    "where these are is not told; set pulsar.service_url"
                )
            else:
                remarks.append(self._published.problem())
        if silent:
            remarks.append(f"no usage is known of {', '.join(silent)}: no report of theirs has come yet")
        return [remark for remark in remarks if remark is not None]


def _observed(answers: Sequence[PulsarBrokerSample]) -> set[str]:
    """Namespaces that brokers own bundles of."""
    return {bundle.rpartition("/")[0] for answer in answers for bundle in answer.owned or ()}


@contextmanager
def open_collector(
    connection: PulsarConnection, settings: CollectSettings, capacity: CapacitySettings
) -> Iterator[PulsarCollector]:
    """A collector on a connection of its own, as `SystemSampler.open`."""
    patient = replace(connection, timeout_seconds=settings.request_timeout_seconds)
    with PulsarAdmin(patient) as admin, closing(PulsarCollector(admin, settings, capacity)) as collector:
        admin.brokers()
        yield collector


COLLECTING: Final = SystemSampler(COLUMNS, open_collector, recorder=RecordingSink)
