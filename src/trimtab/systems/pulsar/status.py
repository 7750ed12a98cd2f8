"""The live status of a Pulsar cluster, and the findings of `trimtab check`; neither needs a lake.

Findings tell of addresses, rights and capacities. Nothing is changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from trimtab.model.bundles.policies import is_heartbeat_or_sla
from trimtab.model.errors import Finding, broken, fine, missing
from trimtab.model.load import FloatArray
from trimtab.observe.collect.sampler import RequestError, TickSample
from trimtab.observe.collect.settings import (
    CapacitySettings,
    CollectSettings,
    KnownCapacity,
    capacity_findings,
)
from trimtab.observe.lake.columns import Row
from trimtab.observe.lake.status import signed_deviation
from trimtab.systems.pulsar.admin import PulsarAdmin, PulsarAdminError
from trimtab.systems.pulsar.collector import CAPACITY, PulsarCollector
from trimtab.systems.pulsar.connection import PulsarConnection
from trimtab.systems.pulsar.reports import TRAFFIC
from trimtab_common.errors import SettingsError

FIGURES: Final = ("traffic bytes per second", "messages per second", "bundles", "sessions")
"""Figures shown of each broker: in and out together; bundles and sessions without those of its own upkeep."""

SWITCHES: Final = {
    "shedding": "loadBalancerSheddingEnabled",
    "automatic splits": "loadBalancerAutoBundleSplitEnabled",
}
SHEDDER: Final = "loadBalancerLoadSheddingStrategy"


@dataclass(frozen=True)
class PulsarBroker:
    """One broker; `version` and `settings` are empty where they are not told."""

    name: str
    state: str
    is_leader: bool
    version: str = ""
    settings: Mapping[str, str] | None = None


@dataclass(frozen=True, eq=False)
class PulsarStatus:
    """Ownership and traffic of one cluster.

    Attributes
    ----------
    brokers
        In the order of their names.
    values
        `FIGURES`, shape (brokers, 4); NaN for what a broker did not tell.
    deviation
        Signed, of the mean over the brokers that told, shape (brokers, 4).
    load_manager
        `modular` or `extensible`; None where no broker tells.
    bundles, unowned, topics
        How many bundles the namespaces have, how many of these nobody owns, and how many topics there are.
    problems
        As `TickSample.problems`.
    """

    cluster: str
    brokers: tuple[PulsarBroker, ...]
    values: FloatArray
    deviation: FloatArray
    load_manager: str | None
    bundles: int
    unowned: int
    topics: int
    problems: tuple[str, ...]

    def setting(self, name: str) -> tuple[str, ...]:
        """The values that a setting of Pulsar's has in the brokers, each once; several if they disagree."""
        told = (broker.settings.get(name) for broker in self.brokers if broker.settings is not None)
        return tuple(dict.fromkeys(value for value in told if value is not None))

    @property
    def versions(self) -> tuple[str, ...]:
        """Distinct versions of Pulsar among the brokers."""
        return tuple(dict.fromkeys(broker.version for broker in self.brokers if broker.version))


def read_status(connection: PulsarConnection, settings: CollectSettings) -> PulsarStatus:
    """Ownership and traffic now, read directly from the brokers.

    Raises
    ------
    ObserveError
        If no broker tells what the cluster is.
    """
    with (
        PulsarAdmin(connection) as admin,
        closing(PulsarCollector(admin, settings, CapacitySettings(), listen=False)) as collector,
    ):
        return pulsar_status(collector.sample(), admin)


def pulsar_status(sample: TickSample, admin: PulsarAdmin) -> PulsarStatus:
    """Ownership and traffic by one tick's samples, and how the brokers are set."""
    told = sorted(sample.rows_of("pulsar_broker"), key=lambda row: str(row["owner"]))
    with ThreadPoolExecutor(max(1, min(64, len(told)))) as pool:
        brokers = tuple(pool.map(lambda row: _broker(admin, row), told))
    place = {broker.name: row for row, broker in enumerate(brokers)}
    values = np.zeros((len(brokers), len(FIGURES)))
    for row, one in enumerate(told):
        values[row, 0] = sum(one.get(name, np.nan) for name in TRAFFIC if "throughput" in name)
        values[row, 1] = sum(one.get(name, np.nan) for name in TRAFFIC if "rate" in name)
    owned: Counter[str] = Counter()
    for one in sample.rows_of("pulsar_bundle"):
        if is_heartbeat_or_sla(one["bundle"].rpartition("/")[0]) or "position" not in one:
            continue
        owned[one["bundle"]] += 1
        values[place[one["owner"]], 2] += 1
        values[place[one["owner"]], 3] += one.get("producers", 0) + one.get("consumers", 0)
    values[[row for row, one in enumerate(told) if one["broker_state"] != "alive"]] = np.nan
    bundles = {
        f"{one['namespace']}/0x{low:08x}_0x{high:08x}"
        for one in sample.rows_of("pulsar_namespace")
        for low, high in zip(one["boundaries"], one["boundaries"][1:], strict=False)
    }
    return PulsarStatus(
        sample.cluster,
        brokers,
        values,
        signed_deviation(values),
        next((one["load_manager"] for one in told if "load_manager" in one), None),
        len(bundles),
        len(bundles - owned.keys()),
        sum(1 for _ in sample.rows_of("pulsar_topic")),
        sample.problems,
    )


def _broker(admin: PulsarAdmin, row: Row) -> PulsarBroker:
    """A broker with its version and settings, which few roles may see."""
    name, state, leads = row["owner"], row["broker_state"], bool(row.get("is_leader"))
    version, settings = "", None
    if state == "alive":
        try:
            version = admin.version(name)
            settings = admin.runtime_configuration(name)
        except PulsarAdminError:
            pass
    return PulsarBroker(name, state, leads, version, settings)


PART: Final = "Pulsar"
THREADS: Final = 32
NOT_BALANCED: Final = "it is not balanced; where none is known at all, brokers are compared with one another"


def cluster_findings(
    connection: PulsarConnection, settings: CollectSettings, capacity: CapacitySettings
) -> Iterator[Finding]:
    """Findings on a cluster; where no broker answers, those on its addresses alone."""
    found = list(_addresses(connection))
    yield from found
    if not any(one.grade == "fine" for one in found):
        return
    with PulsarAdmin(connection) as admin:
        yield from _rights(admin)
        try:
            with closing(PulsarCollector(admin, settings, capacity, listen=False)) as collector:
                yield from _sampled(collector.sample())
        except (PulsarAdminError, RequestError) as error:
            yield broken(PART, "samples", str(error))


def _addresses(connection: PulsarConnection) -> Iterator[Finding]:
    """Each address by itself; one that answers is enough to begin with."""
    how = "TLS" if connection.uses_tls else "plain HTTP"
    how += (
        " with a token" if connection.token else " with a certificate" if connection.tls_certificate else ""
    )

    def requested(address: str) -> tuple[str | None, str | None]:
        try:
            with PulsarAdmin(replace(connection, admin=(address,))) as admin:
                return admin.version(), None
        except (PulsarAdminError, SettingsError) as error:
            return None, str(error)

    with ThreadPoolExecutor(THREADS) as pool:
        answers = list(pool.map(requested, connection.admin))
    grade = missing if any(version for version, _ in answers) else broken
    for address, (version, fault) in zip(connection.admin, answers, strict=True):
        told = f"Pulsar {version} answers over {how}"
        yield fine(PART, address, told) if fault is None else grade(PART, address, fault)


def _rights(admin: PulsarAdmin) -> Iterator[Finding]:
    """Reads that Pulsar keeps for superusers: what `apply` needs is theirs too."""
    reads: tuple[tuple[str, Callable[[], object]], ...] = (
        ("tenants", admin.tenants),
        ("dynamic settings", admin.configuration_overrides),
        ("isolation policies", admin.cluster_policies),
    )
    refused = []
    for name, read in reads:
        try:
            read()
        except PulsarAdminError as error:
            refused.append(name)
            yield missing(PART, f"right to read {name}", str(error))
    if not refused:
        yield fine(PART, "rights", f"{', '.join(name for name, _ in reads)} may be read, as by a superuser")


def _sampled(sample: TickSample) -> Iterator[Finding]:
    """One tick as the collector takes it: who answers, and what each can carry."""
    for problem in sample.problems:
        yield missing(PART, "samples", problem)
    if not sample.problems:
        yield fine(PART, "samples", f"{sample.answered} of {sample.brokers} brokers tell owners and load")
    alive = [row for row in sample.rows_of("pulsar_broker") if row["broker_state"] == "alive"]
    for column, setting in CAPACITY.items():
        resource = column.partition("_capacity")[0]
        known = KnownCapacity(resource, setting, {row["owner"]: _origin(row, column) for row in alive})
        yield from capacity_findings(PART, known, NOT_BALANCED)


def _origin(row: Row, column: str) -> str | None:
    if row.get(column) is not None:
        return "declared"
    limit = row.get(f"{column.partition('_capacity')[0]}_limit")
    return "told by its report" if limit is not None and limit > 0 else None
