"""An independent judge of requests: all that a plan was asked for is done, for no more bytes than it takes.

Beside `plan_checker`, which plays the moves and holds the ends against the goals, this one counts what a
request (drain, demote, fix_offline_replicas, replication_factor, evacuation of dead brokers) leaves undone,
looks for simple proofs that an input is beyond every plan, and holds the bytes against those that the request
needs. It knows the published formats alone, and uses nothing but the standard library.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable

from support.plan_checker import COMPLETE, RESOURCES, Judge

PRICE = 1.1
"""A verb may copy so many times the bytes that it needs."""

BARELY = 1 + 1e-9

Key = tuple[str, int]


class RequestJudge(Judge):
    """A plan against its snapshot, its request and its exit code.

    Parameters
    ----------
    code
        The exit code of `trimtab plan replicas`; None where only a plan was made.
    witness
        Finds some placement that does all that is asked, and the bytes that it copies; None where it finds
        none.
    """

    def __init__(
        self,
        snapshot: dict,
        plan: dict,
        code: int | None = None,
        witness: Callable[["RequestJudge"], float | None] | None = None,
    ) -> None:
        super().__init__(snapshot, plan)
        self.code = code
        self.witness = witness
        self.first_dir_held = self.dir_held()

    def faults(self) -> list[str]:
        """What is wrong; each fault begins with its kind, in brackets."""
        found = [f"[plan] {fault}" for fault in super().faults()]
        self.found = []
        for kind, check in (
            ("exit code", self.check_exit_code),
            ("incomplete", self.check_complete),
            ("counts", self.check_counts),
            ("impossible", self.check_impossible),
            ("possible", self.check_possible),
            ("bytes", self.check_bytes),
            ("needless", self.check_needless),
            ("price", self.check_price),
            ("limits", self.check_limits),
        ):
            check()
            found += [f"[{kind}] {fault}" for fault in self.found]
            self.found = []
        return found

    # ------------------------------------------------------------ what is asked for

    @property
    def theta_asked(self) -> bool:
        """No broker may be above θ in the end; else none may be that was not."""
        return "theta" in self.settings["goals"] and not self.verb_alone

    def undone(self) -> dict[str, Counter]:
        """What the request leaves undone: by kind, how many partitions, replicas and leaders."""
        found: dict[str, Counter] = {}

        def count(kind: str, unit: str, number: int) -> None:
            if number:
                found.setdefault(kind, Counter())[unit] += number

        for key, held in self.list.items():
            if self.resized:
                wrong = len(held) != self.wanted(key)
                count("replication_factor", "partitions", wrong)
                continue
            if self.dirs_alone:
                continue
            count("demote", "leaders", self.leader[key] in self.demoted - self.drained)
            if not self.evacuates_all:
                continue
            drained = [broker for broker in held if broker in self.drained]
            count("drain", "replicas", len(drained))
            count("drain", "partitions", bool(drained))
            count("drain", "leaders", self.leader[key] in self.drained)
            dead = [broker for broker in held if broker in self.dead]
            count("dead", "replicas", len(dead))
            count("dead", "partitions", bool(dead))
            offline = [
                broker
                for broker in held
                if broker not in self.out_of_service
                and self.dirs[broker].get(self.dir_of.get((key, broker))) == "offline"
            ]
            count("offline", "replicas", len(offline))
            count("offline", "partitions", bool(offline))
            count("leader", "partitions", self.leader[key] is None)
        return found

    def over_theta(self, lists: dict, leaders: dict) -> set[tuple[int, str]]:
        """Brokers in service above θ of a resource."""
        _, usage, _ = self.measures(lists, leaders)
        theta = self._limit("theta")
        return {(broker, name) for (broker, name), used in usage.items() if used > theta[name] * BARELY}

    # ------------------------------------------------------------ exit code and counts

    def check_exit_code(self) -> None:
        verdict = self.plan["verdict"]
        if self.code is not None and self.code != (0 if verdict in COMPLETE else 3):
            self.fault(f"verdict {verdict} ends with exit code {self.code}")

    def check_complete(self) -> None:
        """A plan that is complete by its verdict leaves nothing undone and no broker above θ."""
        if self.plan["verdict"] not in COMPLETE:
            return
        for kind, counts in self.undone().items():
            self.fault(f"verdict {self.plan['verdict']}, but {kind}: {dict(counts)} undone")
        over = self.over_theta(self.list, self.leader)
        if not self.theta_asked:
            over -= self.over_theta(self.first_list, self.first_leader)
        if over and "theta" in self.settings["goals"]:
            self.fault(f"verdict {self.plan['verdict']}, but {len(over)} above θ, as {sorted(over)[0]}")

    def check_counts(self) -> None:
        """What is undone is counted in the problems: broker by broker, where it is about brokers."""
        if self.plan["verdict"] in COMPLETE:
            return
        told = [problem.get("proof", {}) for problem in self.plan["problems"]]
        for kind, counts in self.undone().items():
            if kind not in ("drain", "dead", "offline", "demote"):
                if not _is_sum(counts["partitions"], [_numbers(proof) for proof in told]):
                    self.fault(f"{kind}: {dict(counts)} undone, and no problems count that")
                continue
            for broker, left in self.left_on_brokers(kind).items():
                if not any(proof.get("broker") == broker and left.items() <= proof.items() for proof in told):
                    self.fault(f"{kind}: {left} left on broker {broker}, and no problem counts that")

    def left_on_brokers(self, kind: str) -> dict[int, dict[str, int]]:
        """Replicas and leaders that are left where they must not be, by broker."""
        found: dict[int, dict[str, int]] = {}
        for key, held in self.list.items():
            for broker in held:
                offline = self.dirs[broker].get(self.dir_of.get((key, broker))) == "offline"
                left = {
                    "drain": broker in self.drained,
                    "dead": broker in self.dead,
                    "offline": offline and broker not in self.out_of_service,
                    "demote": broker in self.demoted and self.leader[key] == broker,
                }
                if left[kind]:
                    one = found.setdefault(broker, {"replicas": 0, "leaders": 0})
                    one["replicas"] += kind != "demote"
                    one["leaders"] += self.leader[key] == broker
        return found

    # ------------------------------------------------------------ impossible or possible

    def check_impossible(self) -> None:
        """Inputs that a simple proof shows to be beyond every plan are called so."""
        proof = next(iter(self.proofs()), None)
        if proof is not None and self.plan["verdict"] != "infeasible":
            self.fault(f"verdict {self.plan['verdict']}, but {proof}")

    def check_possible(self) -> None:
        """Nothing is called impossible, or left undone without a limit, where a placement does it all."""
        verdict = self.plan["verdict"]
        if self.witness is None or verdict in COMPLETE or self.dirs_alone or self.resized:
            return
        over = self.over_theta(self.list, self.leader)
        if not self.theta_asked:
            over -= self.over_theta(self.first_list, self.first_leader)
        if verdict == "incomplete" and not (self.undone() or over):
            # What is missed is about log dirs, which the witness knows nothing of.
            return
        if verdict == "infeasible" and not self.hard_goals_alone():
            return
        copied = self.witness(self)
        if copied is None:
            return
        if verdict == "infeasible":
            self.fault(f"verdict infeasible, but a placement does all that is asked for {copied:g} bytes")
        elif self.unlimited(copied):
            self.fault(f"verdict {verdict}, but a placement does all that is asked for {copied:g} bytes")

    def hard_goals_alone(self) -> bool:
        """Whether all that the problems prove is about requests, θ, racks and hosts."""
        soft = ("epsilon", "topic_leaders", "topic_replicas", "log_dirs")
        proven = [one for one in self.plan["problems"] if one.get("proof") and one["kind"] != "unmet_goal"]
        return not all(one["proof"].get("goal") in soft for one in proven)

    def unlimited(self, copied: float) -> bool:
        """Whether the limits of the request leave room for so many bytes, and for any number of moves."""
        most = self.settings.get("max_bytes")
        return self.settings.get("max_moves") is None and (most is None or copied <= most)

    def proofs(self) -> Iterable[str]:
        """Simple proofs that no plan does what is asked, each as a sentence."""
        if self.dirs_alone or self.resized:
            return
        yield from self.lost()
        yield from self.too_many_replicas()
        if self.evacuates_all and "theta" in self.settings["goals"]:
            yield from self.too_much()
            yield from self.too_big()
            yield from self.too_crowded()

    def lost(self) -> Iterable[str]:
        """Replicas that must leave, and nobody in sync to copy from."""
        for key, row in self.partitions.items():
            if self.stays(key) or self._in_sync(row):
                continue
            leaving = self.must_leave(key) & self.out_of_service if self.evacuates_all else set()
            if leaving and self.first_leader[key] not in set(self.first_list[key]) - self.must_leave(key):
                yield f"{key} must leave {sorted(leaving)}, and no replica in sync is online"

    def too_many_replicas(self) -> Iterable[str]:
        """Replicas that must leave, of partitions with more replicas than brokers are there for them."""
        for key, held in self.first_list.items():
            leaving = set(held) & self.out_of_service if self.evacuates_all else set()
            may_hold = self.open_brokers() | (set(held) - self.out_of_service)
            if not self.stays(key) and leaving and len(held) > len(may_hold):
                yield f"{key} has {len(held)} replicas, and {len(may_hold)} brokers may hold it"

    def too_much(self) -> Iterable[str]:
        """More load in all than all brokers may carry."""
        for name in RESOURCES:
            needed = sum(self.least_load(key, name) for key in self.partitions)
            room = self.limit(self.serving(), name)
            if needed > room * (1 + 1e-6):
                yield f"{name} of {needed:g} is more than all brokers may carry, {room:g}"

    def least_load(self, key: Key, name: str) -> float:
        """Load that a partition puts on brokers in service, whatever the plan."""
        row, held = self.partitions[key], self.first_list[key]
        if self.stays(key) or not self._in_sync(row) or not self.evacuates_all:
            held = [broker for broker in held if broker not in self.out_of_service]
            if self.stays(key) or self.first_leader[key] not in held:
                return min(row["leader_load"][name], row["follower_load"][name]) * len(held)
        return row["leader_load"][name] + row["follower_load"][name] * (len(held) - 1)

    def too_big(self) -> Iterable[str]:
        """A partition that is more than any broker may hold."""
        most = max((self.limit([number], "disk") for number in self.serving()), default=math.inf)
        for key, row in self.partitions.items():
            placed = self._in_sync(row) and not self.stays(key)
            if placed and self.size(key) > most * (1 + 1e-6):
                yield f"{key} of {self.size(key):g} bytes is more than any disk may hold, {most:g}"

    def too_crowded(self) -> Iterable[str]:
        """Brokers that must hold more than θ of their disks, since the others take one copy each at most.

        The others are the biggest few brokers, or all brokers outside one rack, of which each rack takes so
        many copies as its rule allows.
        """
        serving = sorted(
            self.serving(), key=lambda number: self.brokers[number].get("capacity", {}).get("disk", math.inf)
        )
        for most in range(1, min(4, len(serving))):
            small = serving[: len(serving) - most]
            needed = sum(
                max(0, len(self.first_list[key]) - most) * self.size(key) for key in self.whole_partitions()
            )
            room = self.limit(small, "disk")
            if needed > room * (1 + 1e-6):
                yield f"{needed:g} bytes must lie outside the {most} biggest brokers, and {room:g} may"
        if "rack" in self.settings["goals"] and not self.verb_alone:
            yield from self.crowded_racks(serving)

    def limit(self, brokers: list[int], name: str) -> float:
        """What brokers may carry in the end: θ of it, or what they do, where nobody has to come down to θ."""
        if name == "disk":
            return sum(self.most_bytes(broker) for broker in brokers)
        held = self.load(self.first_list, self.first_leader)
        theta = self._limit("theta")[name]
        rooms = {b: theta * self.brokers[b].get("capacity", {}).get(name, math.inf) for b in brokers}
        if self.theta_asked:
            return sum(rooms.values())
        return sum(max(room, held[broker][name]) for broker, room in rooms.items())

    def crowded_racks(self, serving: list[int]) -> Iterable[str]:
        racks = {number: self._place("rack", number) for number in serving}
        for rack in sorted(set(racks.values())):
            inside = [number for number in serving if racks[number] == rack]
            needed = 0.0
            for key in self.whole_partitions():
                if self.excluded(key):
                    continue
                copies = len(self.first_list[key])
                cap = math.ceil(copies / len(set(racks.values())))
                elsewhere = sum(
                    min(cap, size) for one, size in Counter(racks.values()).items() if one != rack
                )
                needed += max(0, copies - elsewhere) * self.size(key)
            room = self.limit(inside, "disk")
            if needed > room * (1 + 1e-6):
                yield f"rack {rack} must hold {needed:g} bytes by the rule of racks, and {room:g} may"

    def whole_partitions(self) -> Iterable[Key]:
        """Partitions all of whose replicas are in service in the end, if all that is asked is done."""
        return [key for key, row in self.partitions.items() if self._in_sync(row) and not self.stays(key)]

    # ------------------------------------------------------------ bytes

    def needed_bytes(self) -> float:
        """Bytes of all replicas that the request moves, adds, or rebuilds."""
        total = 0.0
        for key, held in self.first_list.items():
            if self.stays(key):
                continue
            if self.resized:
                total += max(0, self.wanted(key) - len(held)) * self.size(key)
                continue
            copies = len(self.must_leave(key)) if self.evacuates_all else 0
            led = self.first_leader[key]
            if not copies and led in self.demoted and not self.heirs(key):
                copies = 1
            total += copies * self.size(key)
        return total

    def check_bytes(self) -> None:
        """A verb alone copies what it needs, or what keeps every broker below θ, and no more."""
        if not self.verb_alone or self.dirs_alone:
            return
        copied, needed = self.plan["cost"]["bytes"], self.needed_bytes()
        if copied <= PRICE * needed + len(self.partitions):
            return
        if self.resized:
            self.fault(f"{copied:g} bytes are copied, {needed:g} are to be added")
            return
        least = None if self.witness is None else self.witness(self)
        if least is not None and copied > PRICE * max(least, needed) + len(self.partitions):
            self.fault(f"{copied:g} bytes are copied, {needed:g} must move, {least:g} would do")

    def check_needless(self) -> None:
        """A demotion copies no partition of which a replica in sync can lead, where no θ asks for it."""
        if not self.verb_alone or self.over_theta(self.first_list, self.first_leader):
            return
        if self.resized or self.dirs_alone:
            return
        arrived = {key for key in self.list if set(self.list[key]) - set(self.first_list[key])}
        needless = [
            key
            for key in sorted(arrived)
            if not self.must_leave(key) and (self.first_leader[key] not in self.demoted or self.heirs(key))
        ]
        if not needless:
            return
        # θ may ask for one all the same, where the request alone would pass it.
        least = None if self.witness is None else self.witness(self)
        if least is not None and least <= self.needed_bytes() * BARELY and not self.settings.get("drain"):
            spent = sum(self.size(key) for key in needless)
            self.fault(f"{len(needless)} partitions are copied needlessly, as {needless[0]}: {spent:g} bytes")

    def check_price(self) -> None:
        """Copies for ε gain at least `min_gain_per_copy`: as a whole, and where ε is missed each alone.

        The gain is the fall of the unevenness, divided by twice the share of all data that is copied.
        """
        if self.verb_alone or "epsilon" not in self.settings["goals"] or not self.plan["cost"]["bytes"]:
            return
        if any(self.settings.get(name) is not None for name in ("max_bytes", "max_moves")):
            return
        least = self.settings.get("min_gain_per_copy")
        if least is None:
            self.fault("copies are made for ε, and the plan states no price for them")
            return
        end = self.unevenness(self.list, self.leader)
        everything = sum(self.size(key) * len(held) for key, held in self.first_list.items())
        free = [key for key in self.list if not self.is_needed(key)]
        within = not self.over_theta(self.first_list, self.first_leader)
        if len(free) == len(self.list) and within:
            fall = self.unevenness(self.first_list, self.first_leader) - end
            share = self.plan["cost"]["bytes"] / everything
            if fall < 2 * least * share * (1 - 1e-6) - 1e-9:
                self.fault(
                    f"{share:.4%} of all data is copied for a gain of {fall / share / 2:.4f}, not {least}"
                )
        if not self.level_faults(self.list, self.leader)[1]:
            return
        for key in free:
            arrived = set(self.list[key]) - set(self.first_list[key])
            lists = {**self.list, key: self.first_list[key]}
            leaders = {**self.leader, key: self.first_leader[key]}
            share = len(arrived) * self.size(key) / everything
            if not share or self.lifts(lists, leaders):
                continue
            fall = self.unevenness(lists, leaders) - end
            if fall < 2 * least * share * (1 - 1e-6) - 1e-9:
                self.fault(
                    f"{key}: {share:.4%} of all data for a gain of {fall / share / 2:.4f}, not {least}"
                )

    def is_needed(self, key: Key) -> bool:
        """Whether a partition must change: its replicas, its leader, or the racks and hosts that it is on."""
        crowds = any(
            goal in self.settings["goals"] and self._crowded(goal, self.first_list[key])
            for goal in ("rack", "host")
        )
        return crowds or self.serves_request(key)

    def lifts(self, lists: dict, leaders: dict) -> bool:
        """Whether a broker is above θ, and higher than at the end of the plan."""
        _, usage, _ = self.measures(lists, leaders)
        _, end, _ = self.measures(self.list, self.leader)
        theta = self._limit("theta")
        return any(
            used > max(theta[name], end[broker, name]) * BARELY for (broker, name), used in usage.items()
        )

    def unevenness(self, lists: dict, leaders: dict) -> float:
        """The mean of γ² over the brokers, (N·σ)², summed over the resources that ε is asked of."""
        figures, usage, _ = self.measures(lists, leaders)
        return sum(
            (sigma * sum(resource == name for _, resource in usage)) ** 2
            for name, sigma in figures["sigma"].items()
            if not self._idle(name, self.list, self.leader)
        )

    # ------------------------------------------------------------ limits

    def check_limits(self) -> None:
        """Under limits the request comes first, and roles that cost nothing are handed over."""
        most_bytes, most_moves = self.settings.get("max_bytes"), self.settings.get("max_moves")
        if (most_bytes is None and most_moves is None) or self.resized or self.dirs_alone:
            return
        undone = self.undone()
        if not undone:
            return
        free = self.free_roles() if most_moves is None or len(self.plan["moves"]) < most_moves else []
        if free:
            self.fault(f"{len(free)} leaders could be handed over for nothing, as that of {free[0]}")
        other = [
            move for move in self.plan["moves"] if not self.serves_request((move["topic"], move["partition"]))
        ]
        if other and self.free_roles() and most_moves is not None:
            self.fault(f"{len(other)} moves serve no request, and the leader of {self.free_roles()[0]} stays")

    def serves_request(self, key: Key) -> bool:
        return bool(self.must_leave(key)) or self.must_hand_over(key)

    def free_roles(self) -> list[Key]:
        """Partitions still led from where they must not be, of which an heir would stay below θ as leader."""
        load = self.load(self.list, self.leader)
        theta = self._limit("theta")
        found = []
        for key, row in self.partitions.items():
            leader = self.leader[key]
            lost = leader is None or leader in self.drained
            wrong = leader in self.demoted or (lost and self.evacuates_all)
            if not wrong or self.stays(key):
                continue
            heirs = [
                broker
                for broker in self.list[key]
                if broker in self.in_sync[key] and self.may_lead(broker) and broker in self.first_list[key]
            ]
            for heir in heirs:
                room = self.brokers[heir].get("capacity", {})
                fits = all(
                    load[heir][name] + row["leader_load"][name] - row["follower_load"][name]
                    <= theta[name] * room.get(name, math.inf) * (1 - 1e-9)
                    for name in RESOURCES
                )
                if fits:
                    found.append(key)
                    break
        return found


def _numbers(proof: object) -> set[int]:
    """All whole numbers in a proof."""
    if isinstance(proof, bool):
        return set()
    if isinstance(proof, int):
        return {proof}
    if isinstance(proof, dict):
        return set().union(*(_numbers(one) for one in proof.values()))
    if isinstance(proof, list):
        return set().union(*(_numbers(one) for one in proof))
    return set()


def _is_sum(wanted: int, told: list[set[int]]) -> bool:
    """Whether a number is a sum of one number from each of some problems."""
    few = [numbers for numbers in told if numbers][:8]
    return any(
        sum(one) == wanted
        for size in range(1, len(few) + 1)
        for chosen in itertools.combinations(few, size)
        for one in itertools.product(*chosen)
    )


def check_request(
    snapshot: dict,
    plan: dict,
    code: int | None = None,
    witness: Callable[[RequestJudge], float | None] | None = None,
) -> list[str]:
    """What is wrong with a plan, its verdict and its exit code; empty if nothing is."""
    return RequestJudge(snapshot, plan, code, witness).faults()
