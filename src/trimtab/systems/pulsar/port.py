"""A Pulsar cluster behind `trimtab.act.bundles.port.BundlesPort`: observations and commands.

An observation says who owns what, where bundles end, and how well brokers are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import count
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from trimtab.act.bundles.port import SWITCHES, Answers, BrokerBalancing, BundlesObservation, BundleTraffic
from trimtab.act.execution.port import Failure, PortError
from trimtab.model.bundles.snapshot import BundleRange, parse_bundle, topic_hash
from trimtab.systems.pulsar.admin import PulsarAdmin, PulsarAdminError
from trimtab.systems.pulsar.connection import PulsarConnection

FIGURES: Final = ("msgThroughputIn", "msgThroughputOut", "msgRateIn", "msgRateOut")


def bundle_traffic(stats: Mapping[str, object]) -> dict[str, BundleTraffic]:
    """Traffic by bundle; of a bundle of which any figure cannot be read there is none.

    Parameters
    ----------
    stats
        By namespace, range, `persistent` or not, and topic, as `/admin/v2/broker-stats/topics` has it.
    """
    found = {}
    for namespace, ranges in _members(stats):
        for limits, domains in _members(ranges):
            values = [
                [_number(topic, name) for name in FIGURES]
                for _, topics in _members(domains)
                for _, topic in _members(topics)
            ]
            bytes_in, bytes_out, rate_in, rate_out = (
                map(sum, zip(*values, strict=True)) if values else [0.0] * 4
            )
            if math.isfinite(bytes_in + bytes_out + rate_in + rate_out):
                found[f"{namespace}/{limits}"] = BundleTraffic(bytes_in, bytes_out, rate_in + rate_out)
    return found


def _members(value: object) -> Iterator[tuple[str, Any]]:
    return iter(value.items()) if isinstance(value, Mapping) else iter(())


def _number(topic: object, name: str) -> float:
    value = topic.get(name) if isinstance(topic, Mapping) else None
    return float(value) if isinstance(value, int | float) and value >= 0 else math.nan


THREADS: Final = 16
MISSING: Final = 404
NO_ANSWER: Final = "no answer"

T = TypeVar("T")


def failure_of(error: PulsarAdminError) -> Failure:
    """The meaning of a refused or unanswered request; the code is the HTTP status."""
    code = NO_ANSWER if error.status is None else str(error.status)
    # Pulsar says 500 for what passes (a bundle being unloaded) and for what does not alike.
    return Failure(code, str(error), transient=error.transient or code == "500")


@contextmanager
def failing() -> Iterator[None]:
    """An error of the client inside is the failure of a whole call."""
    try:
        yield
    except PulsarAdminError as error:
        raise PortError(failure_of(error)) from error


class PulsarObserver:
    """Looks through one admin client; broken brokers do not lose the others.

    Parameters
    ----------
    clock
        Seconds since 1970; stamps the looks.
    threads
        How many brokers are asked at a time; 1 asks them in order.
    """

    def __init__(self, admin: PulsarAdmin, clock: Callable[[], float], threads: int = THREADS) -> None:
        self._admin = admin
        self._clock = clock
        self._threads = threads
        self._cluster: str | None = None
        self._leader: str | None = None
        self._extensible = False

    @failing()
    def observe(
        self, namespaces: Collection[str], destinations: Collection[str] = (), *, deep: bool = False
    ) -> BundlesObservation:
        """Read all owners, and the boundaries of namespaces; assigns nothing."""
        at = self._clock()
        cluster = self._cluster_id()
        brokers = frozenset(self._admin.brokers())
        owned = self._each(sorted(brokers), self._admin.owned_bundles)
        silent = {
            b: _failure_reason(error) for b, error in owned.items() if isinstance(error, PulsarAdminError)
        }
        self._raise_if_refused(owned.values())
        owners = {
            bundle: broker
            for broker, bundles in owned.items()
            if not isinstance(bundles, PulsarAdminError)
            for bundle, served in bundles.items()
            if served
        }
        bounds = self._each(sorted(namespaces), self._admin.boundaries)
        overrides, unhealthy = None, None
        if deep:
            overrides = self._overrides()
            self._extensible = self._has_extensible()
            unhealthy = self._unhealthy(sorted(set(destinations) & brokers - set(silent)))
            self._leader = self._leaders()
        return BundlesObservation(
            at=at,
            cluster=cluster,
            extensible=self._extensible,
            leader=self._leader,
            brokers=brokers,
            unreachable=silent,
            owners=owners,
            boundaries=_found(bounds),
            overrides=overrides,
            unhealthy=unhealthy,
        )

    @failing()
    def read_balancing(self, *, all_brokers: bool = False) -> BrokerBalancing:
        """Read Pulsar's own balancing switches, cluster-wide or of every broker."""
        overrides = self._overrides()
        if not all_brokers:
            return BrokerBalancing(overrides)
        told = self._each(sorted(self._admin.brokers()), self._admin.runtime_configuration)
        self._raise_if_refused(told.values())
        in_force: dict[str, dict[str, str]] = {
            broker: {switch: values[switch] for switch in SWITCHES if switch in values}
            for broker, values in told.items()
            if not isinstance(values, PulsarAdminError)
        }
        return BrokerBalancing(overrides, in_force)

    def traffic(self) -> Mapping[str, BundleTraffic]:
        """Traffic of bundles as far as brokers report it; never fails."""
        try:
            told = self._each(sorted(self._admin.brokers()), self._admin.topic_stats)
        except PulsarAdminError:
            return {}
        return {
            bundle: found
            for stats in told.values()
            if not isinstance(stats, PulsarAdminError)
            for bundle, found in bundle_traffic(stats).items()
        }

    def _cluster_id(self) -> str:
        """The identity of this cluster: its name and the address that its metadata give."""
        if self._cluster is None:
            name = self._admin.cluster()
            told = self._admin.get_json(f"clusters/{name}", dict[str, object])
            keys = ("serviceUrl", "serviceUrlTls", "brokerServiceUrl", "brokerServiceUrlTls")
            address = next((urlsplit(str(told[key])).netloc for key in keys if told.get(key)), "")
            self._cluster = f"{name}@{address}" if address else name
        return self._cluster

    def _overrides(self) -> dict[str, str]:
        found = self._admin.configuration_overrides()
        return {switch: found[switch] for switch in SWITCHES if switch in found}

    def _has_extensible(self) -> bool:
        manager = self._admin.runtime_configuration().get("loadManagerClassName", "")
        return manager.endswith("ExtensibleLoadManagerImpl")

    def _leaders(self) -> str | None:
        try:
            return self._admin.leader()
        except PulsarAdminError as error:
            if error.status == MISSING:
                return None
            raise

    def _unhealthy(self, brokers: list[str]) -> dict[str, str]:
        told = self._each(brokers, self._admin.is_healthy)
        self._raise_if_refused(told.values())
        return {
            broker: "its health check fails" if answer is False else _failure_reason(answer)
            for broker, answer in told.items()
            if answer is not True
        }

    def _each(self, names: list[str], ask: Callable[[str], T]) -> dict[str, T | PulsarAdminError]:
        def observed(name: str) -> T | PulsarAdminError:
            try:
                return ask(name)
            except PulsarAdminError as error:
                return error

        if self._threads <= 1 or len(names) <= 1:
            return {name: observed(name) for name in names}
        with ThreadPoolExecutor(min(self._threads, len(names))) as pool:
            return dict(zip(names, pool.map(observed, names), strict=True))

    def _raise_if_refused(self, answers: Iterable[object]) -> None:
        """A token that one broker does not take is no broken broker."""
        for answer in answers:
            if isinstance(answer, PulsarAdminError) and answer.status in (401, 403):
                raise answer


def _found(bounds: Mapping[str, tuple[int, ...] | PulsarAdminError]) -> dict[str, tuple[int, ...]]:
    found = {}
    for namespace, answer in bounds.items():
        if isinstance(answer, PulsarAdminError):
            if answer.status != MISSING:
                raise answer
            continue
        found[namespace] = answer
    return found


def _failure_reason(error: object) -> str:
    return error.reason if isinstance(error, PulsarAdminError) else str(error)


EXPLICIT_BOUNDARIES: Final = "specified_positions_divide"
CLAIMS: Final = "pulsar/system"
CLAIM: Final = "trimtab.lease."
"""Claims are properties of a namespace that every cluster has. A property is named by its text, so that two
trimtabs do not overwrite each other; Pulsar compares versions, so that neither gets lost (decision 0014)."""


class PulsarAdminPort(PulsarObserver):
    """An adapter for one admin client; closing that is the caller's."""

    claim_rights = "use a token of a superuser"

    def write_balancing(self, values: Mapping[str, str | None]) -> Mapping[str, Failure]:
        """Set balancing switches of all brokers; returns rejected settings with reasons."""
        admin = self._admin
        told = {
            name: self._failure(
                partial(admin.delete_configuration, name)
                if value is None
                else partial(admin.set_configuration, name, value)
            )
            for name, value in values.items()
        }
        return {name: failure for name, failure in told.items() if failure is not None}

    def unload(self, targets: Mapping[str, str]) -> Answers:
        """Unload bundles (keys), each to its destination broker (value)."""
        return {b: self._failure(partial(self._admin.unload, b, target)) for b, target in targets.items()}

    def split(self, bundle: str, boundaries: Collection[int]) -> Failure | None:
        """Split a bundle; both parts stay with its owner."""
        return self._failure(lambda: self._admin.split(bundle, EXPLICIT_BOUNDARIES, tuple(boundaries)))

    def lookup(self, bundles: Collection[str]) -> Answers:
        """Look up the owners of bundles; Pulsar assigns unowned ones."""
        return {bundle: self._failure(partial(self._lookup, parse_bundle(bundle))) for bundle in bundles}

    def _lookup(self, bundle: BundleRange) -> None:
        """Look up a topic of the bundle; where it has none, one that does not exist.

        A cluster that creates no topics by itself answers 404 to the latter and assigns nothing.
        """
        topics = self._admin.topics(bundle.namespace)
        topic = next((name for name in topics if bundle.holds(topic_hash(name))), None)
        self._admin.topic_owner(topic or probe_topic(bundle))

    @failing()
    def read_claims(self) -> frozenset[str]:
        """Read the claims of all trimtabs in this cluster."""
        found = self._admin.get_json(f"namespaces/{CLAIMS}/properties", dict[str, str])
        return frozenset(value for name, value in found.items() if name.startswith(CLAIM))

    @failing()
    def write_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        """Add and remove claims in one change."""
        if added:
            body = json.dumps({_name(text): text for text in added}).encode()
            self._admin.change("PUT", f"namespaces/{CLAIMS}/properties", body=body)
        for text in removed:
            if text in added:
                continue
            try:
                self._admin.change("DELETE", f"namespaces/{CLAIMS}/property/{_name(text)}")
            except PulsarAdminError as error:
                if error.status != MISSING:
                    raise

    def _failure(self, call: Callable[[], object]) -> Failure | None:
        try:
            call()
        except PulsarAdminError as error:
            return failure_of(error)
        return None


@contextmanager
def open_port(connection: PulsarConnection, clock: Callable[[], float]) -> Iterator[PulsarAdminPort]:
    """A cluster to act on, by a client of its own.

    It asks any of the cluster's brokers, those that were named first: who names one broker, and moves bundles
    off it before it is stopped, would be cut off half way.

    Raises
    ------
    PulsarAdminError
        If no broker that was named answers.
    """
    with PulsarAdmin(connection) as first:
        urls = list(connection.admin)
        for broker in first.brokers():
            with suppress(PulsarAdminError):
                urls.append(first.web_url(broker))
    with PulsarAdmin(replace(connection, admin=tuple(dict.fromkeys(urls)))) as admin:
        yield PulsarAdminPort(admin, clock)


def _name(text: str) -> str:
    return CLAIM + sha256(text.encode()).hexdigest()[:16]


def probe_topic(bundle: BundleRange) -> str:
    """The name of a topic that does not exist and falls into a bundle: looked up, it gives that an owner.

    A lookup assigns an unowned bundle whether the topic exists or not, as long as clients may create topics,
    and creates none itself.
    A bundle of 2^-n of its namespace is hit after 2^n names on average: a second or so at n = 20.
    """
    names = (f"persistent://{bundle.namespace}/trimtab-lookup-{number}" for number in count())
    return next(name for name in names if bundle.holds(topic_hash(name)))
