"""A Pulsar cluster behind `trimtab.act.bundles.port.BundlesPort`."""

from collections.abc import Callable, Collection, Mapping
from functools import partial

from trimtab.act.bundles.observation import Answers, Balancing, BundlesSeen
from trimtab.act.execution.failure import Failure
from trimtab.act.pulsar import claims
from trimtab.act.pulsar.failures import failure_of, port_error
from trimtab.act.pulsar.looks import THREADS, Looks
from trimtab.act.pulsar.probes import probe_topic
from trimtab.connect.pulsar import PulsarAdmin, PulsarAdminError
from trimtab.model.bundle_range import BundleRange, parse_bundle, topic_hash

BOUNDARIES_GIVEN = "specified_positions_divide"


class PulsarAdminPort:
    """An adapter for one admin client.

    Parameters
    ----------
    admin
        The client; closing it is the caller's.
    clock
        Seconds since 1970; stamps the looks.
    threads
        How many brokers are asked at a time.
    """

    claim_rights = "use a token of a superuser"

    def __init__(self, admin: PulsarAdmin, clock: Callable[[], float], threads: int = THREADS) -> None:
        self._admin = admin
        self._looks = Looks(admin, clock, threads)

    def observe(
        self, namespaces: Collection[str], destinations: Collection[str] = (), *, deep: bool = False
    ) -> BundlesSeen:
        """See `BundlesPort.observe`."""
        return self._looks.observe(namespaces, destinations, deep=deep)

    def read_balancing(self, *, everywhere: bool = False) -> Balancing:
        """See `BundlesPort.read_balancing`."""
        return self._looks.balancing(everywhere=everywhere)

    def write_balancing(self, values: Mapping[str, str | None]) -> Mapping[str, Failure]:
        """See `BundlesPort.write_balancing`."""
        failures = {}
        for name, value in values.items():
            try:
                if value is None:
                    self._admin.delete_configuration(name)
                else:
                    self._admin.set_configuration(name, value)
            except PulsarAdminError as error:
                failures[name] = failure_of(error)
        return failures

    def unload(self, targets: Mapping[str, str]) -> Answers:
        """See `BundlesPort.unload`."""
        answers: dict[str, Failure | None] = {}
        for bundle, target in targets.items():
            answers[bundle] = self._told(partial(self._admin.unload, bundle, target))
        return answers

    def split(self, bundle: str, boundaries: Collection[int]) -> Failure | None:
        """See `BundlesPort.split`."""
        return self._told(lambda: self._admin.split(bundle, BOUNDARIES_GIVEN, tuple(boundaries)))

    def look_up(self, bundles: Collection[str]) -> Answers:
        """See `BundlesPort.look_up`."""
        answers: dict[str, Failure | None] = {}
        for bundle in bundles:
            answers[bundle] = self._told(partial(self._look_up, parse_bundle(bundle)))
        return answers

    def _look_up(self, bundle: BundleRange) -> None:
        """Look up a topic of the bundle; where it has none, one that does not exist.

        A cluster that creates no topics by itself answers 404 to the latter and assigns nothing.
        """
        topics = self._admin.topics(bundle.namespace)
        topic = next((name for name in topics if bundle.holds(topic_hash(name))), None)
        self._admin.topic_owner(topic or probe_topic(bundle))

    def read_claims(self) -> frozenset[str]:
        """See `ClaimPort.read_claims`."""
        try:
            return claims.read_claims(self._admin)
        except PulsarAdminError as error:
            raise port_error(error) from error

    def write_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        """See `ClaimPort.write_claims`."""
        try:
            claims.write_claims(self._admin, added, removed)
        except PulsarAdminError as error:
            raise port_error(error) from error

    def _told(self, call: Callable[[], object]) -> Failure | None:
        try:
            call()
        except PulsarAdminError as error:
            return failure_of(error)
        return None
