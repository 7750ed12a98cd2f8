"""Small clusters as snapshot documents, whole and drawn by Hypothesis, and wishes for a plan of them."""

import json
from typing import Any

from hypothesis import strategies as st

STATES = ["alive"] * 9 + ["new", "dead", "draining", "no_leaders", "no_new_replicas"]
DIR_STATES = ["online"] * 6 + ["offline", "cordoned"]
GOALS = [
    *("rack", "host", "theta", "epsilon", "log_dirs", "preferred_order", "host_load", "replica_numbers"),
    *("leader_numbers", "potential_network_out", "topic_replicas", "topic_leaders"),
]
READINGS = {
    "trim": ("trim", []),
    "role_aware, literal": ("role_aware", ["replicas.role_aware.literal=true"]),
    "role_aware, as meant": ("role_aware", ['replicas.role_aware.repairs=["signed_deviation"]']),
    "role_aware, repaired": ("role_aware", []),
}
"""Every strategy, and the readings of the source's own, as settings."""


@st.composite
def cluster_documents(draw: st.DrawFn) -> dict[str, Any]:
    """A sound snapshot of 2 to 9 brokers: uneven racks and hosts, all states, disks from empty to overfull.

    Sizes are small whole numbers, so that what is found shrinks to something one can work out by hand.
    """
    brokers = draw(st.lists(_brokers(), min_size=2, max_size=9))
    for index, broker in enumerate(brokers):
        broker["id"] = index + 1
    if all(broker["state"] in ("dead", "draining") for broker in brokers):
        brokers[0]["state"] = "alive"
    rows = draw(st.lists(_partitions(brokers), min_size=1, max_size=14))
    return {
        "format": "trimtab/replicas-snapshot/1",
        "cluster": "drawn",
        "taken_at": "2026-11-21T05:00:00Z",
        "brokers": brokers,
        **draw(_declared_hosts(brokers)),
        "partitions": [
            {"topic": f"t{number % 3}", "partition": number, **row} for number, row in enumerate(rows)
        ],
        "quality": {"valid_share": 1.0, "oldest_sample_seconds": 60, "cpu": "measured"},
    }


@st.composite
def _declared_hosts(draw: st.DrawFn, brokers: list[dict[str, Any]]) -> dict[str, Any]:
    """For half of the clusters, disks and network interfaces of some hosts."""
    names = sorted({broker["host"] for broker in brokers if broker["host"]})
    if not names or draw(st.booleans()):
        return {}
    rooms = {"disk": st.integers(10, 120), "network_out": st.integers(50, 200)}
    rows = []
    for name in draw(st.lists(st.sampled_from(names), unique=True, min_size=1)):
        told = draw(st.lists(st.sampled_from(sorted(rooms)), unique=True, min_size=1))
        rows.append({"name": name, "capacity": {one: draw(rooms[one]) for one in told}})
    return {"x_hosts": rows}


@st.composite
def _brokers(draw: st.DrawFn) -> dict[str, Any]:
    capacity = {"cpu": 10, "disk": draw(st.integers(10, 80)), "network_in": 100, "network_out": 100}
    if left_out := draw(st.sampled_from([None] * 12 + list(capacity))):
        del capacity[left_out]
    paths = [f"/data{number}" for number in range(draw(st.sampled_from([0, 0, 1, 2])))]
    return {
        "id": 0,
        "state": draw(st.sampled_from(STATES)),
        "rack": draw(st.sampled_from(["r1", "r2", "r3", "r1", "r2", None])),
        "host": draw(st.sampled_from([None, None, "h1", "h2", "h3"])),
        "capacity": capacity,
        "log_dirs": [
            {
                "path": path,
                "state": draw(st.sampled_from(DIR_STATES)),
                **draw(_dir_capacities(capacity, paths)),
            }
            for path in paths
        ],
    }


def _dir_capacities(capacity: dict[str, Any], paths: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Mostly the broker's disk in equal parts; not known for some."""
    known = [{"capacity": capacity["disk"] / len(paths)}] * 3 if "disk" in capacity else []
    return st.sampled_from([{}, *known])


@st.composite
def _partitions(draw: st.DrawFn, brokers: list[dict[str, Any]]) -> dict[str, Any]:
    paths = {broker["id"]: [one["path"] for one in broker["log_dirs"]] for broker in brokers}
    dead = {broker["id"] for broker in brokers if broker["state"] == "dead"}
    held = draw(
        st.lists(st.sampled_from(sorted(paths)), unique=True, min_size=1, max_size=min(3, len(brokers)))
    )
    leader = draw(st.sampled_from([held[0]] * 6 + [*held, None]))
    lagging = draw(st.sampled_from([None] * 6 + held))
    disk, into, out = (draw(st.integers(0, most)) for most in (30, 20, 30))
    load = {"disk": disk, "network_in": into, "network_out": out, "cpu": (into + out) / 20}
    row: dict[str, Any] = {
        "replicas": held,
        "leader": leader,
        "in_sync": [broker for broker in held if broker == leader or broker not in (lagging, *dead)],
        "leader_load": load,
        "follower_load": {**load, "network_out": 0, "cpu": into / 20},
    }
    if draw(st.booleans()):
        row["log_dirs"] = [draw(st.sampled_from(paths[broker] or [None])) for broker in held]
    return row


@st.composite
def wishes(draw: st.DrawFn, document: dict[str, Any]) -> list[str]:
    """Settings of a plan of this cluster, as `--set` takes them; mostly few."""
    ids = [broker["id"] for broker in document["brokers"]]
    living = [broker["id"] for broker in document["brokers"] if broker["state"] != "dead"]
    asked: dict[str, Any] = {}
    if draw(st.booleans()):
        asked["theta.disk"] = draw(st.sampled_from([0.3, 0.5, 0.7, 0.9, 1.0]))
    if "x_hosts" in document and draw(st.booleans()):
        asked["goals"] = ["rack", "host", "theta", "epsilon", "log_dirs", "host_load"]
    if draw(st.booleans()):
        asked["epsilon"] = draw(st.sampled_from([0.02, 0.3, 0.9]))
    kind = draw(
        st.sampled_from(
            [None] * 6
            + [
                "drain",
                "demote",
                "add",
                "fix_offline_replicas",
                "excluded",
                "few",
                "goals",
                "intra_broker_only",
            ]
        )
    )
    if kind in ("drain", "demote", "add"):
        few = st.lists(st.sampled_from(living if kind == "add" else ids), unique=True, min_size=1, max_size=2)
        asked[kind] = draw(few)
    elif kind in ("fix_offline_replicas", "intra_broker_only"):
        asked[kind] = True
    elif kind == "excluded":
        for use in ("leaders", "replicas"):
            asked[f"excluded_brokers_for_{use}"] = draw(
                st.lists(st.sampled_from(ids), unique=True, max_size=3)
            )
        asked["excluded_topics"] = draw(st.sampled_from([[], ["t1*"]]))
    elif kind == "few":
        asked["max_moves"] = draw(st.integers(0, 5))
        asked["max_bytes"] = draw(st.integers(0, 60))
    elif kind == "goals":
        asked["goals"] = draw(
            st.lists(
                st.sampled_from(GOALS),
                unique=True,
            )
        )
        if draw(st.integers(0, 3)) == 0:
            asked["goals"].append("min_leaders_per_topic")
            asked["min_leaders_per_topic"] = draw(st.sampled_from([{"t0": 1}, {"t*": 1, "t0": 2}]))
    return [f"replicas.{key}={_toml(value)}" for key, value in asked.items()]


def _toml(value: Any) -> str:
    if not isinstance(value, dict):
        return json.dumps(value)
    return "{" + ", ".join(f"{json.dumps(name)} = {json.dumps(one)}" for name, one in value.items()) + "}"
