"""What Kafka's brokers themselves say of their load and of who holds what: asked anew, without trimtab."""

import json
import re
import time
import urllib.request
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from support.chains import deviation, require_deviations
from trimtab.systems.kafka.client import admin_client
from trimtab.systems.kafka.settings import KafkaConnection

_COUNTER = re.compile(
    r"^kafka_server_brokertopicmetrics_(bytesin|bytesout|replicationbytesin)_total (\S+)$", re.M
)
Counters = dict[int, dict[str, float]]


def endpoints_of(table: str) -> dict[int, str]:
    """Addresses of the brokers' counters, out of the table that `sandbox kafka status` prints."""
    rows = [line.split() for line in table.splitlines() if line.endswith("serving")]
    return {int(row[0]): f"http://127.0.0.1:{row[4]}/metrics" for row in rows}


def counters(endpoints: Mapping[int, str]) -> Counters:
    """Bytes so far of every broker, over all topics, and when that was."""
    found: Counters = {}
    for broker, address in endpoints.items():
        text = urllib.request.urlopen(address, timeout=60).read().decode()
        found[broker] = {name: float(value) for name, value in _COUNTER.findall(text)} | {"at": time.time()}
    return found


def traffic_deviation(before: Counters, after: Counters) -> dict[str, dict[int, float]]:
    """Signed deviation of each broker's traffic from the mean between two looks at its counters."""

    def rate(broker: int, *names: str) -> float:
        done = sum(after[broker].get(name, 0.0) - before[broker].get(name, 0.0) for name in names)
        return done / (after[broker]["at"] - before[broker]["at"])

    return {
        "network in": deviation({one: rate(one, "bytesin", "replicationbytesin") for one in after}),
        "network out": deviation({one: rate(one, "bytesout") for one in after}),
    }


def held_bytes(connection: KafkaConnection) -> dict[int, float]:
    """Bytes of the replicas on each broker, by the broker's own log dirs."""
    with closing(admin_client(connection)) as admin:
        brokers = [one["broker_id"] for one in admin.describe_cluster()["brokers"]]
        return {
            broker: float(sum(_sizes(answer) for answer in admin.describe_log_dirs(brokers=[broker])))
            for broker in brokers
        }


def _sizes(answer: Mapping[str, Any]) -> int:
    return sum(
        partition["partition_size"]
        for folder in answer["log_dirs"]
        for topic in folder["topics"]
        for partition in topic["partitions"]
        if not partition["is_future_key"]
    )


def placement(connection: KafkaConnection) -> dict[tuple[str, int], tuple[list[int], int]]:
    """Replicas and leader of every partition, by the cluster's metadata."""
    with closing(admin_client(connection)) as admin:
        return {
            (topic["name"], partition["partition_index"]): (
                partition["replica_nodes"],
                partition["leader_id"],
            )
            for topic in admin.describe_topics()
            for partition in topic["partitions"]
        }


def require_what_brokers_say(
    connection: KafkaConnection,
    printed: str,
    snapshot: Mapping[str, Any],
    traffic: tuple[Counters, Counters],
    plan: Path,
) -> None:
    """The map of `status`, its snapshot and the plan's end are what the brokers themselves show.

    Parameters
    ----------
    printed
        By `status`, after the plan was carried out.
    snapshot
        From which it judged.
    traffic
        Two looks at the brokers' counters, before and after the samples of that snapshot.
    plan
        What was carried out.
    """
    where = placement(connection)
    for change in json.loads(plan.read_text())["assignments"]:
        # Their order is the roles', which a broker may have changed meanwhile: the snapshot tells.
        assert sorted(where[change["topic"], change["partition"]][0]) == sorted(change["after"]), change
    assert {
        (one["topic"], one["partition"]): (one["replicas"], one["leader"]) for one in snapshot["partitions"]
    } == where
    require_deviations(printed, traffic_deviation(*traffic) | {"disk": deviation(held_bytes(connection))})
