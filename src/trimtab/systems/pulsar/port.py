"""A Pulsar cluster behind `trimtab.act.bundles.port.BundlesPort`."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import count
from typing import Final

from trimtab.act.bundles.port import Answers
from trimtab.act.execution.port import Failure
from trimtab.model.bundles.range import BundleRange, parse_bundle, topic_hash
from trimtab.systems.pulsar.admin import PulsarAdmin, PulsarAdminError, PulsarConnection
from trimtab.systems.pulsar.observer import MISSING, PulsarObserver, failing, failure_of

EXPLICIT_BOUNDARIES: Final = "specified_positions_divide"
CLAIMS: Final = "pulsar/system"
CLAIM: Final = "trimtab.lease."
"""Claims are properties of a namespace that every cluster has. A property is named by its text, so that two
trimtabs do not overwrite each other; Pulsar compares versions, so that neither gets lost (decision 0014)."""


class PulsarAdminPort(PulsarObserver):
    """An adapter for one admin client; closing that is the caller's."""

    claim_rights = "use a token of a superuser"

    def write_balancing(self, values: Mapping[str, str | None]) -> Mapping[str, Failure]:
        """See `BundlesPort.write_balancing`."""
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
        """See `BundlesPort.unload`."""
        return {b: self._failure(partial(self._admin.unload, b, target)) for b, target in targets.items()}

    def split(self, bundle: str, boundaries: Collection[int]) -> Failure | None:
        """See `BundlesPort.split`."""
        return self._failure(lambda: self._admin.split(bundle, EXPLICIT_BOUNDARIES, tuple(boundaries)))

    def lookup(self, bundles: Collection[str]) -> Answers:
        """See `BundlesPort.lookup`."""
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
        """See `ClaimPort.read_claims`."""
        found = self._admin.get_json(f"namespaces/{CLAIMS}/properties", dict[str, str])
        return frozenset(value for name, value in found.items() if name.startswith(CLAIM))

    @failing()
    def write_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        """See `ClaimPort.write_claims`."""
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
