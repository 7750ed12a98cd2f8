"""Answers of one broker, and the namespaces of a cluster, as the admin API tells them at one tick."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from trimtab.model.bundles.policies import BundlePolicies, is_heartbeat_or_sla
from trimtab.observe.bundles.pipeline import policies_text
from trimtab.systems.pulsar.admin import PulsarAdmin, PulsarAdminError
from trimtab.systems.pulsar.reports import SampleErrors
from trimtab.systems.pulsar.topics import are_valid_boundaries

Clock = Callable[[], datetime.datetime]

REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


@dataclass(frozen=True)
class PulsarBrokerSample:
    """One broker's answers at one tick, as they came.

    Attributes
    ----------
    reachable
        Whether it answered anything at all.
    load_manager
        `modular`, `extensible`, or None where it cannot be told.
    report, topics, metrics
        None where it was not told or not asked.
    owned
        Keys of the bundles that it owns and serves.
    problems
        What it did not tell, and why, one sentence each.
    """

    broker: str
    read_at: datetime.datetime
    reachable: bool
    load_manager: str | None = None
    report: Mapping[str, Any] | None = None
    owned: tuple[str, ...] | None = None
    topics: Mapping[str, Any] | None = None
    metrics: str | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class BrokerQueries:
    """The questions to a broker.

    Attributes
    ----------
    report
        False for a broker that is known to refuse it, since its load manager has none.
    metrics
        Whether to read metrics where statistics are refused.
    always_metrics
        Whether to read them anyway.
    """

    report: bool = True
    metrics: bool = True
    always_metrics: bool = False


def sample_broker(admin: PulsarAdmin, broker: str, desired: BrokerQueries, now: Clock) -> PulsarBrokerSample:
    """Ask one broker everything that only it knows; never raises for what it will not or cannot say.

    A broker that is silent once is not asked again in this tick, but what it told stays.
    """
    told: dict[str, Any] = {"load_manager": None if desired.report else "extensible"}
    problems: list[str] = []
    reachable = False

    def owned() -> tuple[str, ...]:
        return tuple(bundle for bundle, served in admin.owned_bundles(broker).items() if served)

    calls: list[tuple[str, str, Callable[[], Any]]] = [
        ("owned", "does not tell what it owns", owned),
        ("topics", "gives no statistics of topics", lambda: admin.topic_stats(broker)),
    ]
    if desired.report:
        calls.insert(0, ("report", "gives no load report", lambda: admin.load_report(broker)))
    if desired.always_metrics:
        calls.append(("metrics", "gives no metrics", lambda: admin.metrics(broker)))
    while calls:
        name, lacking, call = calls.pop(0)
        try:
            told[name] = call()
        except PulsarAdminError as error:
            if error.status is None:
                what = "stopped answering" if reachable else "is unreachable"
                problems.append(f"broker {broker} {what}: {error.reason}")
                break
            reachable = True
            if name == "report" and _has_none(admin, broker, error):
                told["load_manager"] = "extensible"
                continue
            problems.append(f"broker {broker} {lacking}: {error}")
            if error.status in REFUSED and desired.metrics and not any(one == "metrics" for one, *_ in calls):
                calls.append(("metrics", "gives no metrics", lambda: admin.metrics(broker)))
        else:
            reachable = True
            if name == "report":
                told["load_manager"] = _manager(told["report"])
    return PulsarBrokerSample(broker, now(), reachable, problems=tuple(problems), **told)


def _has_none(admin: PulsarAdmin, broker: str, error: PulsarAdminError) -> bool:
    """True if a report is missing because the extensible load manager makes none."""
    if error.status != HTTPStatus.INTERNAL_SERVER_ERROR:
        return False
    try:
        return "extensions" in admin.runtime_configuration(broker).get("loadManagerClassName", "")
    except PulsarAdminError as refused:
        # Whoever may not see settings sees it by the answer, which the modular manager does not give.
        return refused.status in REFUSED


def _manager(report: Mapping[str, Any]) -> str:
    return "extensible" if "extensions" in str(report.get("loadManagerClassName")) else "modular"


POLICIES_SECONDS: Final = 300.0
"""Operators change policies rarely; boundaries are asked at every tick."""


@dataclass(frozen=True)
class NamespacesSample:
    """The namespaces of a tick.

    Attributes
    ----------
    boundaries
        By namespace; without those that could not be told or cannot be.
    policies
        Text of the raw column, by namespace.
    problems
        What is missing and why, one sentence each.
    """

    boundaries: Mapping[str, tuple[int, ...]]
    policies: Mapping[str, str]
    problems: tuple[str, ...]


class Namespaces:
    """Asks for namespaces; remembers their policies for a while.

    Parameters
    ----------
    clock
        Seconds, on any clock that does not go back.
    """

    def __init__(
        self, admin: PulsarAdmin, pool: Executor, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._admin = admin
        self._pool = pool
        self._clock = clock
        self._policies = BundlePolicies()
        self._groups: dict[str, str | None] = {}
        self._read_at = -POLICIES_SECONDS
        self._problems: tuple[str, ...] = ()

    def sample(self, observation: Iterable[str], faults: SampleErrors) -> NamespacesSample:
        """All namespaces.

        Parameters
        ----------
        observation
            Namespaces that brokers own bundles of; asked for where the list of all is refused.
        """
        problems = []
        try:
            names = self._names()
        except PulsarAdminError as error:
            names = {name for name in observation if not is_heartbeat_or_sla(name)}
            problems.append(f"namespaces cannot be listed, those with owned bundles are asked: {error}")
        boundaries = {}
        for name, found in zip(
            ordered := sorted(names), self._pool.map(self._boundaries, ordered), strict=True
        ):
            if isinstance(found, PulsarAdminError):
                if found.status != HTTPStatus.NOT_FOUND:  # 404: deleted since it was listed
                    problems.append(f"no boundaries of namespace {name}: {found}")
            elif are_valid_boundaries(found):
                boundaries[name] = found
            else:
                faults.note(f"namespace {name}", "boundaries", "has bundles that overlap or leave topics out")
        self._read_policies(boundaries)
        texts = {name: policies_text(self._policies, self._groups.get(name)) for name in boundaries}
        return NamespacesSample(boundaries, texts, (*problems, *self._problems))

    def _names(self) -> set[str]:
        tenants = self._admin.tenants()
        return {name for names in self._pool.map(self._admin.namespaces, tenants) for name in names}

    def _boundaries(self, namespace: str) -> tuple[int, ...] | PulsarAdminError:
        try:
            return self._admin.boundaries(namespace)
        except PulsarAdminError as error:
            return error

    def _read_policies(self, names: Iterable[str]) -> None:
        now = self._clock()
        stale = now - self._read_at >= POLICIES_SECONDS
        asked = [name for name in names if stale or name not in self._groups]
        if stale:
            self._read_at, self._problems = now, ()
            try:
                self._policies = self._admin.cluster_policies()
            except PulsarAdminError as error:
                self._problems = (f"isolation policies and failure domains cannot be told: {error}",)
        for name, group in zip(asked, self._pool.map(self._group, asked), strict=True):
            if isinstance(group, PulsarAdminError):
                self._problems += (f"no anti-affinity group of namespace {name}: {group}",)
            else:
                self._groups[name] = group

    def _group(self, namespace: str) -> str | PulsarAdminError | None:
        try:
            return self._admin.anti_affinity_group(namespace)
        except PulsarAdminError as error:
            return error
