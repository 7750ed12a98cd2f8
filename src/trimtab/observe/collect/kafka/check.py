"""A Kafka cluster checked before it is sampled, changing nothing: addresses, rights, metrics, capacities."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trimtab.connect.kafka.client import open_admin, reach
from trimtab.model.errors import ConnectError, SettingsError
from trimtab.model.finding import Finding, broken, fine, missing
from trimtab.observe.capacity_check import KnownCapacity, capacity_findings
from trimtab.observe.collect.collecting import TickSample, Unanswered
from trimtab.observe.collect.kafka.asking import AdminAsker, Asker
from trimtab.observe.collect.kafka.collector import Collector
from trimtab.observe.collect.kafka.placement import read_placement
from trimtab.observe.collect.kafka.prometheus import endpoints, scrape
from trimtab.observe.collect.kafka.rights import rights
from trimtab.observe.collect.settings import CapacitySettings, unknown_ids

if TYPE_CHECKING:
    from trimtab.connect.kafka.settings import KafkaConnection
    from trimtab.observe.collect.settings import CollectSettings

PART: Final = "Kafka"
THREADS: Final = 32
CPU: Final = ("cpu_time_ns",)
TRAFFIC: Final = ("bytes_in_total", "bytes_out_total", "replication_bytes_in_total")
RULES: Final = "give it the rules of docs/how-to/collect.md"


def check(
    connection: KafkaConnection, settings: CollectSettings, capacity: CapacitySettings
) -> Iterator[Finding]:
    """Findings on a cluster; where no broker answers, those on its addresses alone."""
    found = list(_addresses(connection))
    yield from found
    if not any(one.grade == "fine" for one in found):
        return
    try:
        with _asker(connection) as asker:
            yield from rights(asker, settings.patience_seconds, PART)
            yield from _exporters(asker, settings)
            known = {broker.id for broker in read_placement(asker, settings.patience_seconds).brokers}
            for fault in unknown_ids(replace(settings, hosts={}), CapacitySettings(), known):
                yield missing(PART, "metrics", fault)
            collector = Collector(asker, replace(settings, prometheus=None, client_samples=()), capacity)
            try:
                yield from _sampled(collector.sample(), capacity)
            finally:
                collector.close()
    except (ConnectError, Unanswered) as error:
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
def _asker(connection: KafkaConnection) -> Iterator[Asker]:
    with open_admin(connection) as admin:
        yield AdminAsker(admin)


def _exporters(asker: Asker, settings: CollectSettings) -> Iterator[Finding]:
    """The metrics of each broker, and which of those that we need are among them."""
    subject, without = (
        "metrics",
        "CPU is not levelled, and bytes are estimated by the growth of logs and by offsets",
    )
    if settings.prometheus is None:
        yield missing(PART, subject, f"no endpoint is set: {without}", "set collect.prometheus")
        return
    try:
        known = endpoints(settings.prometheus)
    except SettingsError as error:
        yield broken(PART, subject, str(error))
        return
    patience = settings.patience_seconds
    brokers = [one for one in read_placement(asker, patience).brokers if not one.fenced]
    urls = {one.id: known.url(one) for one in brokers}

    def asked(url: str | None) -> str:
        if url is None:
            return f"no endpoint is set for it: {without}; add it to collect.prometheus"
        try:
            counters = scrape(url, patience).counters.broker
        except Unanswered as error:
            return f"{_without_password(str(error))}: {without}; start it, or correct collect.prometheus"
        lacking = [name for name in CPU + TRAFFIC if name not in counters]
        if not lacking:
            return ""
        lost = ["CPU is not levelled"] * any(name in CPU for name in lacking)
        lost += ["bytes of all brokers are estimated"] * any(name in TRAFFIC for name in lacking)
        return f"{_without_password(url)} answers without {', '.join(lacking)}: {' and '.join(lost)}; {RULES}"

    with ThreadPoolExecutor(THREADS) as pool:
        faults = dict(zip(urls, pool.map(asked, urls.values()), strict=True))
    sound = [broker for broker, fault in faults.items() if not fault]
    if sound:
        yield fine(
            PART, subject, f"{len(sound)} of {len(faults)} endpoints answer with CPU and byte counters"
        )
    for broker, fault in faults.items():
        if fault:
            yield missing(PART, f"metrics of broker {broker}", fault)


def _without_password(text: str) -> str:
    return re.sub(r"//[^/@\s]*@", "//", text)


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
