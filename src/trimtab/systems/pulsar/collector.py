"""One tick of a Pulsar cluster: ask all brokers at once, and make rows of whatever they answer.

`UsageSource` decides whether a broker's usage is its own report or message traffic over declared
capacities. `RecordingSink` also writes ticks as a recording that `trimtab replay bundles` reads
(`trimtab/pulsar-reports/1`, a line a tick).
"""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from trimtab.files.bundles.reports import report_line
from trimtab.model.bundles.policies import host_of, is_heartbeat_or_sla
from trimtab.model.bundles.reports import ReportTick
from trimtab.model.errors import ObserveError
from trimtab.observe.bundles.pipeline import COLUMNS
from trimtab.observe.bundles.recorded import reports_of
from trimtab.observe.collect.sampler import RequestError, SystemSampler, TickSample
from trimtab.observe.collect.settings import (
    BrokerCapacity,
    CapacitySettings,
    CollectSettings,
    unknown_addresses,
)
from trimtab.observe.collect.sinks import RowBatch, RowBatchBuilder, SampleSink, whole_number
from trimtab.systems.pulsar.admin import PulsarAdmin, PulsarAdminError
from trimtab.systems.pulsar.cluster import (
    BrokerQueries,
    Namespaces,
    NamespacesSample,
    PulsarBrokerSample,
    sample_broker,
)
from trimtab.systems.pulsar.connection import PulsarConnection
from trimtab.systems.pulsar.reports import (
    RESOURCES,
    TRAFFIC,
    CheckedReport,
    Figures,
    PublishedLoads,
    ReportClocks,
    SampleErrors,
    modular_report,
    published_bundles,
    published_report,
)
from trimtab.systems.pulsar.topics import (
    BrokerMetrics,
    BundleSample,
    TopicSample,
    bundle_samples,
    bundle_sums,
    current_bundles,
    read_metrics,
    topic_samples,
    topics_of,
    usage_of,
)
from trimtab_common.errors import InputError

_USAGE: Final = tuple(f"{name}_{part}" for name in RESOURCES for part in ("usage", "limit"))
CAPACITY: Final = {
    "cpu_capacity_cores": "cpu_cores",
    "bandwidth_in_capacity_bytes_per_second": "network_in_bytes_per_second",
    "bandwidth_out_capacity_bytes_per_second": "network_out_bytes_per_second",
    "message_rate_capacity_per_second": "message_rate_per_second",
}
"""Columns that declare capacity, and fields of `BrokerCapacity`."""

_COUNTS: Final = ("topics", "producers", "consumers", "cache_size_bytes")
_TOPIC_COUNTS: Final = ("producers", "consumers", "subscriptions", "backlog_messages", "storage_size_bytes")


@dataclass(frozen=True)
class BrokerSample:
    """One broker of a tick, ready to be written.

    Attributes
    ----------
    source
        `measured`, or `declared`: usage is the host's then, and traffic over capacity stands for it.
    usage
        (usage, limit) by prefix of the columns, as the broker reports them.
    capacity
        Columns that declare it.
    sampled_at, read_at
        When the broker made its report, and when it was asked.
    """

    broker: str
    reachable: bool
    read_at: datetime.datetime
    sampled_at: datetime.datetime
    capacity: Mapping[str, object]
    source: str = "measured"
    load_manager: str | None = None
    usage: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    traffic: Figures = field(default_factory=dict)
    bundles: tuple[BundleSample, ...] = ()
    topics: tuple[TopicSample, ...] = ()
    weighted_max_ema: float | None = None
    msg_throughput_ema: float | None = None


def capacity_columns(declared: BrokerCapacity) -> dict[str, float | None]:
    """Columns of a `pulsar_broker` row that declare capacity."""
    return {column: getattr(declared, field) for column, field in CAPACITY.items()}


def broker_batch(brokers: Iterable[BrokerSample], leader: str | None) -> RowBatch:
    """One row per broker, also for those that do not answer."""
    writer = RowBatchBuilder(
        "pulsar_broker",
        *("owner", "position", "sampled_at", "broker_state", "is_leader", "load_manager", "usage_source"),
        *_USAGE,
        *CAPACITY,
        *("weighted_max_ema", "msg_throughput_ema", "bundles"),
        *TRAFFIC,
    )
    for position, one in enumerate(brokers):
        pairs = (one.usage.get(name, (None, None)) for name in RESOURCES)
        owned = sum(sample.position is not None for sample in one.bundles)
        writer.add(
            one.broker,
            position,
            one.sampled_at,
            "alive" if one.reachable else "unreachable",
            None if leader is None else one.broker == leader,
            one.load_manager,
            one.source if one.reachable else None,
            *(value for pair in pairs for value in pair),
            *(one.capacity[name] for name in CAPACITY),
            one.weighted_max_ema,
            one.msg_throughput_ema,
            owned if one.reachable else None,
            *(one.traffic.get(name) for name in TRAFFIC),
        )
    return writer.batch()


def bundle_batches(brokers: Iterable[BrokerSample]) -> Iterable[RowBatch]:
    """A batch per broker, a row per bundle that it owns or has figures of."""
    for one in brokers:
        writer = RowBatchBuilder(
            "pulsar_bundle",
            *("bundle", "position", "has_stats", "stats_position"),
            *TRAFFIC,
            *_COUNTS,
            owner=one.broker,
            sampled_at=one.sampled_at,
        )
        for sample in one.bundles:
            found = sample.figures or {}
            writer.add(
                sample.bundle,
                sample.position,
                sample.figures is not None,
                sample.stats_position,
                *(found.get(name) for name in TRAFFIC),
                *(whole_number(found.get(name)) for name in _COUNTS),
            )
        yield writer.batch()


def topic_batches(brokers: Iterable[BrokerSample]) -> Iterable[RowBatch]:
    """A batch per broker, a row per topic; the topics by which brokers probe themselves are left out."""
    for one in brokers:
        writer = RowBatchBuilder(
            "pulsar_topic",
            *("bundle", "topic"),
            *TRAFFIC,
            *_TOPIC_COUNTS,
            owner=one.broker,
            sampled_at=one.read_at,
        )
        for sample in one.topics:
            if not is_heartbeat_or_sla(sample.bundle.rpartition("/")[0]):
                writer.add(
                    sample.bundle,
                    sample.topic,
                    *(sample.figures.get(name) for name in TRAFFIC),
                    *(whole_number(sample.figures.get(name)) for name in _TOPIC_COUNTS),
                )
        yield writer.batch()


def namespace_batch(found: NamespacesSample, read_at: datetime.datetime) -> RowBatch:
    """One row for each namespace."""
    writer = RowBatchBuilder("pulsar_namespace", "namespace", "boundaries", "policies", sampled_at=read_at)
    for name, boundaries in found.boundaries.items():
        writer.add(name, list(boundaries), found.policies.get(name))
    return writer.batch()


ALIKE_POINTS: Final = 10.0
"""CPU of brokers that differs by less, in points of percent, may be one and the same host's."""
APART_SECONDS: Final = 150.0
"""Brokers look at their host once a minute, each at its own second: figures of one host differ for so long
after its load has changed, and no longer."""

MEASURED, DECLARED = "measured", "declared"


@dataclass
class UsageSource:
    """Decides for every host, and keeps to it.

    Attributes
    ----------
    mode
        `auto`, `measured` or `declared`.
    """

    mode: str
    _source: dict[str, str] = field(default_factory=dict)
    _apart_since: dict[str, float] = field(default_factory=dict)

    def of(self, cpu: Mapping[str, tuple[float, float] | None], at: float) -> dict[str, str]:
        """`measured` or `declared` of every broker.

        With `auto`, brokers of one host that report the same limit of CPU are taken to report their host's
        figures: `declared`, until their usage has been apart for longer than samples of one host can be.
        Brokers that were started together, or whose load has just begun, differ without having any of their
        own.

        Parameters
        ----------
        cpu
            Usage and limit of each broker, where it told them.
        at
            Seconds, on any clock that does not go back.
        """
        if self.mode != "auto":
            return dict.fromkeys(cpu, self.mode)
        by_host: dict[str, list[str]] = {}
        for broker in cpu:
            by_host.setdefault(host_of(broker), []).append(broker)
        for host, brokers in by_host.items():
            self._choose_source(host, [told for broker in brokers if (told := cpu[broker]) is not None], at)
        return {broker: self._source.get(host_of(broker), MEASURED) for broker in cpu}

    def _choose_source(self, host: str, text: list[tuple[float, float]], at: float) -> None:
        if len(text) < 2:
            return
        if len({limit for _, limit in text}) > 1:
            self._source[host] = MEASURED
        elif self._source.setdefault(host, DECLARED) == DECLARED:
            if _alike(text):
                self._apart_since.pop(host, None)
            elif at - self._apart_since.setdefault(host, at) > APART_SECONDS:
                self._source[host] = MEASURED

    def warning(self) -> str | None:
        """A sentence on what this means, where usage is not what brokers measure."""
        if self.mode == DECLARED:
            return (
                "usage is message traffic over declared capacities (collect.pulsar.usage); CPU does not count"
            )
        hosts = sorted(host for host, source in self._source.items() if source == DECLARED)
        if self.mode != "auto" or not hosts:
            return None
        return (
            f"the brokers on {', '.join(hosts)} report one and the same host's CPU and network: message "
            "traffic over declared capacities is their usage instead, and CPU does not count; "
            'collect.pulsar.usage = "measured" takes their reports as they are'
        )


def undeclared(brokers: Mapping[str, Mapping[str, object]]) -> str | None:
    """A sentence on capacities that brokers of declared usage lack, by their `capacity_columns`."""
    missing = [
        f"capacity.{key}"
        for column, key in CAPACITY.items()
        if key != "cpu_cores" and any(declared[column] is None for declared in brokers.values())
    ]
    if not missing:
        return None
    return (
        f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not declared: limits that brokers "
        "report stand in for it, and what has none is not balanced"
    )


def _alike(text: list[tuple[float, float]]) -> bool:
    percents = [100 * usage / limit for usage, limit in text]
    return max(percents) - min(percents) < ALIKE_POINTS


_EMPTY: dict[str, object] = {name: None for name, _ in COLUMNS}


class _Line(msgspec.Struct):
    at: datetime.datetime


class RecordingSink:
    """Lands samples where they belong, and the reports among them in a file as well.

    Parameters
    ----------
    sink
        Where they belong.
    path
        The recording; one that is there is continued. A line that a killed collector left half written is
        removed.

    Raises
    ------
    InputError
        If the file is no recording.
    ObserveError
        If it cannot be written.
    """

    def __init__(self, sink: SampleSink, path: Path) -> None:
        self._sink = sink
        self._path = path
        try:
            self._last = _end_of(path)
            self._file = path.open("ab")
        except OSError as error:
            raise self._unwritable(error) from error

    def write(self, batches: Sequence[RowBatch], cluster: str, tick: datetime.datetime) -> None:
        """Keep them; a tick that is not later than the last recorded one is not recorded again."""
        self._sink.write(batches, cluster, tick)
        if self._last is not None and tick <= self._last:
            return
        kinds = ("pulsar_broker", "pulsar_bundle")
        rows = [_EMPTY | row for batch in batches if batch.kind in kinds for row in batch.rows()]
        reports = reports_of(rows)
        if not reports:
            return
        line = report_line(ReportTick(tick.timestamp(), reports)).encode()
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._unwritable(error) from error
        self._last = tick

    def close(self) -> None:
        """Close the file, and what is below."""
        self._file.close()
        self._sink.close()

    def _unwritable(self, error: OSError) -> ObserveError:
        return ObserveError(
            f"the recording {self._path} cannot be written ({error.strerror or error}): free space there, or "
            "name another file with --record"
        )


def _end_of(path: Path) -> datetime.datetime | None:
    """The last tick of a recording; None if it is empty or not there."""
    if not path.exists() or not path.stat().st_size:
        return None
    with path.open("rb+") as file:
        last, end = b"", 0
        for line in file:
            if not line.endswith(b"\n"):
                file.truncate(end)
                break
            last, end = line, end + len(line)
    try:
        return msgspec.json.decode(last, type=_Line).at if last else None
    except msgspec.MsgspecError as error:
        raise InputError(
            f"{path} is there and is no recording of load reports ({error}): name another file with --record"
        ) from error


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
        """Let the threads end after their current request."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._published is not None:
            self._published.close()

    def sample(self) -> TickSample:
        """Sample all brokers and namespaces once."""
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
            return  # said by `_warnings`, and tried again at the next tick
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
                    "where these are is not told; set service_url"
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
