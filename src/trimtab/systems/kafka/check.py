"""A Kafka cluster checked before it is sampled, changing nothing: addresses, rights, metrics, capacities."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from time import sleep
from typing import TYPE_CHECKING, Final

from trimtab.model.finding import Finding, broken, fine, missing
from trimtab.observe.collect.sampler import RequestError, TickSample
from trimtab.observe.collect.settings import KnownCapacity, capacity_findings
from trimtab.systems.kafka.client import open_admin, reach
from trimtab.systems.kafka.collector import KafkaCollector
from trimtab.systems.kafka.counter_check import (
    TOLERANCE,
    CounterCheckResult,
    CounterComparison,
    compare,
)
from trimtab.systems.kafka.exposition import RULES
from trimtab.systems.kafka.requests import AdminRequestSender, RequestSender
from trimtab.systems.kafka.rights import rights
from trimtab_common.errors import ConnectError, SettingsError

if TYPE_CHECKING:
    from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
    from trimtab.systems.kafka.settings import KafkaConnection

PART: Final = "Kafka"
THREADS: Final = 32
METRICS: Final = "metrics"
READING_SECONDS: Final = 5.0
"""Between two readings of the counters."""
READINGS: Final = 2
"""How often counters are read again at most, until they agree with the logs."""
ESTIMATED: Final = "bytes of all brokers are estimated"
WITHOUT: Final = "CPU is not balanced, and bytes are estimated by the growth of logs and by offsets"


def check(
    connection: KafkaConnection, settings: CollectSettings, capacity: CapacitySettings
) -> Iterator[Finding]:
    """Findings on a cluster; where no broker answers, those on its addresses alone."""
    found = list(_addresses(connection))
    yield from found
    if not any(one.grade == "fine" for one in found):
        return
    try:
        with _request_sender(connection) as asker:
            yield from rights(asker, settings.request_timeout_seconds, PART)
            settings = replace(settings, client_samples=())
            try:
                collector = KafkaCollector(asker, settings, capacity)
            except SettingsError as error:
                yield broken(PART, METRICS, str(error))
                settings = replace(settings, prometheus=None)
                collector = KafkaCollector(asker, settings, capacity)
            else:
                if settings.prometheus is None:
                    yield missing(PART, METRICS, f"no endpoint is set: {WITHOUT}", "set collect.prometheus")
            try:
                sample = collector.sample()
                others = [one for one in sample.problems if one not in collector.metrics_problems()]
                if settings.prometheus is not None:
                    yield from _metrics(collector, sample.endpoints)
                yield from _sampled(replace(sample, problems=tuple(others)), capacity)
            finally:
                collector.close()
    except (ConnectError, RequestError) as error:
        yield broken(PART, "cluster", str(error))


def _addresses(connection: KafkaConnection) -> Iterator[Finding]:
    """Each address by itself; one that answers is enough to begin with."""
    how = connection.security_protocol
    if connection.uses_sasl:
        how += f", {connection.sasl_mechanism} as {connection.user!r}"
    with ThreadPoolExecutor(THREADS) as pool:
        faults = list(
            pool.map(lambda one: _fault(replace(connection, bootstrap=(one,))), connection.bootstrap)
        )
    grade = broken if all(faults) else missing
    for address, fault in zip(connection.bootstrap, faults, strict=True):
        yield fine(PART, address, f"answers over {how}") if fault is None else grade(PART, address, fault)


def _fault(connection: KafkaConnection) -> str | None:
    try:
        reach(connection)
    except (ConnectError, SettingsError) as error:
        return str(error)
    return None


@contextmanager
def _request_sender(connection: KafkaConnection) -> Iterator[RequestSender]:
    with open_admin(connection) as admin:
        yield AdminRequestSender(admin)


def _metrics(collector: KafkaCollector, endpoints: int) -> Iterator[Finding]:
    """The metrics of each broker as the collector reads them: what lacks, and whether the counters count.

    Only counters that two readings and the growth of logs confirm are fine.
    """
    faults = {
        broker: text if broker in collector.readings else f"{text}. Until then {WITHOUT}"
        for broker, text in collector.unmetered.items()
    }
    first = {broker: one for broker, one in collector.readings.items() if broker not in faults}
    outcomes: dict[int, CounterComparison] = {}
    for _ in range(READINGS) if first else ():
        sleep(READING_SECONDS)
        collector.sample()
        outcomes |= {
            broker: compare(before, collector.readings[broker])
            for broker, before in first.items()
            if broker in collector.readings
        }
        # A burst between two readings of one instant weighs less in a longer interval.
        if all(
            one.outcome in (CounterCheckResult.AGREES, CounterCheckResult.IDLE) for one in outcomes.values()
        ):
            break
    faults |= {
        broker: f"{text}. Until then {WITHOUT}"
        for broker, text in collector.unmetered.items()
        if broker not in faults and broker not in collector.readings
    }
    unconfirmed = {
        broker: text for broker in first if broker not in faults and (text := _unconfirmed(outcomes[broker]))
    }
    sound = [broker for broker in first if broker not in faults and broker not in unconfirmed]
    if sound:
        spans = [outcomes[broker].seconds for broker in sound]
        yield fine(
            PART,
            METRICS,
            f"{len(sound)} of {endpoints} endpoints: CPU time rises, and bytes in agree with the growth "
            f"of logs over {max(spans):.0f} s within {TOLERANCE:.0%}; bytes out and replication are read",
        )
    idle = [broker for broker in unconfirmed if outcomes[broker].outcome is CounterCheckResult.IDLE]
    if idle:
        named = ", ".join(str(broker) for broker in idle)
        yield missing(
            PART,
            METRICS,
            f"not verified: no traffic on broker{'s' * (len(idle) > 1)} {named}; check again under load",
        )
    for broker in sorted(faults.keys() | unconfirmed.keys()):
        if broker not in idle:
            yield missing(PART, f"metrics of broker {broker}", faults.get(broker) or unconfirmed[broker])


def _unconfirmed(found: CounterComparison) -> str:
    """What two readings leave in doubt; empty if nothing."""
    if found.cpu_seconds is None or found.cpu_seconds <= 0:
        return f"not verified: CPU time did not rise in {found.seconds:.0f} s"
    if found.outcome is CounterCheckResult.IDLE:
        return "no traffic"
    if found.outcome is CounterCheckResult.UNKNOWN or found.counted_bytes is None:
        return "not verified: counters began anew, sizes are not told, or leaders moved; check again"
    if found.outcome is CounterCheckResult.AGREES:
        return ""
    figures = (
        f"in {found.seconds:.0f} s bytes_in_total changed by {found.counted_bytes:,.0f}, and the logs of the "
        f"partitions that the broker leads grew by {found.logged_bytes:,.0f} bytes"
    )
    if found.outcome is CounterCheckResult.NO_COUNTER:
        return f"has no counter under a counter's name: {figures}: {ESTIMATED}; {RULES}"
    return f"not verified: {figures}"


def _sampled(sample: TickSample, capacity: CapacitySettings) -> Iterator[Finding]:
    """One tick as the collector takes it: who answers, and what each can carry."""
    if sample.problems:
        for problem in sample.problems:
            yield missing(PART, "samples", problem)
    else:
        yield fine(PART, "samples", f"{sample.answered} of {sample.brokers} brokers tell placement and sizes")
    alive = [row["broker"] for row in sample.rows_of("broker") if row["broker_state"] == "alive"]
    disks: dict[int, list[object]] = {}
    for row in sample.rows_of("log_dir"):
        disks.setdefault(row["broker"], []).append(row.get("disk_total_bytes"))
    theta = "brokers are compared with one another, and nobody can say whether one is full (theta)"

    def origin(broker: int, setting: str) -> str | None:
        if getattr(capacity.of(broker), setting) is not None:
            return "declared"
        told = setting == "disk_bytes" and broker in disks and all(size is not None for size in disks[broker])
        return "told by its log dirs" if told else None

    for resource, setting in (
        ("cpu", "cpu_cores"),
        ("disk", "disk_bytes"),
        ("network_in", "network_in_bytes_per_second"),
        ("network_out", "network_out_bytes_per_second"),
    ):
        known = KnownCapacity(resource, setting, {broker: origin(broker, setting) for broker in alive})
        yield from capacity_findings(PART, known, theta)
