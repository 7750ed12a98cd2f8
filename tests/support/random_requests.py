"""Random clusters and requests for the balancer `replicas`, as plain JSON values; standard library only.

`cluster(seed)` draws a snapshot document of the published format, `request(seed, document)` the settings of
`[replicas]` for a plan of it. The same seed gives the same cluster and the same request.
"""

import json
import random
from fnmatch import fnmatchcase
from typing import Any

RESOURCES = ("cpu", "disk", "network_in", "network_out")
TOPICS = ("orders", "clicks", "__consumer_offsets", "live-0", "__transaction_state", "audit")
BASE = {"cpu": 8.0, "disk": 1e12, "network_in": 1e8, "network_out": 1.5e8}

Document = dict[str, Any]


def cluster(seed: int) -> Document:
    """A sound snapshot of 1 to 12 brokers.

    Parameters
    ----------
    seed
        Odd: the cluster may be crowded and broken in every way, and most requests are beyond it. Even: it is
        healthy but for a broker or a log dir, and most requests can be met.
    """
    chance = random.Random(f"cluster {seed}")
    wild = seed % 2 == 1
    number = chance.choice([1, 2, 3, 3, 4, 4, 5, 6, 7, 8] if wild else [4, 5, 5, 6, 6, 6, 7, 8, 9, 10, 12])
    brokers = _brokers(chance, number, wild)
    partitions = _partitions(chance, brokers, wild)
    _scale(chance, brokers, partitions, wild)
    return {
        "format": "trimtab/replicas-snapshot/1",
        "cluster": f"random-{seed}",
        "taken_at": "2026-11-21T05:00:00Z",
        "brokers": brokers,
        "partitions": partitions,
        "quality": {"valid_share": 1.0, "oldest_sample_seconds": 60, "cpu": "measured"},
    }


def _brokers(chance: random.Random, number: int, wild: bool) -> list[Document]:
    sizes = chance.choice([[1.0], [1.0], [1.0, 2.0], [0.5, 1.0, 4.0], [0.25, 0.5, 1.0, 2.0]])
    racks = chance.choice([0, 1, 2, 2, 3, 3, 3, 4])
    weights = (
        [1.0] * racks
        if not wild or chance.random() < 0.5
        else [chance.choice([1.0, 2.0, 4.0]) for _ in range(racks)]
    )
    missing_racks = wild and racks > 0 and chance.random() < 0.2
    per_host = chance.choice([1, 1, 1, 1, 2, 3])
    log_dirs = chance.choice([0, 0, 0, 1, 2, 3])
    broken_dirs = log_dirs > 0 and chance.random() < (0.5 if wild else 0.2)
    missing_capacity = wild and chance.random() < 0.12
    brokers: list[Document] = []
    for index, identity in enumerate(sorted(chance.sample(range(50), number))):
        size = chance.choice(sizes)
        broker: Document = {"id": identity, "state": "alive"}
        if per_host > 1:
            broker["host"] = f"h{index // per_host}"
        if racks and not (missing_racks and chance.random() < 0.4):
            even = sum(weights) == racks
            rack = index // per_host % racks if even else chance.choices(range(racks), weights)[0]
            broker["rack"] = f"r{rack}"
        broker["capacity"] = {
            name: amount * size
            for name, amount in BASE.items()
            if not (missing_capacity and chance.random() < 0.3)
        }
        if log_dirs:
            broker["log_dirs"] = _log_dirs(chance, log_dirs, broken_dirs, broker["capacity"].get("disk"))
        brokers.append(broker)
    _states(chance, brokers, wild)
    return brokers


def _log_dirs(chance: random.Random, number: int, broken: bool, disk: float | None) -> list[Document]:
    shares = [chance.choice([1.0, 1.0, 2.0]) for _ in range(number)]
    dirs: list[Document] = []
    for place, share in enumerate(shares):
        state = chance.choice(["online"] * 8 + ["offline", "offline", "cordoned"]) if broken else "online"
        log_dir: Document = {"path": f"/data{place}", "state": state}
        if disk is not None:
            log_dir["capacity"] = float(round(disk * share / sum(shares)))
        dirs.append(log_dir)
    return dirs


def _states(chance: random.Random, brokers: list[Document], wild: bool) -> None:
    """Some brokers that are not simply alive; at least one stays."""
    draw = chance.random()
    changed = chance.sample(brokers, min(len(brokers) - 1, chance.choice([1, 1, 2] if wild else [1])))
    if draw < 0.25:
        states = ["dead"]
    elif draw < 0.33:
        states = ["draining"]
    elif draw < 0.45:
        states = ["new"]
    elif draw < 0.55:
        states = ["dead", "draining", "new", "no_leaders", "no_new_replicas"]
    else:
        return
    for broker in changed:
        broker["state"] = chance.choice(states)


def _partitions(chance: random.Random, brokers: list[Document], wild: bool) -> list[Document]:
    holders = [broker for broker in brokers if broker["state"] != "new"] or brokers
    weight = {broker["id"]: chance.lognormvariate(0, chance.choice([0.1, 0.5, 1.0])) for broker in holders}
    paths = {broker["id"]: [one["path"] for one in broker.get("log_dirs", [])] for broker in brokers}
    offline = {
        (broker["id"], one["path"])
        for broker in brokers
        for one in broker.get("log_dirs", [])
        if one["state"] == "offline"
    }
    dead = {broker["id"] for broker in brokers if broker["state"] == "dead"}
    gaps = chance.choice([0.0, 0.0, 0.1, 0.3] if wild else [0.0, 0.0, 0.0, 0.05])
    leaderless = chance.choice([0.0, 0.0, 0.0, 0.15])
    zero = chance.choice([0.0, 0.0, 0.0, 0.3])
    crowded = chance.choice([0.02, 0.02, 0.3, 1.0] if wild else [0.0, 0.0, 0.3])
    spread = chance.choice([0.2, 0.6, 1.2] if wild else [0.2, 0.4])
    rows: list[Document] = []
    for topic in TOPICS[: chance.randint(1, len(TOPICS))]:
        factor = min(chance.choice([1, 2, 2, 3, 3, 3, 4]), max(1, len(holders) - (0 if wild else 2)))
        for partition in range(chance.randint(1, 9)):
            replicas = _placed(chance, holders, weight, factor, crowded)
            dirs = [chance.choice(paths[broker]) if paths[broker] else None for broker in replicas]
            online = [
                broker
                for broker, path in zip(replicas, dirs, strict=True)
                if broker not in dead and (broker, path) not in offline
            ]
            in_sync = [broker for broker in online if chance.random() >= gaps]
            leader = next(iter(in_sync), None)
            if in_sync and chance.random() < 0.15:
                leader = chance.choice(in_sync)
            if chance.random() < leaderless:
                leader = None
            size = chance.lognormvariate(0, spread)
            rate = 0.0 if chance.random() < zero else chance.lognormvariate(0, spread)
            reads = chance.choice([0, 1, 1, 3]) * rate * chance.uniform(0.5, 1.5)
            row: Document = {"topic": topic, "partition": partition, "replicas": replicas, "leader": leader}
            if gaps or leader is None:
                row["in_sync"] = sorted(in_sync)
            if any(dirs):
                row["log_dirs"] = dirs
            cpu = rate + reads
            row["leader_load"] = {"cpu": cpu, "disk": size, "network_in": rate, "network_out": reads}
            row["follower_load"] = {"cpu": 0.3 * rate, "disk": size, "network_in": rate, "network_out": 0.0}
            rows.append(row)
    return rows


def _placed(
    chance: random.Random, holders: list[Document], weight: dict[int, float], factor: int, crowded: float
) -> list[int]:
    """Brokers of one partition, in different racks but for the share `crowded`."""
    left, chosen, racks = list(holders), list[int](), set[Any]()
    while len(chosen) < factor:
        fresh = [broker for broker in left if broker.get("rack", broker["id"]) not in racks]
        pool = fresh if fresh and chance.random() >= crowded else left
        broker = chance.choices(pool, [weight[one["id"]] for one in pool])[0]
        left.remove(broker)
        chosen.append(broker["id"])
        racks.add(broker.get("rack", broker["id"]))
    return chosen


def _scale(chance: random.Random, brokers: list[Document], partitions: list[Document], wild: bool) -> None:
    """Bring the mean usage of each resource to a drawn level; perhaps one partition is huge."""
    fill = {name: chance.uniform(0.05, 0.6 if wild else 0.35) for name in RESOURCES}
    fill["disk"] = chance.choice(
        [0.1, 0.2, 0.3, 0.4, 0.5, *([0.6, 0.7, 0.78, 0.85, 0.95] if wild else [0.6])]
    )
    if wild and chance.random() < 0.15:
        fill[chance.choice(RESOURCES)] = chance.uniform(0.6, 0.9)
    for name in RESOURCES:
        capacity = sum(broker["capacity"].get(name, 0.0) for broker in brokers if broker["state"] != "dead")
        total = sum(
            row["leader_load"][name] + row["follower_load"][name] * (len(row["replicas"]) - 1)
            for row in partitions
        )
        factor = fill[name] * capacity / total if total else 0.0
        for row in partitions:
            for role in ("leader_load", "follower_load"):
                row[role][name] *= factor
                if name == "disk":
                    row[role][name] = float(round(row[role][name]))
    if wild and chance.random() < 0.12:
        biggest = max(broker["capacity"].get("disk", 1e12) for broker in brokers)
        row = chance.choice(partitions)
        size = float(round(biggest * chance.uniform(0.7, 1.1)))
        row["leader_load"]["disk"] = row["follower_load"]["disk"] = size


VERBS = (
    *("plain",) * 14,
    *("drain",) * 18,
    *("drain several",) * 6,
    *("drain all",) * 1,
    *("demote",) * 14,
    *("demote several",) * 5,
    *("drain, demote",) * 6,
    *("fix_offline_replicas",) * 10,
    *("drain, fix_offline_replicas",) * 3,
    *("demote, fix_offline_replicas",) * 3,
    *("replication_factor up",) * 8,
    *("replication_factor down",) * 4,
    *("intra_broker_only",) * 4,
    *("intra_broker_only, fix_offline_replicas",) * 2,
    *("add",) * 4,
    *("drain, add",) * 4,
)


def request(seed: int, document: Document, known: frozenset[str]) -> Document:
    """Settings of `[replicas]` that differ from their defaults.

    Parameters
    ----------
    known
        Names of settings that exist, of those that not every version has.
    """
    chance = random.Random(f"request {seed}")
    brokers, partitions = document["brokers"], document["partitions"]
    ids = [broker["id"] for broker in brokers]
    verb = chance.choice(VERBS)
    asked: Document = {}
    some = chance.sample(ids, len(ids))
    if "drain" in verb:
        number = {"drain several": chance.randint(2, 3), "drain all": len(ids)}.get(verb, 1)
        asked["drain"] = sorted(some[:number])
    if "demote" in verb:
        number = chance.randint(2, 3) if verb == "demote several" else 1
        asked["demote"] = sorted(set(some[-number:]) - set(asked.get("drain", ())))
    if "add" in verb:
        living = [
            b["id"]
            for b in brokers
            if b["state"] in ("alive", "new") and b["id"] not in asked.get("drain", [])
        ]
        if living:
            asked["add"] = [chance.choice(living)]
    if "fix_offline_replicas" in verb:
        asked["fix_offline_replicas"] = True
    if "intra_broker_only" in verb:
        asked["intra_broker_only"] = True
    topics = sorted({row["topic"] for row in partitions})
    if "replication_factor" in verb:
        name = chance.choice([*topics, "*"])
        has = max(len(row["replicas"]) for row in partitions if fnmatchcase(row["topic"], name))
        more = chance.choice([has + 1, has + 1, has + 2, len(ids) + 1])
        asked["replication_factor"] = {name: more if "up" in verb else max(1, has - 1)}
    alone = "intra_broker_only" in asked or "replication_factor" in asked
    if asked and not alone and "rebalance" in known and chance.random() < 0.25:
        asked["rebalance"] = True
    _exclusions(chance, asked, topics, ids, known)
    _limits(chance, asked, partitions)
    if chance.random() < 0.15:
        asked["theta"] = chance.choice([0.6, 0.7, 0.95, 1.0])
    if chance.random() < 0.15:
        asked["epsilon"] = chance.choice([0.02, 0.3, 0.9])
    if chance.random() < 0.05:
        asked["goals"] = chance.choice(
            [["theta"], ["rack", "theta"], ["epsilon"], ["rack", "host", "epsilon"]]
        )
    return asked


def _exclusions(
    chance: random.Random, asked: Document, topics: list[str], ids: list[int], known: frozenset[str]
) -> None:
    if chance.random() < 0.3:
        resized = asked.get("replication_factor", {})
        names = [
            name
            for name in ("__*", "__consumer_offsets", "clicks", "orders")
            if _meets(name, topics) and not any(fnmatchcase(topic, name) for topic in resized)
        ]
        if names:
            asked["excluded_topics"] = sorted(chance.sample(names, min(len(names), chance.choice([1, 1, 2]))))
            if STAYS in known and chance.random() < 0.25:
                asked[STAYS] = False
    for use in ("leaders", "replicas"):
        if chance.random() < 0.07:
            asked[f"excluded_brokers_for_{use}"] = sorted(
                chance.sample(ids, chance.choice([1, 1, 2]) % len(ids) or 1)
            )


STAYS = "evacuate_excluded_topics"
"""The setting by which excluded topics leave brokers that are dead or to be emptied."""


def _meets(name: str, topics: list[str]) -> bool:
    return any(fnmatchcase(topic, name) for topic in topics)


def _limits(chance: random.Random, asked: Document, partitions: list[Document]) -> None:
    everything = sum(row["leader_load"]["disk"] * len(row["replicas"]) for row in partitions)
    if chance.random() < 0.15:
        asked["max_bytes"] = int(everything * chance.choice([0.0, 0.0, 0.02, 0.1, 0.5, 2.0]))
    if chance.random() < 0.12:
        asked["max_moves"] = chance.choice([0, 1, 2, 5, 20, 500])


FLAGS = (
    "drain",
    "demote",
    "add",
    "fix_offline_replicas",
    "intra_broker_only",
    "rebalance",
    "replication_factor",
)


def overrides(asked: Document) -> list[str]:
    """The request as words of `--set`."""
    return [f"replicas.{name}={_toml(value)}" for name, value in asked.items()]


def arguments(asked: Document) -> list[str]:
    """The request as arguments of `trimtab plan replicas`: verbs by their flags, the rest by `--set`."""
    words: list[str] = []
    for name, value in asked.items():
        flag = f"--{name.replace('_', '-')}"
        if name not in FLAGS:
            words += ["--set", f"replicas.{name}={_toml(value)}"]
        elif value is True:
            words.append(flag)
        elif isinstance(value, dict):
            words += [one for topic, number in value.items() for one in (flag, f"{topic}={number}")]
        else:
            words += [flag, ",".join(map(str, value))]
    return words


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {json.dumps(one)}" for name, one in value.items()) + "}"
    return json.dumps(value)
