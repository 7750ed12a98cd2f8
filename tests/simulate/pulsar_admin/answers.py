"""Answers of a simulated admin API of Pulsar: policies, bundles, load reports, statistics and metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

from simulate.pulsar_admin.cluster import DEFAULTS, EXTENSIBLE, MODULAR, AdminCluster
from trimtab.model.bundles.snapshot import BundleRange, parse_bundle, topic_hash

MESSAGE_BYTES: Final = 512
_TRAFFIC: Final = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")


def load_report(cluster: AdminCluster, broker: str) -> dict[str, Any]:
    """`LocalBrokerData`; a broker's `alter` may make of it what it likes."""
    stats = {bundle: _bundle_stats(cluster, parse_bundle(bundle)) for bundle in owned(cluster, broker)}
    node = cluster.brokers[broker]
    report: dict[str, Any] = {
        "webServiceUrl": f"http://{broker}",
        "cpu": {"usage": node.cpu[0], "limit": node.cpu[1]},
        "memory": {"usage": 80.0, "limit": 247.5},
        "directMemory": {"usage": 8.0, "limit": 128.0},
        "bandwidthIn": {"usage": 0.1, "limit": 1e6},
        "bandwidthOut": {"usage": 0.2, "limit": 1e6},
        **{name: sum(one[name] for one in stats.values()) for name in _TRAFFIC},
        "lastUpdate": int(cluster.now * 1000),
        "lastStats": stats,
        "bundles": list(stats),
        "brokerVersionString": "4.2.4",
        "loadManagerClassName": EXTENSIBLE if cluster.extensible else MODULAR,
        "loadReportType": "LocalBrokerData",
    }
    return report if node.alter is None else node.alter(report)


def topic_stats(cluster: AdminCluster, broker: str) -> dict[str, Any]:
    """Answer to `broker-stats/topics`."""
    told: dict[str, Any] = {}
    for key in owned(cluster, broker):
        bundle = parse_bundle(key)
        topics = {name: _topic(cluster, name) for name in _topics_in_bundle(cluster, bundle)}
        if topics:
            told.setdefault(bundle.namespace, {})[key.rpartition("/")[2]] = {"persistent": topics}
    node = cluster.brokers[broker]
    return told if node.alter_topics is None else node.alter_topics(told)


def metrics(cluster: AdminCluster, broker: str) -> str:
    """Answer to `/metrics/`: the few series of load."""
    node, report = cluster.brokers[broker], load_report(cluster, broker)
    label = f'cluster="{cluster.name}"'
    lines = [
        "# TYPE pulsar_lb_cpu_usage gauge",
        f'pulsar_lb_cpu_usage{{{label}, broker="127.0.0.1", metric="loadBalancing"}} '
        f"{100 * node.cpu[0] / node.cpu[1]}",
        f"pulsar_broker_rate_in{{{label}}} {report['msgRateIn']}",
        f"pulsar_broker_rate_out{{{label}}} {report['msgRateOut']}",
        f"pulsar_broker_throughput_in{{{label}}} {report['msgThroughputIn']}",
        f"pulsar_broker_throughput_out{{{label}}} {report['msgThroughputOut']}",
    ]
    for name, one in topics_of(cluster, broker).items():
        labels = f'{label},namespace="t/n",topic="{name}"'
        lines += [
            f"pulsar_rate_in{{{labels}}} {one['msgRateIn']}",
            f"pulsar_rate_out{{{labels}}} {one['msgRateOut']}",
            f"pulsar_throughput_in{{{labels}}} {one['msgThroughputIn']}",
            f"pulsar_throughput_out{{{labels}}} {one['msgThroughputOut']}",
            f"pulsar_producers_count{{{labels}}} {len(one['publishers'])}",
        ]
    return "\n".join(lines) + "\n"


def topics_of(cluster: AdminCluster, broker: str) -> dict[str, dict[str, Any]]:
    """Statistics of a broker's topics, by name."""
    return {
        name: _topic(cluster, name)
        for key in owned(cluster, broker)
        for name in _topics_in_bundle(cluster, parse_bundle(key))
    }


def owned(cluster: AdminCluster, broker: str) -> list[str]:
    """The bundles that a broker owns, its heartbeat bundle first."""
    own = f"pulsar/{broker}/0x00000000_0xffffffff"
    return [own, *(bundle for bundle, owner in cluster.owners.items() if owner == broker)]


def _bundle_stats(cluster: AdminCluster, bundle: BundleRange) -> dict[str, Any]:
    topics = [_topic(cluster, name) for name in _topics_in_bundle(cluster, bundle)]
    return {
        **{name: sum(one[name] for one in topics) for name in _TRAFFIC},
        "consumerCount": sum(len(one["subscriptions"]["s"]["consumers"]) for one in topics),
        "producerCount": sum(len(one["publishers"]) for one in topics),
        "topics": len(topics),
        "cacheSize": 0,
    }


def _topics_in_bundle(cluster: AdminCluster, bundle: BundleRange) -> list[str]:
    return list(cluster.topics_in(bundle)) if bundle.namespace in cluster.namespaces else []


def _topic(cluster: AdminCluster, name: str) -> dict[str, Any]:
    into, out = cluster.rates.get(name, (0.0, 0.0))
    sessions = cluster.namespaces["/".join(name.split("//")[1].split("/")[:2])].topics[name]
    producers = (sessions + 1) // 2
    return {
        "publishers": [{"producerId": number} for number in range(producers)],
        "subscriptions": {
            "s": {"consumers": [{} for _ in range(sessions - producers)], "msgBacklog": 3, "msgRateOut": out}
        },
        "msgRateIn": into,
        "msgRateOut": out,
        "msgThroughputIn": into * MESSAGE_BYTES,
        "msgThroughputOut": out * MESSAGE_BYTES,
        "storageSize": 1024,
    }


BOUNDARIES_GIVEN = "specified_positions_divide"
ALGORITHMS = (
    "range_equally_divide",
    "topic_count_equally_divide",
    BOUNDARIES_GIVEN,
    "flow_or_qps_equally_divide",
)


@dataclass(frozen=True)
class Asked:
    """A request as one broker gets it."""

    broker: str
    method: str
    path: str
    query: Mapping[str, str]
    body: bytes
    token: str | None = None


@dataclass(frozen=True)
class Reply:
    """The answer of a broker; `location` makes it a redirect."""

    status: int
    body: bytes = b""
    location: str | None = None


def json_reply(value: Any) -> Reply:
    """A value as JSON."""
    return Reply(200, json.dumps(value).encode())


def no(status: int, reason: str) -> Reply:
    """A refusal in Pulsar's form."""
    return Reply(status, json.dumps({"reason": reason}).encode())


def to(broker: str, asked: Asked, **query: str) -> Reply:
    """A redirect to a broker, with another query."""
    text = f"?{urlencode(query)}" if query else ""
    return Reply(307, location=f"http://{broker}{quote(asked.path, safe='/:')}{text}")


def answer(cluster: AdminCluster, asked: Asked) -> Reply:
    """The answer of a broker that is up."""
    if cluster.token is not None and asked.token != cluster.token:
        return no(401, "HTTP 401 Unauthorized") if asked.token is None else no(403, "HTTP 403 Forbidden")
    cluster.settle()
    for method, pattern, handler in ROUTES:
        found = re.fullmatch(pattern, asked.path)
        if found is not None and method == asked.method:
            return handler(cluster, asked, *map(unquote, found.groups()))
    return no(404, f"there is no {asked.method} {asked.path}")


def _clusters(cluster: AdminCluster, asked: Asked) -> Reply:
    return json_reply([cluster.name])


def _cluster(cluster: AdminCluster, asked: Asked, name: str) -> Reply:
    if name != cluster.name:
        return no(404, "Cluster does not exist")
    first = next(iter(cluster.brokers))
    return json_reply({"serviceUrl": f"http://{first}", "brokerServiceUrl": f"pulsar://{first}"})


def _brokers(cluster: AdminCluster, asked: Asked, *_: str) -> Reply:
    return json_reply(sorted(cluster.registered()))


def _leader(cluster: AdminCluster, asked: Asked) -> Reply:
    leader = cluster.leader
    if leader is None:
        return no(404, "Couldn't find leader broker")
    return json_reply({"serviceUrl": f"http://{leader}", "brokerId": leader})


def _health(cluster: AdminCluster, asked: Asked) -> Reply:
    if not cluster.brokers[asked.broker].healthy:
        return no(500, "health check timed out")
    return Reply(200, b"ok")


def _version(cluster: AdminCluster, asked: Asked) -> Reply:
    return Reply(200, b"4.2.4")


def _owned(cluster: AdminCluster, asked: Asked, _: str, broker: str) -> Reply:
    if broker not in cluster.registered():
        return no(404, f"Broker id '{broker}' not found in available brokers.")
    if broker != asked.broker:
        return to(broker, asked)
    status = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
    own = {f"pulsar/{broker}/0x00000000_0xffffffff": status}
    mine = {bundle: status for bundle, owner in cluster.owners.items() if owner == broker}
    return json_reply({**own, **mine})


def _dynamic(cluster: AdminCluster, asked: Asked) -> Reply:
    return json_reply(sorted(DEFAULTS))


def _values(cluster: AdminCluster, asked: Asked) -> Reply:
    return json_reply(cluster.overrides)


def _runtime(cluster: AdminCluster, asked: Asked) -> Reply:
    values = {name: cluster.switch(asked.broker, name) for name in DEFAULTS}
    manager = EXTENSIBLE if cluster.extensible else MODULAR
    return json_reply({**values, "clusterName": cluster.name, "loadManagerClassName": manager})


def _set(cluster: AdminCluster, asked: Asked, name: str, value: str) -> Reply:
    if name not in DEFAULTS:
        return no(412, "Can't update non-dynamic configuration")
    cluster.overrides[name] = value
    cluster.note("admin", "set", name, value)
    return Reply(200)


def _unset(cluster: AdminCluster, asked: Asked, name: str) -> Reply:
    cluster.overrides.pop(name, None)
    cluster.note("admin", "unset", name)
    return Reply(200)


def _tenants(cluster: AdminCluster, asked: Asked) -> Reply:
    return json_reply(sorted({namespace.split("/")[0] for namespace in cluster.namespaces}))


def _namespaces(cluster: AdminCluster, asked: Asked, tenant: str) -> Reply:
    return json_reply(sorted(one for one in cluster.namespaces if one.startswith(f"{tenant}/")))


def _bundles(cluster: AdminCluster, asked: Asked, namespace: str) -> Reply:
    if namespace not in cluster.namespaces:
        return no(404, "Namespace does not exist")
    boundaries = cluster.namespaces[namespace].boundaries
    return json_reply(
        {"boundaries": [f"0x{one:08x}" for one in boundaries], "numBundles": len(boundaries) - 1}
    )


def _properties(cluster: AdminCluster, asked: Asked, namespace: str) -> Reply:
    if namespace not in cluster.namespaces:
        return no(404, "Namespace does not exist")
    return json_reply(cluster.namespaces[namespace].properties)


def _add_properties(cluster: AdminCluster, asked: Asked, namespace: str) -> Reply:
    if namespace not in cluster.namespaces:
        return no(404, "Namespace does not exist")
    cluster.namespaces[namespace].properties.update(json.loads(asked.body))
    return Reply(204)


def _remove_property(cluster: AdminCluster, asked: Asked, namespace: str, name: str) -> Reply:
    if namespace not in cluster.namespaces:
        return no(404, "Namespace does not exist")
    value = cluster.namespaces[namespace].properties.pop(name, None)
    return json_reply(value)


def _topics(cluster: AdminCluster, asked: Asked, namespace: str) -> Reply:
    if namespace not in cluster.namespaces:
        return no(404, "Namespace does not exist")
    names = cluster.namespaces[namespace].topics
    part = asked.query.get("bundle")
    if part is not None:
        bundle = cluster.bundle_of(namespace, f"{namespace}/{part}")
        owned = bundle is not None and bundle.key in cluster.owners
        return json_reply(sorted(cluster.topics_in(bundle)) if bundle is not None and owned else [])
    return json_reply(sorted(names))


def _bundle(cluster: AdminCluster, namespace: str, part: str) -> BundleRange | Reply:
    if namespace not in cluster.namespaces:
        return no(404, "Namespace does not exist")
    found = cluster.bundle_of(namespace, f"{namespace}/{part}")
    return found or no(412, f"Bundle range {part} is not in namespace {namespace}")


def _hashes(cluster: AdminCluster, asked: Asked, namespace: str, part: str) -> Reply:
    bundle = _bundle(cluster, namespace, part)
    if isinstance(bundle, Reply):
        return bundle
    owner = cluster.owners.get(bundle.key)
    if owner is None:
        return no(412, "Failed to find ownership for ServiceUnit")
    if owner != asked.broker:
        return to(owner, asked, **dict(asked.query))
    hashes = {topic: topic_hash(topic) for topic in cluster.topics_in(bundle)}
    return json_reply({"namespace": namespace, "bundle": part, "topicHashPositions": hashes})


def _unload(cluster: AdminCluster, asked: Asked, namespace: str, part: str) -> Reply:
    bundle = _bundle(cluster, namespace, part)
    if isinstance(bundle, Reply):
        return bundle
    target = asked.query.get("destinationBroker")
    if target is not None and target not in cluster.registered():
        return no(409, f"Not an active broker:{target}")
    owner = cluster.owners.get(bundle.key)
    leader = cluster.leader
    if target is not None and not cluster.extensible:
        if asked.broker != leader and leader is not None:
            return to(leader, asked, authoritative="false", destinationBroker=target)
        cluster.hints[bundle.key] = target
        if owner is None:
            return Reply(204)
        if owner != asked.broker:
            return to(owner, asked, authoritative="true")
    if owner is None:
        return Reply(204)
    if owner != asked.broker:
        return to(owner, asked, **dict(asked.query))
    if cluster.extensible and target is not None:
        if target == owner:
            return no(500, "Unload destination is the owner")
        cluster.hand_over(bundle.key, target, "admin")
    else:
        cluster.release(bundle.key, "admin")
    return Reply(204)


def _split(cluster: AdminCluster, asked: Asked, namespace: str, part: str) -> Reply:
    bundle = _bundle(cluster, namespace, part)
    if isinstance(bundle, Reply):
        return bundle
    algorithm = asked.query.get("splitAlgorithmName", ALGORITHMS[0])
    if algorithm not in ALGORITHMS:
        return no(412, f"Unsupported algorithms: {algorithm}, available: {list(ALGORITHMS)}")
    owner = cluster.owners.get(bundle.key) or cluster.assign(bundle.key, "admin")
    if owner is None:
        return no(500, "no broker")
    if owner != asked.broker:
        return to(owner, asked, **dict(asked.query))
    boundaries = [bundle.low + (bundle.high - bundle.low) // 2]
    if algorithm == BOUNDARIES_GIVEN:
        boundaries = json.loads(asked.body) if asked.body else []
        if not boundaries:
            return no(412, "With specified_positions_divide split algorithm, splitBoundaries must be set")
        if cluster.extensible and len(boundaries) > 1:
            return no(412, "Split bundle failed due to invalid request")
        inside = [one for one in boundaries if bundle.low < one < bundle.high]
        boundaries = inside if len(cluster.topics_in(bundle)) > 1 else []
        if cluster.extensible and not boundaries:
            return no(500, f"Message: Bundle {bundle.key} not found under namespace")
    if boundaries:
        cluster.cut(bundle, boundaries, "admin")
    return Reply(204)


def _lookup(cluster: AdminCluster, asked: Asked, topic: str) -> Reply:
    namespace = "/".join(topic.split("/")[:2])
    if namespace not in cluster.namespaces:
        return no(404, "Namespace not found")
    hashed = topic_hash(f"persistent://{topic}")
    bundle = next(one for one in cluster.bundles_of(namespace) if one.holds(hashed))
    owner = cluster.owners.get(bundle.key)
    if owner is None:
        leader = cluster.leader
        if leader is not None and leader != asked.broker:
            return to(leader, asked)
        owner = cluster.assign(bundle.key, "lookup")
        if owner is None:
            return no(503, "no broker is ready")
    return json_reply({"brokerUrl": f"pulsar://{owner}", "httpUrl": f"http://{owner}", "nativeUrl": ""})


def _report(cluster: AdminCluster, asked: Asked) -> Reply:
    if cluster.extensible:
        return no(500, "Message: null")
    return json_reply(load_report(cluster, asked.broker))


def _stats(cluster: AdminCluster, asked: Asked) -> Reply:
    return json_reply(topic_stats(cluster, asked.broker))


def _metrics(cluster: AdminCluster, asked: Asked) -> Reply:
    return Reply(200, metrics(cluster, asked.broker).encode())


def _group(cluster: AdminCluster, asked: Asked, namespace: str) -> Reply:
    if namespace not in cluster.namespaces:
        return no(404, "Namespace does not exist")
    return Reply(200, (cluster.namespaces[namespace].group or "").encode())


def _isolation(cluster: AdminCluster, asked: Asked, name: str) -> Reply:
    if not cluster.isolation:
        return no(404, f"NamespaceIsolationPolicies for cluster {name} does not exist")
    return json_reply(cluster.isolation)


def _domains(cluster: AdminCluster, asked: Asked, name: str) -> Reply:
    return json_reply({})


_NS = r"([^/]+/[^/]+)"
_PART = r"(0x[0-9a-f]{8}_0x[0-9a-f]{8})"
ROUTES: tuple[tuple[str, str, Callable[..., Reply]], ...] = (
    ("GET", "/admin/v2/clusters", _clusters),
    ("GET", "/admin/v2/clusters/([^/]+)", _cluster),
    ("GET", "/admin/v2/brokers", _brokers),
    ("GET", "/admin/v2/brokers/leaderBroker", _leader),
    ("GET", "/admin/v2/brokers/health", _health),
    ("GET", "/admin/v2/brokers/version", _version),
    ("GET", "/admin/v2/brokers/configuration", _dynamic),
    ("GET", "/admin/v2/brokers/configuration/values", _values),
    ("GET", "/admin/v2/brokers/configuration/runtime", _runtime),
    ("POST", "/admin/v2/brokers/configuration/([^/]+)/([^/]+)", _set),
    ("DELETE", "/admin/v2/brokers/configuration/([^/]+)", _unset),
    ("GET", "/admin/v2/brokers/([^/]+)/([^/]+)/ownedNamespaces", _owned),
    ("GET", "/admin/v2/brokers/([^/]+)", _brokers),
    ("GET", "/admin/v2/broker-stats/load-report", _report),
    ("GET", "/admin/v2/broker-stats/topics", _stats),
    ("GET", "/metrics/", _metrics),
    ("GET", "/admin/v2/clusters/([^/]+)/namespaceIsolationPolicies", _isolation),
    ("GET", "/admin/v2/clusters/([^/]+)/failureDomains", _domains),
    ("GET", "/admin/v2/tenants", _tenants),
    ("GET", f"/admin/v2/namespaces/{_NS}/antiAffinity", _group),
    ("GET", "/admin/v2/namespaces/([^/]+)", _namespaces),
    ("GET", f"/admin/v2/namespaces/{_NS}/bundles", _bundles),
    ("GET", f"/admin/v2/namespaces/{_NS}/properties", _properties),
    ("PUT", f"/admin/v2/namespaces/{_NS}/properties", _add_properties),
    ("DELETE", f"/admin/v2/namespaces/{_NS}/property/([^/]+)", _remove_property),
    ("GET", f"/admin/v2/namespaces/{_NS}/{_PART}/topicHashPositions", _hashes),
    ("PUT", f"/admin/v2/namespaces/{_NS}/{_PART}/unload", _unload),
    ("PUT", f"/admin/v2/namespaces/{_NS}/{_PART}/split", _split),
    ("GET", f"/admin/v2/persistent/{_NS}", _topics),
    ("GET", "/lookup/v2/topic/persistent/(.+)", _lookup),
)
