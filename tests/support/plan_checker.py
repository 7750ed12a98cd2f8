"""An independent judge: reads a snapshot and a plan as plain JSON and says what is wrong with the plan.

Written from the published formats alone, with nothing but the standard library, so that a mistake in the
planner's or the model's arithmetic cannot hide here as well.

    python tests/support/plan_checker.py snapshot.json plan.json
"""

import gzip
import hashlib
import itertools
import json
import math
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

RESOURCES = ("cpu", "disk", "network_in", "network_out")
COMPLETE = ("balanced", "improved")
VERDICTS = (*COMPLETE, "incomplete", "infeasible")
TOP_LEVEL = {
    *("format", "balancer", "strategy", "seed", "settings", "snapshot", "verdict", "moves", "assignments"),
    *("predicted", "cost", "bound", "problems"),
}
MOVE = {"order", "kind", "topic", "partition", "source", "target", "bytes", "reason"}
REASON = {"goal", "resource", "broker", "before", "after", "limit", "text"}
ASSIGNMENT = {"topic", "partition", "before", "after", "leader_after"}
TOLERANCE = 1e-9


def check_files(snapshot: Path, plan: Path) -> list[str]:
    """What is wrong with a plan file made from a snapshot file; empty if nothing is."""
    data = snapshot.read_bytes()
    text = gzip.decompress(data) if snapshot.suffix == ".gz" else data
    faults = check(json.loads(text), json.loads(plan.read_bytes()))
    if json.loads(plan.read_bytes())["snapshot"]["sha256"] != hashlib.sha256(data).hexdigest():
        faults.append("snapshot.sha256 is not that of the snapshot file")
    return faults


def check(snapshot: dict, plan: dict) -> list[str]:
    """What is wrong with a plan; empty if nothing is."""
    return Judge(snapshot, plan).faults()


class Judge:
    """The moves of a plan, played one by one on its snapshot, and what is wrong on the way and at the end."""

    def __init__(self, snapshot: dict, plan: dict) -> None:
        self.plan = plan
        self.found: list[str] = []
        self.settings = plan["settings"]
        asked = {number: "draining" for number in self.settings.get("drain") or []}
        asked |= {number: "new" for number in self.settings.get("add") or []}
        self.demoted = set(self.settings.get("demote") or [])
        self.resized = dict(self.settings.get("replication_factor") or {})
        evacuates = (self.settings.get("drain") or self.demoted) and not self.settings.get("add")
        verb = evacuates or any(
            self.settings.get(name) for name in ("fix_offline_replicas", "intra_broker_only")
        )
        self.verb_alone = bool(verb and not self.settings.get("rebalance")) or bool(self.resized)
        self.brokers = {
            broker["id"]: broker
            if broker["state"] == "dead"
            else {**broker, "state": asked.get(broker["id"], broker["state"])}
            for broker in snapshot["brokers"]
        }
        self.snapshot = snapshot
        self.dead = {number for number, broker in self.brokers.items() if broker["state"] == "dead"}
        self.out_of_service = {
            number for number, broker in self.brokers.items() if broker["state"] in ("dead", "draining")
        }
        self.drained = {number for number, one in self.brokers.items() if one["state"] == "draining"}
        self.dirs = {
            number: {log_dir["path"]: log_dir["state"] for log_dir in broker.get("log_dirs", [])}
            for number, broker in self.brokers.items()
        }
        self.partitions = {(row["topic"], row["partition"]): row for row in snapshot["partitions"]}
        self.first_list = {key: list(row["replicas"]) for key, row in self.partitions.items()}
        self.first_leader = {
            key: None if row["leader"] in self.dead else row["leader"] for key, row in self.partitions.items()
        }
        self.list = {key: list(brokers) for key, brokers in self.first_list.items()}
        self.leader = dict(self.first_leader)
        self.in_sync = {key: self._in_sync(row) for key, row in self.partitions.items()}
        self.dir_of = {
            (key, broker): path
            for key, row in self.partitions.items()
            for broker, path in zip(row["replicas"], row.get("log_dirs", []), strict=False)
        }

    def _in_sync(self, row: dict) -> set[int]:
        listed = set(row.get("in_sync", row["replicas"]))
        offline = {
            broker
            for broker, path in zip(row["replicas"], row.get("log_dirs", []), strict=False)
            if self.dirs[broker].get(path) == "offline"
        }
        return listed - self.dead - offline

    def fault(self, text: str) -> None:
        self.found.append(text)

    def faults(self) -> list[str]:
        self.check_shape()
        self.check_reference()
        room, dir_room, host_room = self.disk_room(), self.dir_room(), self.host_room()
        for number, move in enumerate(self.plan["moves"], 1):
            self.check_move(number, move)
            self.check_room(number, move, room)
            self.check_dir_room(number, move, dir_room)
            self.check_host_room(number, move, host_room)
        self.check_assignments()
        self.check_predictions()
        self.check_topics()
        self.check_cost()
        self.check_switches()
        self.check_maintenance()
        if self.resized:
            self.check_resized()
        self.check_verdict()
        return self.found

    # ------------------------------------------------------------ form

    def check_shape(self) -> None:
        self._fields("plan", self.plan, TOP_LEVEL)
        if self.plan["format"] != "trimtab/plan/1" or self.plan["balancer"] != "replicas":
            self.fault("format or level is not that of a plan of replicas")
        for move in self.plan["moves"]:
            self._fields(f"move {move.get('order')}", move, MOVE)
            self._fields(f"reason of move {move.get('order')}", move["reason"], REASON)
            if not move["reason"]["text"]:
                self.fault(f"move {move['order']} does not say why")
            if move["reason"]["broker"] not in self.brokers:
                self.fault(
                    f"move {move['order']} serves broker {move['reason']['broker']}, which is not there"
                )
            if move["reason"]["resource"] not in (None, *RESOURCES):
                self.fault(f"move {move['order']} serves resource {move['reason']['resource']}")
            for name in ("before", "after", "limit"):
                value = move["reason"][name]
                if value is not None and not (isinstance(value, int | float) and math.isfinite(value)):
                    self.fault(f"move {move['order']}: reason.{name} is {value}")
        for row in self.plan["assignments"]:
            self._fields(f"assignment {row.get('topic')}-{row.get('partition')}", row, ASSIGNMENT)

    def _fields(self, what: str, found: dict, expected: set[str]) -> None:
        own = {name for name in found if name.startswith("x_")}
        if set(found) - own != expected:
            self.fault(f"{what} has fields {sorted(set(found) ^ expected)} too many or too few")

    def check_reference(self) -> None:
        for name in ("cluster", "taken_at"):
            if self.plan["snapshot"][name] != self.snapshot[name]:
                self.fault(f"snapshot.{name} is {self.plan['snapshot'][name]}")

    # ------------------------------------------------------------ moves

    def check_move(self, number: int, move: dict) -> None:
        step = f"{move['kind']} {move['topic']}-{move['partition']} {move['source']}→{move['target']}"
        what = f"move {number} ({step})"
        if move["order"] != number:
            self.fault(f"{what}: order is {move['order']}")
        key = (move["topic"], move["partition"])
        if key not in self.partitions:
            self.fault(f"{what}: there is no such partition")
            return
        if self.excluded(key) and not self.evacuates(key, move):
            self.fault(f"{what}: the topic is excluded")
        if move["target"] not in self.brokers:
            self.fault(f"{what}: there is no such target")
            return
        {
            "leader": self.leader_move,
            "replica": self.replica_move,
            "log_dir": self.log_dir_move,
            "order": self.order_move,
            "add": self.add_move,
            "drop": self.drop_move,
        }[move["kind"]](what, key, move)

    def leader_move(self, what: str, key: tuple, move: dict) -> None:
        target = move["target"]
        if move["bytes"] != 0:
            self.fault(f"{what}: a leader move copies nothing, bytes is {move['bytes']}")
        if move["source"] != self.leader[key]:
            self.fault(f"{what}: the leader is {self.leader[key]} by then")
        if target not in self.list[key]:
            self.fault(f"{what}: replicas are {self.list[key]} by then")
            return
        if target in self.demoted:
            self.fault(f"{what}: the target is to lead nothing")
        readings = self.settings.get("role_aware")
        # The source's procedure as printed gives the role to any replica, lagging or not.
        if target not in self.in_sync[key] and (readings is None or "in_sync" in readings["repairs"]):
            self.fault(f"{what}: in sync are {sorted(self.in_sync[key])} by then")
        self.list[key].remove(target)
        self.list[key].insert(0, target)
        self.leader[key] = target

    def replica_move(self, what: str, key: tuple, move: dict) -> None:
        source, target = move["source"], move["target"]
        held = self.list[key]
        if source not in held or target in held:
            self.fault(f"{what}: replicas are {held} by then")
            return
        state = self.brokers[target]["state"]
        if state in ("dead", "draining", "no_new_replicas"):
            self.fault(f"{what}: the target is {state}")
        if target in (self.settings.get("excluded_brokers_for_replicas") or []):
            self.fault(f"{what}: the target is excluded for replicas")
        states = set(self.dirs[target].values())
        if states and "online" not in states:
            self.fault(f"{what}: no log dir of the target is online")
        if not self.in_sync[key]:
            self.fault(f"{what}: there is no in-sync replica to copy from")
        sizes = {self.partitions[key][role]["disk"] for role in ("leader_load", "follower_load")}
        if not any(abs(move["bytes"] - size) <= 0.5 + 1e-9 * size for size in sizes):
            self.fault(f"{what}: bytes is {move['bytes']}, the replica has {sorted(sizes)}")
        if self.leader[key] == source:
            # The source knows no log dirs: what led from an offline one has lost its role already.
            knows = "placement" in self.settings.get("role_aware", {"repairs": ["placement"]})["repairs"]
            offline = self.dirs[source].get(self.dir_of.get((key, source))) == "offline"
            if held[0] != source and (knows or not offline):
                self.fault(f"{what}: a leader that is not first in {held} cannot take its role along")
            self.leader[key] = target
        held[held.index(source)] = target
        self.in_sync[key].discard(source)
        self.in_sync[key].add(target)
        self.dir_of.pop((key, source), None)
        if "x_target_dir" in move:
            self._arrive(what, key, target, move["x_target_dir"])

    def add_move(self, what: str, key: tuple, move: dict) -> None:
        """One replica more: as a replica that moves, but for the one that would make room."""
        if move["source"] is not None:
            self.fault(f"{what}: an added replica has no source")
        if move["target"] in self.list[key]:
            self.fault(f"{what}: replicas are {self.list[key]} by then")
            return
        self.list[key].append(nobody := object())
        self.replica_move(what, key, {**move, "source": nobody})

    def drop_move(self, what: str, key: tuple, move: dict) -> None:
        """One replica less: never the leader's, and never the last in sync."""
        broker = move["source"]
        if broker != move["target"] or move["bytes"] != 0:
            self.fault(f"{what}: a replica that is dropped goes nowhere")
        if broker not in self.list[key] or len(self.list[key]) == 1:
            self.fault(f"{what}: replicas are {self.list[key]} by then")
            return
        if broker == self.leader[key]:
            self.fault(f"{what}: it leads by then")
        sound = [b for b in self.list[key] if b in self.in_sync[key]]
        if broker in sound and not set(sound) - {broker}:
            self.fault(f"{what}: it is the last in sync")
        self.list[key].remove(broker)
        self.in_sync[key].discard(broker)
        self.dir_of.pop((key, broker), None)

    def order_move(self, what: str, key: tuple, move: dict) -> None:
        if move["bytes"] != 0 or move["source"] != move["target"]:
            self.fault(f"{what}: a new order copies nothing, and no role goes to anybody")
        if move["target"] != self.leader[key] or self.list[key][0] == move["target"]:
            self.fault(f"{what}: {self.list[key]} is led by {self.leader[key]} by then")
        self.list[key].remove(move["target"])
        self.list[key].insert(0, move["target"])

    def log_dir_move(self, what: str, key: tuple, move: dict) -> None:
        if move["source"] != move["target"] or move["target"] not in self.list[key]:
            self.fault(f"{what}: a log dir move stays on a broker that holds the replica, {self.list[key]}")
        if move.get("x_source_dir") != self.dir_of.get((key, move["target"])):
            self.fault(f"{what}: the replica lies in {self.dir_of.get((key, move['target']))}")
        self._arrive(what, key, move["target"], move.get("x_target_dir"))

    def _arrive(self, what: str, key: tuple, broker: int, path: str | None) -> None:
        if self.dirs[broker].get(path) != "online":
            self.fault(f"{what}: log dir {path} of broker {broker} is {self.dirs[broker].get(path)}")
        self.dir_of[key, broker] = path

    # ------------------------------------------------------------ disks on the way

    def disk_room(self) -> dict[int, float]:
        """Bytes that each broker in service may hold: θ of its disk, or what it holds if that is more."""
        asked = "theta" in self.settings["goals"] or self.settings.get("fix_offline_replicas") or self.resized
        theta = self._limit("theta")["disk"] if asked else 1.0
        held = self.load(self.first_list, self.first_leader)
        return {
            number: max(theta * broker["capacity"]["disk"], held[number]["disk"]) * (1 + 1e-6)
            for number, broker in self.brokers.items()
            if number not in self.out_of_service and "disk" in broker.get("capacity", {})
        }

    def check_room(self, number: int, move: dict, room: dict[int, float]) -> None:
        """No step fills a disk above θ that was not, whatever the verdict says."""
        if move["target"] not in room or (move["topic"], move["partition"]) not in self.partitions:
            return
        held = sum(
            row["leader_load" if self.leader[key] == move["target"] else "follower_load"]["disk"]
            for key, row in self.partitions.items()
            if move["target"] in self.list[key]
        )
        if held > room[move["target"]]:
            self.fault(
                f"move {number} fills the disk of broker {move['target']} to {held:g} bytes, "
                f"{room[move['target']]:g} are allowed"
            )

    def dir_held(self) -> dict[tuple[int, str], float]:
        """Bytes in each log dir, as far as it is known where replicas lie."""
        held = dict.fromkeys(((b, path) for b, dirs in self.dirs.items() for path in dirs), 0.0)
        for (key, broker), path in self.dir_of.items():
            if path is not None and broker in self.list[key]:
                held[broker, path] += self.size(key)
        return held

    def dir_room(self) -> dict[tuple[int, str], float]:
        """Bytes that each log dir may hold: θ of it, or what it holds if that is more."""
        limited = {"theta", "log_dirs"} & set(self.settings["goals"]) or self.settings.get(
            "fix_offline_replicas"
        )
        limited = limited or self.resized
        theta = self._limit("theta")["disk"] if limited else 1.0
        held = self.dir_held()
        return {
            (number, one["path"]): max(theta * one["capacity"], held[number, one["path"]]) * (1 + 1e-6)
            for number, broker in self.brokers.items()
            for one in broker.get("log_dirs", [])
            if "capacity" in one
        }

    def check_dir_room(self, number: int, move: dict, room: dict[tuple[int, str], float]) -> None:
        """No step fills a log dir above θ that was not, whatever the verdict says."""
        at = (move["target"], move.get("x_target_dir"))
        if at in room and self.dir_held()[at] > room[at]:
            self.fault(f"move {number} fills log dir {at} to {self.dir_held()[at]:g}, {room[at]:g} allowed")

    # ------------------------------------------------------------ hosts

    def host_capacity(self) -> dict[str, dict[str, tuple[float, bool]]]:
        """Capacity of each host with brokers in service, by resource, and whether it is declared.

        Else it is the sum of those brokers'; resources without limit are left out.
        """
        told = {row["name"]: dict(row["capacity"]) for row in self.snapshot.get("x_hosts", [])}
        for host, capacity in (self.settings.get("host_capacity") or {}).items():
            told[host] = {**told.get(host, {}), **capacity}
        found: dict[str, dict[str, tuple[float, bool]]] = {}
        for number in self.serving():
            found.setdefault(self._place("host", number), {})
        for host, of in found.items():
            brokers = [self.brokers[number].get("capacity", {}) for number in self.on_host(host)]
            for name in RESOURCES:
                if name in told.get(host, {}):
                    of[name] = told[host][name], True
                elif all(name in capacity for capacity in brokers):
                    of[name] = sum(capacity[name] for capacity in brokers), False
        return found

    def serving(self) -> list[int]:
        return [number for number in self.brokers if number not in self.out_of_service]

    def on_host(self, host: str) -> list[int]:
        return [number for number in self.serving() if self._place("host", number) == host]

    def host_load(self, lists: dict, leaders: dict) -> dict[str, dict[str, float]]:
        """Load of each host with brokers in service: theirs."""
        load = self.load(lists, leaders)
        return {
            host: {name: sum(load[number][name] for number in self.on_host(host)) for name in RESOURCES}
            for host in self.host_capacity()
        }

    def host_limit(self, name: str, resource: str) -> float:
        """θ or ε of hosts: their own, or that of brokers, where it is a goal."""
        own = self.settings.get(f"host_{name}") or {}
        if resource in own:
            return own[resource]
        return self._limit(name)[resource] if name in self.settings["goals"] else math.inf

    def host_room(self) -> dict[str, float]:
        """Bytes that each host that declares a disk may hold: θ of it, or what it holds if that is more."""
        if "host_load" not in self.settings["goals"] and not self.settings.get("fix_offline_replicas"):
            return {}
        held = self.host_load(self.first_list, self.first_leader)
        asked = "theta" in self.settings["goals"] or self.settings.get("fix_offline_replicas")
        usual = self._limit("theta")["disk"] if asked else 1.0
        theta = (self.settings.get("host_theta") or {}).get("disk", usual)
        return {
            host: max(theta * of["disk"][0], held[host]["disk"]) * (1 + 1e-6)
            for host, of in self.host_capacity().items()
            if "disk" in of and of["disk"][1]
        }

    def check_host_room(self, number: int, move: dict, room: dict[str, float]) -> None:
        """No step fills a host's disk above θ that was not, whatever the verdict says."""
        host = self._place("host", move["target"]) if move["target"] in self.brokers else None
        if host in room and move["target"] not in self.out_of_service:
            held = self.host_load(self.list, self.leader)[host]["disk"]
            if held > room[host]:
                self.fault(f"move {number} fills the disk of host {host} to {held:g}, {room[host]:g} allowed")

    def host_faults(self, lists: dict, leaders: dict) -> tuple[list[str], list[str]]:
        """Hosts above their θ, and further than their ε from the mean, where that is asked."""
        over: list[str] = []
        off: list[str] = []
        if "host_load" not in self.settings["goals"]:
            return over, off
        load, capacity = self.host_load(lists, leaders), self.host_capacity()
        for name in RESOURCES:
            counted = [host for host, of in capacity.items() if name in of]
            if not counted:
                continue
            mean = sum(load[host][name] for host in counted) / sum(
                capacity[host][name][0] for host in counted
            )
            idle = mean < self.settings["min_utilization"] * (1 - 1e-12)
            for host in counted:
                room, declared = capacity[host][name]
                usage = load[host][name] / room
                if (declared or name != "disk") and usage > self.host_limit("theta", name) * (1 + 1e-9):
                    over.append(f"host {host} {name} {usage:.4f} > θ")
                if abs(usage - mean) > self.host_limit("epsilon", name) * mean * (1 + 1e-9) and not idle:
                    off.append(f"host {host} {name} {usage:.4f}, mean {mean:.4f}")
        return over, off

    # ------------------------------------------------------------ numbers

    def counted(self, what: str) -> list[int]:
        """Brokers that may be given replicas, or may lead; of a topic's leaders those that may do both."""
        states = {
            number: self.brokers[number]["state"]
            for number in self.serving()
            if self.brokers[number]["state"] not in ("dead", "draining")
        }
        receives = {number for number, state in states.items() if state != "no_new_replicas"}
        receives -= set(self.settings.get("excluded_brokers_for_replicas") or [])
        leads = {number for number, state in states.items() if state != "no_leaders"} - self.demoted
        leads -= set(self.settings.get("excluded_brokers_for_leaders") or [])
        return sorted({"replicas": receives, "leaders": leads, "topic leaders": leads & receives}[what])

    def uneven(self, held: list[int], brokers: list[int]) -> list[tuple[int, int]]:
        """(broker, number) further than ε from the mean, and not next to it; `held` names one for each."""
        if not brokers:
            return []
        numbers = {number: held.count(number) for number in brokers}
        mean = sum(numbers.values()) / len(brokers)
        reach = self.settings["count_epsilon"] * mean * (1 + 1e-9)
        return [
            (number, have)
            for number, have in numbers.items()
            if abs(have - mean) > reach and abs(have - mean) >= 1 - 1e-9
        ]

    def number_faults(self) -> list[str]:
        """Numbers of replicas and leaders, also of topics, that miss the goals asked for."""
        goals, faults = self.settings["goals"], []
        held = {key: list(brokers) for key, brokers in self.list.items()}
        if "replica_numbers" in goals:
            everything = [broker for brokers in held.values() for broker in brokers]
            faults += [f"replicas of {one}" for one in self.uneven(everything, self.counted("replicas"))]
        if "leader_numbers" in goals:
            leading = [leader for leader in self.leader.values() if leader is not None]
            faults += [f"leaders of {one}" for one in self.uneven(leading, self.counted("leaders"))]
        if "potential_network_out" in goals:
            for number in self.serving():
                room = self.brokers[number].get("capacity", {}).get("network_out")
                sent = sum(
                    self.partitions[key]["leader_load"]["network_out"]
                    for key, brokers in held.items()
                    if number in brokers
                )
                if room is not None and sent > self._limit("theta")["network_out"] * room * (1 + 1e-9):
                    faults.append(f"broker {number} might send {sent:g} of {room:g}")
        return faults + [
            f"{goal} of {topic}" for goal, topics in self.topics_missed().items() for topic in topics
        ]

    def topics_missed(self) -> dict[str, list[str]]:
        """By goal, the topics that miss it in the end; excluded ones never do."""
        goals = self.settings["goals"]
        found: dict[str, list[str]] = {
            goal: [] for goal in ("topic_replicas", "topic_leaders", "min_leaders_per_topic") if goal in goals
        }
        for topic in sorted({topic for topic, _ in self.list}) if found else ():
            if self.excluded((topic, 0)):
                continue
            keys = [key for key in self.list if key[0] == topic]
            replicas = [broker for key in keys for broker in self.list[key]]
            leading = [self.leader[key] for key in keys if self.leader[key] is not None]
            named = any(fnmatchcase(topic, one) for one in self.settings.get("balanced_topics", []))
            if "topic_replicas" in found and named and self.uneven(replicas, self.counted("replicas")):
                found["topic_replicas"].append(topic)
            if "topic_leaders" in found and named and self.uneven(leading, self.counted("topic leaders")):
                found["topic_leaders"].append(topic)
            table = self.settings.get("min_leaders_per_topic", {})
            least = max((number for one, number in table.items() if fnmatchcase(topic, one)), default=0)
            if any(leading.count(number) < least for number in self.counted("topic leaders")):
                found["min_leaders_per_topic"].append(topic)
        return found

    def check_topics(self) -> None:
        told = {goal: one["after"] for goal, one in self.plan.get("x_topics", {}).items()}
        missed = {goal: len(topics) for goal, topics in self.topics_missed().items()}
        if told != missed:
            self.fault(f"x_topics tells of {told}, counted {missed}")

    # ------------------------------------------------------------ ends

    def check_assignments(self) -> None:
        told = {}
        for row in self.plan["assignments"]:
            key = (row["topic"], row["partition"])
            if key in told:
                self.fault(f"assignment {key} is there twice")
            told[key] = row
            if key not in self.partitions:
                self.fault(f"assignment {key}: there is no such partition")
                continue
            if row["before"] != self.first_list[key]:
                self.fault(
                    f"assignment {key}: before is {row['before']}, the snapshot has {self.first_list[key]}"
                )
            if row["after"] != self.list[key] or row["leader_after"] != self.leader[key]:
                self.fault(
                    f"assignment {key} ends in {row['after']} led by {row['leader_after']}, "
                    f"the moves in {self.list[key]} led by {self.leader[key]}"
                )
        for key in self.partitions:
            changed = self.list[key] != self.first_list[key] or self.leader[key] != self.first_leader[key]
            moved_dir = any((move["topic"], move["partition"]) == key for move in self.plan["moves"])
            if changed and key not in told:
                self.fault(f"moves change {key}, which has no assignment")
            if key in told and not changed and not moved_dir:
                self.fault(f"assignment {key} changes nothing")
            factor = self.wanted(key) if key in told else len(self.first_list[key])
            if len(set(self.list[key])) != factor or len(self.list[key]) != factor:
                self.fault(f"{key} had {self.first_list[key]}, and ends with {self.list[key]}")

    # ------------------------------------------------------------ measures

    def load(self, lists: dict, leaders: dict) -> dict:
        load = {number: dict.fromkeys(RESOURCES, 0.0) for number in self.brokers}
        for key, row in self.partitions.items():
            for broker in lists[key]:
                role = row["leader_load"] if leaders[key] == broker else row["follower_load"]
                for name in RESOURCES:
                    load[broker][name] += role[name]
        return load

    def measures(self, lists: dict, leaders: dict) -> tuple[dict, dict, dict]:
        """The published figures, then usage and deviation of each counted (broker, resource)."""
        load = self.load(lists, leaders)
        figures: dict = {"sigma": {}, "worst_deviation": {}, "peak_usage": {}}
        usage, deviation = dict[Any, Any](), dict[Any, Any]()
        for name in RESOURCES:
            counted = [
                number
                for number, broker in self.brokers.items()
                if number not in self.out_of_service and name in broker.get("capacity", {})
            ]
            if not counted:
                continue
            capacity = {number: self.brokers[number]["capacity"][name] for number in counted}
            used = {number: load[number][name] / capacity[number] for number in counted}
            mean = sum(load[number][name] for number in counted) / sum(capacity.values())
            total = sum(used.values())
            share = {number: used[number] / total if total else 1 / len(counted) for number in counted}
            off = {number: abs(used[number] - mean) / mean if mean else 0.0 for number in counted}
            figures["sigma"][name] = math.sqrt(
                sum((share[number] - 1 / len(counted)) ** 2 for number in counted) / len(counted)
            )
            figures["worst_deviation"][name] = max(off.values())
            figures["peak_usage"][name] = max(used.values())
            usage |= {(number, name): used[number] for number in counted}
            deviation |= {(number, name): off[number] for number in counted}
        return figures, usage, deviation

    def check_predictions(self) -> None:
        for when, lists, leaders in (
            ("before", self.first_list, self.first_leader),
            ("after", self.list, self.leader),
        ):
            expected, _, _ = self.measures(lists, leaders)
            told = self.plan["predicted"][when]
            if set(told) != set(expected):
                self.fault(f"predicted.{when} has {sorted(told)}")
                continue
            for measure, values in expected.items():
                if set(told[measure]) != set(values):
                    self.fault(
                        f"predicted.{when}.{measure} is about {sorted(told[measure])}, not {sorted(values)}"
                    )
                    continue
                for name, value in values.items():
                    if not math.isclose(told[measure][name], value, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
                        self.fault(
                            f"predicted.{when}.{measure}.{name} is {told[measure][name]}, computed {value}"
                        )

    def check_cost(self) -> None:
        moves, cost = self.plan["moves"], self.plan["cost"]
        kinds = [move["kind"] for move in moves]
        expected = {
            "bytes": sum(move["bytes"] for move in moves if move["kind"] != "log_dir"),
            "replica_moves": kinds.count("replica"),
            "leader_moves": kinds.count("leader"),
        }
        for name, kind in (("x_added_replicas", "add"), ("x_dropped_replicas", "drop")):
            if cost.get(name, 0) != kinds.count(kind):
                self.fault(f"cost.{name} is not that of the moves")
        if self.resized and self.plan["bound"]["bytes"] > sum(self.missing_bytes()):
            self.fault(f"bound.bytes is {self.plan['bound']['bytes']}, more than has to be added")
        for name, value in expected.items():
            if cost[name] != value:
                self.fault(f"cost.{name} is {cost[name]}, the moves make {value}")
        if cost.get("x_log_dir_moves", 0) != kinds.count("log_dir"):
            self.fault("cost.x_log_dir_moves is not that of the moves")
        if cost.get("x_order_moves", 0) != kinds.count("order"):
            self.fault("cost.x_order_moves is not that of the moves")
        between_dirs = sum(move["bytes"] for move in moves if move["kind"] == "log_dir")
        if cost.get("x_log_dir_bytes", 0) != between_dirs:
            self.fault("cost.x_log_dir_bytes is not that of the moves")
        if self.plan["bound"].get("x_log_dir_bytes", 0) > between_dirs:
            self.fault("bound.x_log_dir_bytes is more than the plan copies between log dirs")
        limits: tuple[tuple[str, str | None], ...] = (("max_bytes", "bytes"), ("max_moves", None))
        for setting, spent_as in limits:
            limit = self.settings.get(setting)
            spent = expected[spent_as] + between_dirs if spent_as else len(moves)
            if limit is not None and spent > limit:
                self.fault(f"the plan spends {spent}, settings.{setting} is {limit}")
        if self.plan["verdict"] == "balanced" and moves and self.plan["bound"]["bytes"] > expected["bytes"]:
            self.fault(
                f"bound.bytes is {self.plan['bound']['bytes']}, the plan copies only {expected['bytes']}"
            )
        if self.plan["bound"]["bytes"] > 0 and not self.plan["bound"]["proof"]:
            self.fault("bound has no proof")

    # ------------------------------------------------------------ verdict

    def excluded(self, key: tuple) -> bool:
        return any(fnmatchcase(key[0], pattern) for pattern in self.settings.get("excluded_topics") or [])

    def stays(self, key: tuple) -> bool:
        """Excluded, also from the evacuation of brokers that are dead, draining or demoted."""
        return self.excluded(key) and not self.settings.get("evacuate_excluded_topics", True)

    def must_leave(self, key: tuple) -> set[int]:
        """Brokers whose replica of a partition has to go elsewhere, by the snapshot and the request."""
        return {b for b in self.first_list[key] if b in self.out_of_service or self._offline_first(key, b)}

    def must_hand_over(self, key: tuple) -> bool:
        """Whether the partition needs another leader than it has."""
        leader = self.first_leader[key]
        return leader is None or leader in self.demoted or leader in self.must_leave(key)

    def heirs(self, key: tuple) -> list[int]:
        """Replicas that may be given the role at once: in sync, and open for leaders."""
        return [
            broker
            for broker in self.first_list[key]
            if broker in self._in_sync(self.partitions[key]) and self.may_lead(broker)
        ]

    def rooted(self, key: tuple) -> bool:
        """Whether the leader can leave only once another copy leads: it is not first, and has no heir."""
        leader = self.first_leader[key]
        return (
            leader in self._in_sync(self.partitions[key])
            and leader != self.first_list[key][0]
            and not set(self.heirs(key)) - {leader}
        )

    def may_lead(self, broker: int) -> bool:
        """Whether a broker may be given leaders."""
        closed = self.settings.get("excluded_brokers_for_leaders") or []
        return (
            broker not in self.out_of_service
            and broker not in self.demoted
            and broker not in closed
            and self.brokers[broker]["state"] != "no_leaders"
        )

    def evacuates(self, key: tuple, move: dict) -> bool:
        """Whether a move of an excluded topic is one that dead, draining or demoted brokers need."""
        if self.stays(key):
            return False
        if move["kind"] == "leader":
            return self.must_hand_over(key) or move["source"] in self.must_leave(key)
        if move["kind"] == "replica":
            alone = self.first_leader[key] in self.demoted and not self.heirs(key)
            return move["source"] in self.must_leave(key) or alone
        return False

    def wanted(self, key: tuple) -> int:
        """The number of replicas that a partition is to have: a name goes before patterns."""
        asked, has = self.resized, len(self.first_list[key])
        if self.excluded(key):
            return has
        return asked.get(key[0], next((n for name, n in asked.items() if fnmatchcase(key[0], name)), has))

    def missing_bytes(self) -> list[float]:
        """The bytes of every replica that is to be added where there is one to copy."""
        return [
            max(0, self.wanted(key) - len(self.first_list[key])) * self.size(key)
            for key, row in self.partitions.items()
        ]

    def factor_faults(self, lists: dict) -> list[str]:
        """What breaks a plan for another replication factor: that number, and racks and hosts of these."""
        faults = []
        for key in self.partitions:
            wanted = self.wanted(key)
            if wanted == len(self.first_list[key]):
                continue
            if len(lists[key]) != wanted:
                faults.append(f"{key} has {len(lists[key])} replicas, {wanted} are asked for")
                continue
            faults += [
                f"{key} on {lists[key]} crowds a {goal}"
                for goal in ("rack", "host")
                if goal in self.settings["goals"] and self._crowded(goal, lists[key])
            ]
        return faults

    def check_resized(self) -> None:
        """Nothing moves but what is added or dropped, of topics that another number is asked of."""
        for move in self.plan["moves"]:
            key = (move["topic"], move["partition"])
            if move["kind"] not in ("add", "drop", "leader"):
                self.fault(f"replication_factor, but move {move['order']} is of kind {move['kind']}")
            if self.wanted(key) == len(self.first_list[key]):
                self.fault(f"replication_factor, but {key} changes, of which none is asked")
        for key, first in self.first_list.items():
            if not (set(first) <= set(self.list[key]) or set(self.list[key]) <= set(first)):
                self.fault(f"{key} had {first}, and ends with {self.list[key]}: something moved")
            goes = set(first) - set(self.list[key])
            gone = {b for b in first if b in self.dead or self._offline_first(key, b)}
            if goes - gone and gone - goes:
                self.fault(f"{key} loses {goes}, and keeps {gone - goes}, which are offline")
            if self.leader[key] != self.first_leader[key] and self.first_leader[key] not in goes | gone | {
                None
            }:
                self.fault(f"{key} changes its leader, whose replica stays")

    def _offline_first(self, key: tuple, broker: int) -> bool:
        return self.dirs[broker].get(self._first_dir(key, broker)) == "offline"

    def placement_faults(self, lists: dict, leaders: dict, moved: bool) -> list[str]:
        """What breaks a hard goal of placement."""
        faults = []
        dirs_alone = self.settings.get("intra_broker_only") and not self.settings["fix_offline_replicas"]
        for key, brokers in lists.items():
            if dirs_alone:
                continue
            if gone := [broker for broker in brokers if broker in self.out_of_service]:
                faults.append(f"{key} has replicas on {gone}, dead or draining")
            if leaders[key] is None:
                faults.append(f"{key} has no leader")
            if leaders[key] in self.demoted:
                faults.append(f"{key} is led by {leaders[key]}, which is to lead nothing")
            for broker in brokers:
                path = self.dir_of.get((key, broker)) if moved else self._first_dir(key, broker)
                if self.dirs[broker].get(path) == "offline":
                    faults.append(f"{key} has a replica in the offline dir {path} of broker {broker}")
            faults += [
                f"{key} on {brokers} crowds a {goal}"
                for goal in ("rack", "host")
                if goal in self.settings["goals"] and not self.excluded(key) and self._crowded(goal, brokers)
            ]
        return faults

    def _first_dir(self, key: tuple, broker: int) -> str | None:
        row = self.partitions[key]
        return dict(zip(row["replicas"], row.get("log_dirs", []), strict=False)).get(broker)

    def _place(self, goal: str, broker: int) -> str:
        host = self.brokers[broker].get("host") or f"broker-{broker}"
        return host if goal == "host" else self.brokers[broker].get("rack") or host

    def _crowded(self, goal: str, brokers: list[int]) -> bool:
        """More replicas in one rack or host than an even spread over all those in service needs."""
        places = {self._place(goal, broker) for broker in self.brokers if broker not in self.out_of_service}
        held = [self._place(goal, broker) for broker in brokers]
        allowed = math.ceil(len(brokers) / max(1, len(places)))
        return max(held.count(place) for place in held) > allowed

    def level_faults(self, lists: dict, leaders: dict) -> tuple[list[str], list[str]]:
        """What breaks θ and what breaks ε."""
        _, usage, deviation = self.measures(lists, leaders)
        deviation = self._without_demoted(deviation, lists, leaders)
        theta, epsilon = (self._limit(name) for name in ("theta", "epsilon"))
        goals = self.settings["goals"]
        slack = 1 + 1e-9
        over = [
            f"broker {broker} {name} {value:.4f} > θ"
            for (broker, name), value in usage.items()
            if "theta" in goals and value > theta[name] * slack
        ]
        off = [
            f"broker {broker} {name} γ {value:.4f} > ε"
            for (broker, name), value in deviation.items()
            if "epsilon" in goals and value > epsilon[name] * slack and not self._idle(name, lists, leaders)
        ]
        return over, off

    def _without_demoted(self, deviation: dict, lists: dict, leaders: dict) -> dict:
        """Deviations of what leaders use, among the brokers that may lead: a demoted one cannot carry it."""
        shy = self.demoted
        if not shy:
            return deviation
        load, found = self.load(lists, leaders), {}
        for (number, name), value in deviation.items():
            if name not in ("cpu", "network_out"):
                found[number, name] = value
                continue
            if number in shy:
                continue
            among = [other for other, resource in deviation if resource == name and other not in shy]
            capacity = {other: self.brokers[other]["capacity"][name] for other in among}
            mean = sum(load[other][name] for other in among) / sum(capacity.values())
            found[number, name] = abs(load[number][name] / capacity[number] - mean) / mean if mean else 0.0
        return found

    def order_faults(self) -> list[str]:
        """Lists whose first broker does not lead, where that is asked of them."""
        shy = {*self.demoted, *(self.settings.get("excluded_brokers_for_leaders") or [])}
        shy |= {number for number, broker in self.brokers.items() if broker["state"] == "no_leaders"}
        return [
            f"{key} on {brokers} is led by {self.leader[key]}"
            for key, brokers in self.list.items()
            if "preferred_order" in self.settings["goals"] and self.leader[key] not in (None, brokers[0])
            if not self.excluded(key) and self.leader[key] not in (shy | self.out_of_service)
            if self.in_sync[key]
        ]

    def dir_faults(self) -> list[str]:
        """Log dirs above θ, or further than ε from their broker's mean, where that is asked."""
        if "log_dirs" not in self.settings["goals"]:
            return []
        held = self.dir_held()
        theta, epsilon = (self._limit(name)["disk"] for name in ("theta", "epsilon"))
        faults = []
        for number, broker in self.brokers.items():
            room = {
                one["path"]: one["capacity"]
                for one in broker.get("log_dirs", [])
                if one["state"] == "online" and "capacity" in one
            }
            if number in self.out_of_service or len(room) < 2:
                continue
            mean = sum(held[number, path] for path in room) / sum(room.values())
            for path, capacity in room.items():
                usage = held[number, path] / capacity
                far = abs(usage - mean) > epsilon * mean * (1 + 1e-9)
                if usage > theta * (1 + 1e-9):
                    faults.append(f"log dir {path} of broker {number} at {usage:.4f} > θ")
                elif far and mean > self.settings["min_utilization"] * (1 + 1e-12):
                    faults.append(f"log dir {path} of broker {number} at {usage:.4f}, mean {mean:.4f}")
        return faults

    def size(self, key: tuple) -> float:
        """Bytes of a copy."""
        row = self.partitions[key]
        return max(row["leader_load"]["disk"], row["follower_load"]["disk"])

    def _idle(self, name: str, lists: dict, leaders: dict) -> bool:
        """Used too little to be balanced, by a capacity that is known."""
        if name in self.snapshot.get("quality", {}).get("x_nominal_capacity", []):
            return False
        load = self.load(lists, leaders)
        counted = [
            number
            for number, broker in self.brokers.items()
            if number not in self.out_of_service and name in broker.get("capacity", {})
        ]
        capacity = sum(self.brokers[number]["capacity"][name] for number in counted)
        used = sum(load[number][name] for number in counted)
        return used < self.settings["min_utilization"] * capacity * (1 - 1e-12)

    def _limit(self, name: str) -> dict:
        limit = self.settings[name]
        return limit if isinstance(limit, dict) else dict.fromkeys(RESOURCES, limit)

    def check_switches(self) -> None:
        """A plan of `role_aware` says by which reading of the procedure it was made, no other has any."""
        switches = self.settings.get("role_aware")
        if (switches is not None) != (self.plan["strategy"] == "role_aware"):
            self.fault(f"strategy {self.plan['strategy']} with role_aware: {switches}")
        elif switches is not None and switches["literal"] and switches["repairs"]:
            self.fault(f"literal, and repaired by {switches['repairs']}")

    def check_maintenance(self) -> None:
        """Named brokers are there; `add` fills these alone."""
        added = set(self.settings.get("add") or [])
        for number in (*(self.settings.get("drain") or []), *self.demoted, *added):
            if number not in self.brokers:
                self.fault(f"broker {number} is named in the settings, and not there")
        if self.verb_alone and "epsilon" in self.settings["goals"]:
            self.fault(f"no rebalance is asked for, with goals {self.settings['goals']}")
        dirs_alone = self.settings.get("intra_broker_only") and not self.settings["fix_offline_replicas"]
        if dirs_alone and any(move["kind"] != "log_dir" for move in self.plan["moves"]):
            self.fault("intra_broker_only, but something else than a log dir changes")
        for key, first in self.first_list.items():
            if self.placement_faults({key: first}, self.first_leader, moved=False):
                continue
            arrived = set(self.list[key]) - set(first)
            if added and arrived - added:
                self.fault(f"{key} is copied to {arrived}, and {added} are to be filled")

    def is_opinion(self, problem: dict) -> bool:
        """The source's "add brokers" wherever replicas run out, unless the repair `proof` is in force."""
        switches = self.settings.get("role_aware", {"repairs": ["proof"]})
        return (
            problem["kind"] == "add_brokers"
            and "proof" not in switches["repairs"]
            and (problem.get("count"), problem.get("proof")) == (None, {})
            and "no proof" in problem["text"]
        )

    def check_verdict(self) -> None:
        verdict = self.plan["verdict"]
        problems = [problem for problem in self.plan["problems"] if not self.is_opinion(problem)]
        lifted = self.lifted()
        if self.resized:
            # Who was above θ before is for another plan.
            hard, over, off = self.factor_faults(self.list), lifted, list[Any]()
        else:
            hard = self.placement_faults(self.list, self.leader, moved=True)
            over, off = self.level_faults(self.list, self.leader)
            over = lifted if self.verb_alone else over
        full_hosts, off_hosts = self.host_faults(self.list, self.leader)
        full_dirs = [fault for fault in self.dir_faults() if fault.endswith("> θ")]
        if verdict == "balanced" and not self.plan["moves"]:
            # Rules that prove a goal out of reach leave nothing to do; the proofs are recounted below.
            settled = {
                one["resource"]
                for one in problems
                if one["kind"] != "unmet_goal" and one.get("proof", {}).get("goal") == "epsilon"
            }
            off = [fault for fault in off if fault.split()[2] not in settled]
        soft = off + off_hosts + [fault for fault in self.dir_faults() if fault not in full_dirs]
        soft += self.order_faults() + self.number_faults()
        limits = over + full_hosts + full_dirs
        everything = hard + limits + soft + self.level_faults(self.list, self.leader)[0]
        if verdict not in VERDICTS:
            self.fault(f"verdict is {verdict}")
        if verdict == "improved" and not self.plan["moves"]:
            self.fault(f"verdict is {verdict}, without moves")
        asked = hard if self.resized else [fault for key in self.list for fault in self.asked_for(key)]
        if verdict == "balanced" and (asked + limits + soft):
            found = asked + limits + soft
            self.fault(f"verdict is {verdict}, but {found[0]} ({len(found)} such)")
        if verdict == "improved" and (asked + limits):
            self.fault(f"verdict is improved, but {(asked + limits)[0]} ({len(asked + limits)} such)")
        if verdict == "incomplete" and hard:
            self.check_left_open(problems)
        if lifted and verdict in COMPLETE:
            self.fault(f"verdict is {verdict}, but {lifted[0]}, which was not ({len(lifted)} such)")
        if verdict != "balanced":
            if not everything:
                self.fault(f"verdict is {verdict}, but every goal holds")
            if not problems:
                self.fault(f"verdict is {verdict}, without any problem named")
        if verdict == "incomplete" and self.plan["moves"] and everything and not hard + limits:
            self.fault(f"verdict is incomplete, but only {soft[0]} ({len(soft)} such) and there are moves")
        if verdict == "infeasible" and not any(problem.get("proof") for problem in problems):
            self.fault("verdict is infeasible, without proof")
        for problem in problems:
            self.check_problem(problem)
        if self.resized:
            self.check_too_few(problems)
            return
        self.check_worsened(over)
        crowds = [problem for problem in problems if "copies_a_broker" in problem.get("proof", {})]
        for problem in crowds:
            self.check_crowded_brokers(problem)
        short = [
            problem
            for problem in problems
            if "choices" in problem.get("proof", {}) and "where" in problem["proof"]
        ]
        for problem in short:
            self.check_short_of_room(problem)
        few = [problem for problem in problems if problem["kind"] == "add_partitions"]
        for problem in few:
            self.check_add_partitions(problem)
        big = [problem for problem in problems if "allowed_bytes_a_replica" in problem.get("proof", {})]
        for problem in big:
            self.check_too_big(problem)
        few += [problem for problem in problems if "capacity_of_an_added_broker" in problem.get("proof", {})]
        if verdict == "infeasible" and not (over or short or few or crowds or big or full_hosts or full_dirs):
            self.check_could_be_placed()

    def check_problem(self, problem: dict) -> None:
        """A problem has a kind, a text, and for brokers to add a number that is needed."""
        if not problem.get("kind") or not problem.get("text"):
            self.fault(f"problem {problem} has no kind or text")
        if problem["kind"] != "add_brokers":
            return
        if not (isinstance(problem.get("count"), int) and problem["count"] > 0):
            self.fault(f"add_brokers without a count: {problem}")
        if problem.get("resource") in RESOURCES and "choices" not in problem["proof"]:
            self.check_add_brokers(problem)

    @property
    def dirs_alone(self) -> bool:
        """Only log dirs are asked for: nothing leaves its broker."""
        return bool(self.settings.get("intra_broker_only")) and not self.settings.get("fix_offline_replicas")

    @property
    def evacuates_all(self) -> bool:
        """Dead brokers, offline log dirs and partitions without leader are part of what is asked for."""
        others = ("drain", "fix_offline_replicas", "add", "rebalance")
        demotes_alone = self.demoted and not any(self.settings.get(name) for name in others)
        return not (self.resized or self.dirs_alone or demotes_alone)

    def asked_for(self, key: tuple) -> list[str]:
        """What breaks a hard goal in the end of a partition, as far as the request covers it.

        A verb alone leaves racks and hosts of partitions alone that it does not change, and a demotion alone
        what is dead or offline.
        """
        own = self.placement_faults({key: self.list[key]}, self.leader, moved=True)
        if not self.verb_alone:
            return own
        changed = set(self.list[key]) != set(self.first_list[key])
        newly = [
            f" crowds a {goal}"
            for goal in ("rack", "host")
            if changed and not self._crowded(goal, self.first_list[key])
        ]
        return [
            fault
            for fault in own
            if (fault.endswith(tuple(newly)) if " crowds a " in fault else self.evacuates_all)
            or "is to lead nothing" in fault
        ]

    def lifted(self) -> list[str]:
        """Brokers above θ in the end that were not above it."""
        before, _ = self.level_faults(self.first_list, self.first_leader)
        was = {text.rsplit(" ", 3)[0] for text in before}
        over, _ = self.level_faults(self.list, self.leader)
        was |= {text.rsplit(" ", 3)[0] for text in self.host_faults(self.first_list, self.first_leader)[0]}
        over += self.host_faults(self.list, self.leader)[0]
        return [text for text in over if text.rsplit(" ", 3)[0] not in was]

    def check_too_few(self, problems: list[dict]) -> None:
        """So many replicas were asked that no brokers are there for them: counted anew."""
        open_ = self.open_brokers()
        told = {p["proof"]["replication_factor"] for p in problems if "replication_factor" in p["proof"]}
        short = {
            self.wanted(key)
            for key, first in self.first_list.items()
            if self.wanted(key) > len(first) and len(open_ | set(first)) < self.wanted(key)
            if self.in_sync[key] or self.first_leader[key] is not None
        }
        if (told or short) and told != {max(short, default=0)}:
            self.fault(f"too few brokers for {short} replicas, told of {told}")

    def check_short_of_room(self, problem: dict) -> None:
        """A rack, host or cluster that must hold more than θ of its disks: counted anew."""
        proof, where = problem["proof"], problem["proof"]["where"]
        goal, _, label = where.partition(" ")
        service = [number for number in self.brokers if number not in self.out_of_service]
        place = (lambda b: "all") if where == "the cluster" else (lambda b: self._place(goal, b))
        label = "all" if where == "the cluster" else label
        here = [number for number in service if place(number) == label]
        needed = 0.0
        for key, row in self.partitions.items():
            leads_online = (
                self.dirs.get(row["leader"], {}).get(self._first_dir(key, row["leader"])) != "offline"
            )
            led = self.first_leader[key] is not None and leads_online
            if self.excluded(key) or not (self._in_sync(row) or led):
                continue
            copies = len(row["replicas"])
            asked = goal in self.settings["goals"]
            allowed = math.ceil(copies / len({place(number) for number in service})) if asked else copies
            elsewhere = 0
            for other in {place(number) for number in service} - {label}:
                there = sum(place(number) == other for number in service)
                # A verb alone leaves a crowd where it is.
                staying = set(row["replicas"]) - self.must_leave(key)
                was = sum(place(broker) == other for broker in staying)
                elsewhere += min(max(allowed, was) if self.verb_alone else allowed, there)
            size = max(row[role]["disk"] for role in ("leader_load", "follower_load"))
            needed += max(0, copies - elsewhere) * size
        room = proof["theta"] * sum(self.brokers[number]["capacity"]["disk"] for number in here)
        if not math.isclose(needed, proof["needed_bytes"], rel_tol=1e-9) or needed <= room:
            self.fault(
                f"{where} must hold {needed:g} bytes, {proof['needed_bytes']:g} told, {room:g} allowed"
            )

    def check_crowded_brokers(self, problem: dict) -> None:
        """Brokers that must hold more than they may, since the others take one copy of each partition."""
        proof = problem["proof"]
        big, small = set(proof["biggest_brokers"]), set(proof["other_brokers"])
        if big & small or big | small != set(self.serving()):
            self.fault(f"one copy a broker: {sorted(big)} and {sorted(small)} are not the brokers in service")
        needed = 0.0
        for key, row in self.partitions.items():
            moves = self._in_sync(row) or self.first_leader[key] is not None
            stay = len(set(self.first_list[key]) & small)
            copies = max(0, len(self.first_list[key]) - len(big)) if moves else stay
            needed += copies * self.size(key)
        room = sum(self.most_bytes(broker) for broker in small)
        if proof["needed_bytes"] > needed * (1 + 1e-6) or needed <= room:
            self.fault(
                f"brokers {sorted(small)} must hold {needed:g} bytes, {proof['needed_bytes']:g} told, "
                f"{room:g} allowed"
            )

    def check_too_big(self, problem: dict) -> None:
        """Partitions that must leave, and are more than any open broker may hold: counted anew."""
        most = max((self.most_bytes(broker) for broker in self.open_brokers()), default=0.0)
        left = [
            key
            for key, held in self.list.items()
            if set(held) & self.must_leave(key) and self.size(key) > most and not self.stays(key)
        ]
        if len(left) < problem["proof"]["partitions"]:
            told = problem["proof"]["partitions"]
            self.fault(f"{len(left)} partitions are too big for every broker that is open, {told} told")

    def most_bytes(self, broker: int) -> float:
        """The most that a broker may hold in the end: θ of its disk, or what it holds already."""
        capacity = self.brokers[broker].get("capacity", {}).get("disk", math.inf)
        held = self.load(self.first_list, self.first_leader)[broker]["disk"]
        if broker not in self.open_brokers():
            return held
        room = self._limit("theta")["disk"] * capacity
        return max(room, held) if self.verb_alone or "theta" not in self.settings["goals"] else room

    def open_brokers(self) -> set[int]:
        """Brokers that may be given replicas."""
        closed = set(self.settings.get("excluded_brokers_for_replicas") or [])
        return {
            number
            for number, broker in self.brokers.items()
            if broker["state"] not in ("dead", "draining", "no_new_replicas") and number not in closed
            if not self.dirs[number] or "online" in self.dirs[number].values()
        }

    def unsound(self) -> list[tuple[str, tuple | None]]:
        """Partitions that break a hard goal in the end, and brokers that would do, capacity aside."""
        found = []
        for key in self.partitions:
            if not self.stays(key) and (hard := self.asked_for(key)):
                found.append((hard[0], self.sound_place(key)))
        return found

    def check_could_be_placed(self) -> None:
        """Infeasible, and no broker over θ: then some partition has no sound place."""
        unsound = self.unsound()
        if unsound and all(place for _, place in unsound):
            fault, place = unsound[0]
            self.fault(f"verdict is infeasible, as {fault}, but {list(place or ())} would do")

    def check_left_open(self, problems: list[dict]) -> None:
        """Hard goals are broken, and no proof is given: they are named, and there is no simple proof."""
        verdict = self.plan["verdict"]
        if not any(problem["kind"] in ("unmet_goal", "limit_reached") for problem in problems):
            self.fault(f"verdict is {verdict}, a hard goal is broken, and no unmet_goal says so")
        if self.resized:
            return
        for fault, place in self.unsound():
            if place is None:
                self.fault(f"verdict is {verdict}, but {fault}, and no brokers would do")

    def sound_place(self, key: tuple) -> tuple | None:
        """Brokers that may hold the partition by every hard goal, found by trying all."""
        goals, row = self.settings["goals"], self.partitions[key]
        if not self._in_sync(row):
            return None
        offline = {
            broker
            for broker in row["replicas"]
            if self.dirs[broker].get(self._first_dir(key, broker)) == "offline"
        }
        # What an offline dir lost can come back to another dir of its broker, by way of some other.
        open_dir = {broker for broker, dirs in self.dirs.items() if not dirs or "online" in dirs.values()}
        stays = set(row["replicas"])
        if self.evacuates_all:
            stays -= self.out_of_service | (offline - open_dir)
        receives = {
            broker
            for broker in open_dir
            if self.brokers[broker]["state"] in ("alive", "new", "no_leaders")
            and broker not in (self.settings.get("excluded_brokers_for_replicas") or [])
        }
        back = offline
        if not receives - set(row["replicas"]):
            back = set()
            receives -= offline
            stays -= offline if self.evacuates_all else set()
        for place in itertools.combinations(sorted(stays | receives), len(row["replicas"])):
            leads = [
                broker
                for broker in place
                if (broker == self.first_leader[key] and broker not in self.demoted)
                or (
                    self.may_lead(broker)
                    and (broker in self._in_sync(row) or broker not in row["replicas"] or broker in back)
                )
            ]
            crowds = [goal for goal in ("rack", "host") if goal in goals and self._crowded(goal, list(place))]
            if self.verb_alone or self.excluded(key):
                crowds = [goal for goal in crowds if not self._crowded(goal, row["replicas"])]
            if leads and not crowds:
                return place
        return None

    def check_add_brokers(self, problem: dict) -> None:
        """More brokers are only needed if the total does not fit those that are there."""
        name = problem["resource"]
        if problem["proof"].get("goal") == "host_load":
            load, room = self.host_load(self.list, self.leader), self.host_capacity()
            total = sum(of[name] for of in load.values())
            if total <= self.host_limit("theta", name) * sum(of[name][0] for of in room.values()) * (
                1 - 1e-9
            ):
                self.fault(f"add_brokers for {name} of hosts, but a load of {total:g} fits")
            return
        theta = self._limit("theta")[name]
        capacity = [
            broker["capacity"].get(name)
            for number, broker in self.brokers.items()
            if number not in self.out_of_service and "capacity" in broker
        ]
        if None in capacity or not capacity:
            return
        total = 0.0
        for key, row in self.partitions.items():
            # Who has no leader only for want of room is to have one.
            asked = bool(self._in_sync(row)) and self.evacuates_all and not self.stays(key)
            led = self.leader[key] is not None or asked
            total += row["leader_load"][name] * led + row["follower_load"][name] * (len(self.list[key]) - led)
        if total <= theta * sum(capacity) * (1 - 1e-9):
            room = theta * sum(capacity)
            self.fault(
                f"add_brokers for {name}, but a load of {total:g} fits into θ times capacity, {room:g}"
            )

    def check_add_partitions(self, problem: dict) -> None:
        """More partitions are only needed where brokers are to lead more than a topic has."""
        brokers, missing = len(self.counted("topic leaders")), 0
        for topic, least in problem["proof"]["least_leaders"].items():
            lack = least * brokers - sum(key[0] == topic for key in self.partitions)
            asked = self.settings["min_leaders_per_topic"].items()
            if lack <= 0 or least != max(number for one, number in asked if fnmatchcase(topic, one)):
                self.fault(f"add_partitions for {topic}, which lacks {lack} for {least} on each of {brokers}")
            missing += lack
        if missing != problem["count"]:
            self.fault(f"add_partitions {problem['count']}, {missing} are missing")

    def check_worsened(self, over: list[str]) -> None:
        """Where nothing had to be evacuated and all brokers were within θ, they stay so."""
        was, _ = self.level_faults(self.first_list, self.first_leader)
        if over and not was and not self.placement_faults(self.first_list, self.first_leader, moved=False):
            self.fault(f"the plan carries over θ what was within it: {over[0]} ({len(over)} such)")


if __name__ == "__main__":
    found = check_files(Path(sys.argv[1]), Path(sys.argv[2]))
    print("\n".join(found) or "nothing is wrong")
    sys.exit(bool(found))
