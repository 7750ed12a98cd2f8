"""Observations of a Pulsar cluster: who owns what, where bundles end, how well brokers are."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from trimtab.act.bundles.port import SWITCHES, BrokerBalancing, BundlesObservation, BundleTraffic
from trimtab.act.execution.port import Failure, PortError
from trimtab.systems.pulsar.admin import PulsarAdmin, PulsarAdminError
from trimtab.systems.pulsar.traffic import bundle_traffic

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
        """See `BundlesPort.observe`."""
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
        """See `BundlesPort.read_balancing`."""
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
        """See `BundlesPort.traffic`."""
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
            told = self._admin.get_json(f"clusters/{name}", dict[str, Any])
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


def _found(bounds: Mapping[str, "tuple[int, ...] | PulsarAdminError"]) -> dict[str, tuple[int, ...]]:
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
