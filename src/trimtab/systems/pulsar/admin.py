"""Pulsar's admin API, a method a call, on an own thin client (there is no Python one that knows brokers).

Paths and answers are those of Pulsar 4.0 and 4.2, `org.apache.pulsar.broker.admin.v2` and
`org.apache.pulsar.broker.lookup.v2`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from trimtab.model.bundles.policies import BundlePolicies
from trimtab.systems.pulsar.connection import PulsarConnection
from trimtab.systems.pulsar.http import (
    BundleBoundaries,
    FailureDomain,
    IsolationPolicyData,
    LeaderBroker,
    Lookup,
    OwnedBundle,
    PulsarAdminError,
    PulsarHttp,
    PulsarRequest,
    Query,
    Response,
    path_part,
    path_parts,
    topic_path,
)

if TYPE_CHECKING:
    import httpx

__all__ = ["PulsarAdmin", "PulsarAdminError", "PulsarConnection"]

T = TypeVar("T")


class PulsarAdmin:
    """Asks and changes one Pulsar cluster; may be used from many threads.

    Every method raises `PulsarAdminError`, and nothing else, for a request that is not answered as asked. A
    change is sent to another broker only if the first one cannot have got it.

    Parameters
    ----------
    connection
        Where and as whom.
    transport
        Instead of the network, for tests.

    Raises
    ------
    SettingsError
        If a TLS file cannot be used.
    """

    def __init__(self, connection: PulsarConnection, transport: httpx.BaseTransport | None = None) -> None:
        self.connection = connection
        self._http = PulsarHttp(connection, transport)
        self._cluster = connection.cluster
        self._web_urls: dict[str, str] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> PulsarAdmin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections to brokers."""
        self._http.close()

    def get(self, path: str, query: Query = (), base: str | None = None) -> Response:
        """Ask a path below `/admin/v2`."""
        return self._http.request(PulsarRequest("GET", f"/admin/v2/{path}", query), base)

    def get_json(self, path: str, kind: type[T], query: Query = (), base: str | None = None) -> T:
        """Ask a path, and read the JSON that comes back as a type."""
        return self.get(path, query, base).decoded(path, kind)

    def change(self, method: str, path: str, query: Query = (), body: bytes | None = None) -> None:
        """Ask for a change, which comes back without a word."""
        self._http.request(PulsarRequest(method, f"/admin/v2/{path}", query, body, changes=True))

    def cluster(self) -> str:
        """The cluster's name: as set, or as its brokers tell."""
        if self._cluster is None:
            # "global" stands in the list of old installations and has no brokers.
            names = [name for name in self.get_json("clusters", list[str]) if name != "global"]
            # Clusters that replicate to one another know each other's names.
            self._cluster = names[0] if len(names) == 1 else self.runtime_configuration()["clusterName"]
        return self._cluster

    def service_url(self) -> str:
        """The address where clients of the binary protocol begin: as set, or as the metadata tell."""
        if self.connection.service_url is not None:
            return self.connection.service_url
        path = f"clusters/{path_part(self.cluster())}"
        told = self.get_json(path, dict[str, object])
        names = ["brokerServiceUrlTls"] * self.connection.uses_tls + ["brokerServiceUrl"]
        found = next((str(told[name]) for name in names if told.get(name)), None)
        if found is None:
            raise PulsarAdminError(
                f"cluster {self.cluster()} does not tell the address of its binary protocol: set "
                "service_url, like pulsar://broker1:6650",
                reason="no brokerServiceUrl",
            )
        return found

    def brokers(self) -> tuple[str, ...]:
        """Ids (`host:port`) of the brokers; one that died is listed until its session ends."""
        return self.get_json("brokers", tuple[str, ...])

    def leader(self) -> str:
        """Id of the broker that decides about placement."""
        told = self.get_json("brokers/leaderBroker", LeaderBroker)
        return told.broker_id or urlsplit(told.service_url).netloc

    def web_url(self, broker: str) -> str:
        """A broker's web address, with TLS where we use it.

        A broker with both ports is known by the plain one; where it listens with TLS, it tells by where
        requests for it are redirected to.
        """
        if not self.connection.uses_tls:
            return f"http://{broker}"
        with self._lock:
            found = self._web_urls.get(broker)
        if found is None:
            named = f"https://{broker}" in self.connection.admin
            found = f"https://{broker}" if named else self.get(self._owned_by(broker)).base
            with self._lock:
                self._web_urls[broker] = found
        return found

    def owned_bundles(self, broker: str) -> dict[str, bool]:
        """Bundle -> whether a broker serves it, or is just about to unload it; asking assigns nothing.

        The broker's own heartbeat namespaces are among them.
        """
        # Without TLS the id is the address; with it, whoever is asked sends us there.
        base = None if self.connection.uses_tls else f"http://{broker}"
        told = self.get_json(self._owned_by(broker), dict[str, OwnedBundle], base=base)
        return {bundle: one.is_active for bundle, one in told.items()}

    def _owned_by(self, broker: str) -> str:
        return f"brokers/{path_part(self.cluster())}/{path_part(broker)}/ownedNamespaces"

    def load_report(self, broker: str) -> dict[str, object]:
        """A broker's own load report (`LocalBrokerData`), as it stands, NaN and all.

        Refused with 500 by the extensible load manager.
        """
        return self._statistics("broker-stats/load-report", broker)

    def topic_stats(self, broker: str) -> dict[str, object]:
        """Statistics of a broker's topics, as they stand: by namespace, range, `persistent` or not, topic."""
        return self._statistics("broker-stats/topics", broker)

    def _statistics(self, path: str, broker: str) -> dict[str, object]:
        return self.get(path, base=self.web_url(broker)).statistics(path)

    def metrics(self, broker: str) -> str:
        """A broker's metrics, in the text format of Prometheus."""
        answer = self._http.request(PulsarRequest("GET", "/metrics/"), self.web_url(broker))
        return answer.body.decode("utf-8", "replace")

    def is_healthy(self, broker: str) -> bool:
        """True if a broker can write and read a message of its own, which needs its storage too."""
        return self.get("brokers/health", base=self.web_url(broker)).body.strip() == b"ok"

    def version(self, broker: str | None = None) -> str:
        """Pulsar's version, of one broker or of any."""
        return self.get("brokers/version", base=None if broker is None else self.web_url(broker)).text

    def configuration_overrides(self) -> dict[str, str]:
        """Settings that were changed while brokers run, and stay so after a restart."""
        return self.get_json("brokers/configuration/values", dict[str, str])

    def runtime_configuration(self, broker: str | None = None) -> dict[str, str]:
        """All settings as they are in force, in one broker or in any."""
        base = None if broker is None else self.web_url(broker)
        told = self.get_json("brokers/configuration/runtime", dict[str, object], base=base)
        return {name: "" if value is None else str(value) for name, value in told.items()}

    def set_configuration(self, name: str, value: str) -> None:
        """Change a setting in all brokers. 412 if it is not dynamic; values are not checked by Pulsar."""
        self.change("POST", f"brokers/configuration/{path_part(name)}/{path_part(value)}")

    def delete_configuration(self, name: str) -> None:
        """Give a setting back to what the brokers' own files say."""
        self.change("DELETE", f"brokers/configuration/{path_part(name)}")

    def tenants(self) -> tuple[str, ...]:
        """List the names of all tenants."""
        return self.get_json("tenants", tuple[str, ...])

    def namespaces(self, tenant: str) -> tuple[str, ...]:
        """`tenant/namespace` of a tenant's namespaces."""
        return self.get_json(f"namespaces/{path_part(tenant)}", tuple[str, ...])

    def boundaries(self, namespace: str) -> tuple[int, ...]:
        """Boundaries of a namespace's bundles, as told."""
        path = f"namespaces/{path_parts(namespace)}/bundles"
        answer = self.get(path)
        try:
            return tuple(int(one, 16) for one in answer.decoded(path, BundleBoundaries).boundaries)
        except ValueError:
            raise answer.unreadable(path, "boundaries are not hexadecimal") from None

    def anti_affinity_group(self, namespace: str) -> str | None:
        """The group whose namespaces are kept apart; None if it is in none."""
        return self.get(f"namespaces/{path_parts(namespace)}/antiAffinity").text or None

    def cluster_policies(self) -> BundlePolicies:
        """Isolation policies and failure domains; groups of namespaces are asked one by one."""
        cluster = path_part(self.cluster())
        found = self._if_any(f"clusters/{cluster}/namespaceIsolationPolicies", dict[str, IsolationPolicyData])
        domains = self._if_any(f"clusters/{cluster}/failureDomains", dict[str, FailureDomain])
        return BundlePolicies(
            isolation=tuple(one.policy() for one in found.values()),
            failure_domains={broker: name for name, domain in domains.items() for broker in domain.brokers},
        )

    def _if_any(self, path: str, kind: type[dict[str, T]]) -> dict[str, T]:
        """Policies by name; Pulsar answers 404 as long as none was ever set."""
        try:
            return self.get_json(path, kind)
        except PulsarAdminError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return {}

    def topics(self, namespace: str) -> tuple[str, ...]:
        """Persistent topics of a namespace."""
        return self.get_json(f"persistent/{path_parts(namespace)}", tuple[str, ...])

    def topic_owner(self, topic: str) -> str:
        """Id of the broker that serves a topic. **Assigns** its bundle if nobody owns it.

        Parameters
        ----------
        topic
            Its full name, `persistent://tenant/namespace/topic`.
        """
        path = f"/lookup/v2/topic/{topic_path(topic)}"
        answer = self._http.request(PulsarRequest("GET", path))
        told = answer.decoded(path, Lookup)
        # A broker's id is the address of its plain web service where it has one.
        web = told.http_url or told.http_url_tls
        if web is None:
            raise answer.unreadable(path, "no httpUrl")
        return urlsplit(web).netloc

    def unload(self, bundle: str, destination: str | None = None) -> None:
        """Make the owner let go of a bundle. An answer is no proof: look at who owns it.

        Parameters
        ----------
        destination
            Who is to take it, by id; 409 if no such broker is up. None: whom the leader chooses.
        """
        query = () if destination is None else (("destinationBroker", destination),)
        self.change("PUT", f"namespaces/{path_parts(bundle)}/unload", query)

    def split(self, bundle: str, algorithm: str, boundaries: Sequence[int] = ()) -> None:
        """Split a bundle. An answer is no proof: where no boundary fits, nothing happens.

        Parameters
        ----------
        bundle
            Its key; the range may be `LARGEST` or `HOT`.
        algorithm
            By its name in Pulsar.
        boundaries
            Of `specified_positions_divide`; the extensible load manager takes one only.
        """
        query = (("unload", "false"), ("splitAlgorithmName", algorithm))
        body = json.dumps(list(boundaries)).encode() if boundaries else None
        self.change("PUT", f"namespaces/{path_parts(bundle)}/split", query, body)
