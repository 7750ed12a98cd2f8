"""What the admin API tells of a whole cluster: brokers, namespaces, topics, policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from trimtab.connect.pulsar_answers import Leader, TopicOwner
from trimtab.connect.pulsar_brokers import PulsarBrokerCalls
from trimtab.connect.pulsar_calls import bundle_path, namespace_path, path_part, range_of, topic_path
from trimtab.connect.pulsar_errors import PulsarAdminError
from trimtab.connect.pulsar_wire import Request
from trimtab.model.bundle_policies import BundlePolicies, IsolationPolicy

T = TypeVar("T")


class _Boundaries(msgspec.Struct):
    boundaries: list[str]


class _Leader(msgspec.Struct, rename="camel"):
    service_url: str
    broker_id: str | None = None


class _Lookup(msgspec.Struct, rename="camel"):
    broker_url: str | None = None
    broker_url_tls: str | None = None
    http_url: str | None = None
    http_url_tls: str | None = None


class _Isolation(msgspec.Struct):
    namespaces: list[str] = []
    primary: list[str] = []
    secondary: list[str] = []
    auto_failover_policy: dict[str, Any] = {}


class _Domain(msgspec.Struct):
    brokers: list[str] = []


class PulsarClusterCalls(PulsarBrokerCalls):
    """Calls that any broker answers, or sends on to who can."""

    def service_url(self) -> str:
        """Where clients of the binary protocol begin: as set, or as the cluster's metadata tell."""
        if self.connection.service_url is not None:
            return self.connection.service_url
        path = f"clusters/{path_part(self.cluster())}"
        told = self.get_json(path, dict[str, Any])
        names = (
            ("brokerServiceUrlTls", "brokerServiceUrl") if self.connection.uses_tls else ("brokerServiceUrl",)
        )
        found = next((str(told[name]) for name in names if told.get(name)), None)
        if found is None:
            raise PulsarAdminError(
                f"cluster {self.cluster()} does not tell the address of its binary protocol: set "
                "pulsar.service_url, like pulsar://broker1:6650",
                call=f"GET {path}",
                url=self.connection.admin[0],
                reason="no brokerServiceUrl",
            )
        return found

    def brokers(self) -> tuple[str, ...]:
        """Ids (`host:port`) of the brokers; one that died is listed until its session ends."""
        return tuple(self.get_json("brokers", list[str]))

    def leader(self) -> Leader:
        """The broker that decides about placement."""
        told = self.get_json("brokers/leaderBroker", _Leader)
        return Leader(told.broker_id or urlsplit(told.service_url).netloc, told.service_url)

    def tenants(self) -> tuple[str, ...]:
        """Names of all tenants."""
        return tuple(self.get_json("tenants", list[str]))

    def namespaces(self, tenant: str) -> tuple[str, ...]:
        """`tenant/namespace` of a tenant's namespaces."""
        return tuple(self.get_json(f"namespaces/{path_part(tenant)}", list[str]))

    def boundaries(self, namespace: str) -> tuple[int, ...]:
        """Boundaries of a namespace's bundles, as told."""
        path = f"namespaces/{namespace_path(namespace)}/bundles"
        answer = self.get(path)
        told = self.decoded(answer, path, _Boundaries)
        try:
            return tuple(int(one, 16) for one in told.boundaries)
        except ValueError:
            raise self.unreadable(answer, path, "boundaries are not hexadecimal") from None

    def policies(self, namespace: str) -> dict[str, Any]:
        """What is laid down for a namespace, in Pulsar's own names (`Policies`)."""
        return self.get_json(f"namespaces/{namespace_path(namespace)}", dict[str, Any])

    def anti_affinity_group(self, namespace: str) -> str | None:
        """The group whose namespaces are kept apart; None if it is in none."""
        answer = self.get(f"namespaces/{namespace_path(namespace)}/antiAffinity")
        text = answer.body.decode("utf-8", "replace").strip().strip('"')
        return text or None

    def cluster_policies(self) -> BundlePolicies:
        """Isolation policies and failure domains; groups of namespaces are asked one by one."""
        cluster = path_part(self.cluster())
        found = self._if_any(f"clusters/{cluster}/namespaceIsolationPolicies", dict[str, _Isolation])
        domains = self._if_any(f"clusters/{cluster}/failureDomains", dict[str, _Domain])
        return BundlePolicies(
            isolation=tuple(_isolation(policy) for policy in found.values()),
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

    def topics(self, namespace: str, bundle: str | None = None) -> tuple[str, ...]:
        """Persistent topics of a namespace, or of one of its bundles (empty if nobody owns it)."""
        query = () if bundle is None else (("bundle", range_of(bundle)),)
        return tuple(self.get_json(f"persistent/{namespace_path(namespace)}", list[str], query))

    def topic_hashes(self, bundle: str, topics: Sequence[str] = ()) -> dict[str, int]:
        """Hash of every topic in a bundle that somebody owns (412 if nobody does); system topics too."""
        query = tuple(("topics", topic) for topic in topics)
        path = f"namespaces/{bundle_path(bundle)}/topicHashPositions"
        told = self.get_json(path, dict[str, Any], query)
        hashes = told.get("topicHashPositions") or {}
        return {str(topic): int(position) for topic, position in hashes.items()}

    def topic_owner(self, topic: str) -> TopicOwner:
        """Where a topic is served. **Assigns** its bundle if nobody owns it.

        Parameters
        ----------
        topic
            Its full name, `persistent://tenant/namespace/topic`.
        """
        path = f"/lookup/v2/topic/{topic_path(topic)}"
        answer = self.ask(Request("GET", path))
        told = self.decoded(answer, path, _Lookup)
        # A broker's id is the address of its plain web service where it has one.
        web = told.http_url or told.http_url_tls
        if web is None:
            raise self.unreadable(answer, path, "no httpUrl")
        tls = self.connection.uses_tls
        return TopicOwner(
            broker=urlsplit(web).netloc,
            web_url=(told.http_url_tls if tls else None) or web,
            service_url=(told.broker_url_tls if tls else None) or told.broker_url or "",
        )

    def bundle_of_topic(self, topic: str) -> str:
        """The bundle that a topic falls into; assigns nothing."""
        answer = self.ask(Request("GET", f"/lookup/v2/topic/{topic_path(topic)}/bundle"))
        _, _, rest = topic.partition("://")
        namespace = "/".join(rest.split("/")[:2])
        return f"{namespace}/{answer.body.decode('utf-8', 'replace').strip()}"


def _isolation(policy: _Isolation) -> IsolationPolicy:
    parameters: Mapping[str, Any] = policy.auto_failover_policy.get("parameters") or {}
    try:
        fewest = int(parameters.get("min_limit", 1))
    except ValueError:
        fewest = 1
    return IsolationPolicy(tuple(policy.namespaces), tuple(policy.primary), tuple(policy.secondary), fewest)
