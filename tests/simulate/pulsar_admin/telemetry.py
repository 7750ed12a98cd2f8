"""Load reports and metrics of a simulated Pulsar's brokers, in the words of Pulsar's own answers."""

from __future__ import annotations

from typing import Any, Final

from simulate.pulsar_admin.cluster import EXTENSIBLE, MODULAR, AdminCluster
from trimtab.model.bundles.range import BundleRange, parse_bundle

MESSAGE_BYTES: Final = 512
_TRAFFIC: Final = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")


def load_report(cluster: AdminCluster, broker: str) -> dict[str, Any]:
    """`LocalBrokerData`; a broker's `alter` may make of it what it likes."""
    stats = {bundle: _bundle(cluster, parse_bundle(bundle)) for bundle in owned(cluster, broker)}
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
        topics = {name: _topic(cluster, name) for name in _topics(cluster, bundle)}
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
        for name in _topics(cluster, parse_bundle(key))
    }


def owned(cluster: AdminCluster, broker: str) -> list[str]:
    """The bundles that a broker owns, its heartbeat bundle first."""
    own = f"pulsar/{broker}/0x00000000_0xffffffff"
    return [own, *(bundle for bundle, owner in cluster.owners.items() if owner == broker)]


def _bundle(cluster: AdminCluster, bundle: BundleRange) -> dict[str, Any]:
    topics = [_topic(cluster, name) for name in _topics(cluster, bundle)]
    return {
        **{name: sum(one[name] for one in topics) for name in _TRAFFIC},
        "consumerCount": sum(len(one["subscriptions"]["s"]["consumers"]) for one in topics),
        "producerCount": sum(len(one["publishers"]) for one in topics),
        "topics": len(topics),
        "cacheSize": 0,
    }


def _topics(cluster: AdminCluster, bundle: BundleRange) -> list[str]:
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
