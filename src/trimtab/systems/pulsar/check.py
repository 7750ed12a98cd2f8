"""A Pulsar cluster checked before it is sampled: addresses, rights, capacities. Nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from trimtab.model.finding import Finding, broken, fine, missing
from trimtab.observe.collect.sampler import RequestError, TickSample
from trimtab.observe.collect.settings import KnownCapacity, capacity_findings
from trimtab.systems.pulsar.admin import PulsarAdmin, PulsarAdminError
from trimtab.systems.pulsar.collector import PulsarCollector
from trimtab.systems.pulsar.rows import CAPACITY
from trimtab_common.errors import SettingsError

if TYPE_CHECKING:
    from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
    from trimtab.systems.pulsar.settings import PulsarConnection

PART: Final = "Pulsar"
THREADS: Final = 32
NOT_BALANCED: Final = "it is not balanced; where none is known at all, brokers are compared with one another"


def check(
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


def _origin(row: dict[str, Any], column: str) -> str | None:
    if row.get(column) is not None:
        return "declared"
    limit = row.get(f"{column.partition('_capacity')[0]}_limit")
    return "told by its report" if limit is not None and limit > 0 else None
