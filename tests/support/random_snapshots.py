"""Random snapshots as plain JSON values: every state, gap and mix that the format allows, at small size."""

import random
from typing import Any


def random_snapshot(seed: int) -> dict:
    """A sound snapshot; the same seed gives the same one.

    Parameters
    ----------
    seed
        Also decides how wild it is: every fourth is a plain cluster, all alive, with all capacities; every
        fourth has brokers and log dirs in all states.
    """
    chance = random.Random(seed)
    plain, wild = seed % 4 == 0, seed % 4 == 1
    number = chance.randint(3, 14)
    racks = chance.choice([0, 1, 2, 3, 3, 4])
    ids = sorted(chance.sample(range(50), number))
    per_host = chance.choice([1, 1, 2])
    same_size = plain or chance.random() < 0.5
    usual = 12 if wild else 50
    states = ["alive"] * usual + ["new", "dead", "draining", "no_leaders", "no_new_replicas"]
    brokers = []
    for index, broker in enumerate(ids):
        size = 1.0 if same_size else chance.choice([0.5, 1.0, 2.0])
        row: dict = {"id": broker, "state": "alive" if plain else chance.choice(states)}
        if chance.random() < 0.8 or per_host > 1:
            row["host"] = f"h{index // per_host}"
        if racks and (plain or chance.random() < 0.9):
            row["rack"] = f"r{index // per_host % racks}"
        row["capacity"] = {
            name: amount * size
            for name, amount in (("cpu", 8.0), ("disk", 1e12), ("network_in", 1e8), ("network_out", 1.5e8))
            if plain or chance.random() < 0.95
        }
        if chance.random() < 0.5:
            row["log_dirs"] = [
                {
                    "path": f"/data{place}",
                    "state": "online"
                    if plain
                    else chance.choice(["online"] * (usual // 2) + ["offline", "cordoned"]),
                }
                for place in range(chance.choice([1, 2, 3]))
            ]
            for log_dir in row["log_dirs"]:
                if "disk" in row["capacity"] and chance.random() < 0.7:
                    log_dir["capacity"] = row["capacity"]["disk"] / len(row["log_dirs"])
        brokers.append(row)
    if all(broker["state"] in ("dead", "draining", "no_leaders", "no_new_replicas") for broker in brokers):
        brokers[0]["state"] = "alive"
    partitions = _partitions(chance, brokers, plain, wild)
    _scale(chance, brokers, partitions)
    return {
        "format": "trimtab/replicas-snapshot/1",
        "cluster": f"random-{seed}",
        "taken_at": "2026-11-21T05:00:00Z",
        "brokers": brokers,
        "partitions": partitions,
        "quality": {"valid_share": 1.0, "oldest_sample_seconds": 60, "cpu": "measured"},
    }


def _partitions(chance: random.Random, brokers: list[dict], plain: bool, wild: bool) -> list[dict]:
    holders = [broker for broker in brokers if broker["state"] != "new"] or brokers
    weight = {broker["id"]: chance.lognormvariate(0, 0.5) for broker in holders}
    declared = {
        broker["id"]: [log_dir["path"] for log_dir in broker.get("log_dirs", [])] for broker in brokers
    }
    dead = {broker["id"] for broker in brokers if broker["state"] == "dead"}
    rows = []
    for topic in range(chance.randint(1, 6)):
        factor = min(chance.choice([1, 2, 3, 3, 4]), len(holders))
        for partition in range(chance.randint(30, 80) if plain else chance.randint(1, 25)):
            replicas = _spread(chance, holders, weight, factor)
            alive = [broker for broker in replicas if broker not in dead]
            leader: int | None = replicas[0] if plain or chance.random() < 0.8 else chance.choice(replicas)
            if leader in dead and chance.random() < 0.8:
                leader = chance.choice(alive) if alive else None
            row: dict = {"topic": f"t{topic}", "partition": partition, "replicas": replicas, "leader": leader}
            if chance.random() < 0.7:
                in_sync = [
                    broker for broker in replicas if broker in alive and (not wild or chance.random() < 0.95)
                ]
                row["in_sync"] = sorted({*in_sync, leader} - {None})
            if chance.random() < 0.6:
                row["log_dirs"] = [
                    chance.choice(declared[broker]) if declared[broker] else None for broker in replicas
                ]
            spread = 0.5 if plain else 1.0
            size, rate = chance.lognormvariate(0, spread), chance.lognormvariate(0, spread)
            reads = chance.choice([0, 1, 1, 3]) * rate * chance.uniform(0.5, 1.5)
            cpu = rate + reads + chance.random() * 0.1
            row["leader_load"] = {"cpu": cpu, "disk": size, "network_in": rate, "network_out": reads}
            row["follower_load"] = {"cpu": 0.3 * rate, "disk": size, "network_in": rate, "network_out": 0}
            rows.append(row)
    return rows


def _spread(chance: random.Random, holders: list[dict], weight: dict[int, float], factor: int) -> list[int]:
    """Draw brokers by weight, mostly in different racks."""
    left, chosen, racks = list(holders), list[int](), set[Any]()
    while len(chosen) < factor:
        fresh = [broker for broker in left if broker.get("rack") not in racks]
        pool = fresh if fresh and chance.random() < 0.95 else left
        broker = chance.choices(pool, [weight[row["id"]] for row in pool])[0]
        left.remove(broker)
        chosen.append(broker["id"])
        racks.add(broker.get("rack"))
    return chosen


def _scale(chance: random.Random, brokers: list[dict], partitions: list[dict]) -> None:
    """Bring the mean usage of each resource to a drawn level, mostly one that can be balanced."""
    for name in ("cpu", "disk", "network_in", "network_out"):
        capacity = sum(
            broker["capacity"].get(name, 0.0)
            for broker in brokers
            if broker["state"] not in ("dead", "draining")
        )
        total = sum(
            row["leader_load"][name] + row["follower_load"][name] * (len(row["replicas"]) - 1)
            for row in partitions
        )
        level = chance.choice([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7] * 3 + [0.78, 0.9])
        factor = level * capacity / total if total else 0.0
        for row in partitions:
            for role in ("leader_load", "follower_load"):
                row[role][name] *= factor
                if name == "disk":
                    row[role][name] = float(round(row[role][name]))
