"""The judge of requests is judged: every fault that is planted in a sound plan is found, by its kind."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from support.exact_plans import witness
from support.plan_checker import Judge
from support.request_checker import RequestJudge, check_request

Document = dict[str, Any]

GB = 1_000_000_000


def broker(identity: int, rack: str | None = None, state: str = "alive", disk: int = 100 * GB) -> Document:
    """A broker of 100 GB that is hardly used."""
    capacity = {"cpu": 10.0, "disk": float(disk), "network_in": 1e8, "network_out": 1e8}
    return {"id": identity, "state": state, "rack": rack, "capacity": capacity}


def partition(number: int, replicas: list[int], size: int = 10, **fields: object) -> Document:
    """A partition of 10 GB, led by the first of its replicas."""
    leads = {"cpu": 0.1, "disk": float(size * GB), "network_in": 1e5, "network_out": 1e5}
    return {
        "topic": "t",
        "partition": number,
        "replicas": replicas,
        "leader": replicas[0],
        "in_sync": sorted(replicas),
        "leader_load": leads,
        "follower_load": {**leads, "cpu": 0.05, "network_out": 0.0},
        **fields,
    }


def snapshot(brokers: list[Document], partitions: list[Document]) -> Document:
    """A snapshot document."""
    return {
        "format": "trimtab/replicas-snapshot/1",
        "cluster": "planted",
        "taken_at": "2026-11-21T05:00:00Z",
        "brokers": brokers,
        "partitions": partitions,
        "quality": {"valid_share": 1.0, "oldest_sample_seconds": 60, "cpu": "measured"},
    }


def leader(number: int, source: int | None, target: int) -> Document:
    """A leadership that is handed over."""
    return {"kind": "leader", "partition": number, "source": source, "target": target, "bytes": 0}


def replica(number: int, source: int, target: int, size: int = 10) -> Document:
    """A replica that is copied."""
    return {
        "kind": "replica",
        "partition": number,
        "source": source,
        "target": target,
        "bytes": size * GB,
    }


def plan(document: Document, verdict: str, moves: list[Document], **settings: object) -> Document:
    """A plan document of these moves, with assignments, figures and costs that agree with them."""
    alone = {"drain", "demote", "fix_offline_replicas"} & set(settings) and "rebalance" not in settings
    goals = ["rack", "host", "theta"] if alone else ["rack", "host", "theta", "epsilon", "log_dirs"]
    made: Document = {
        "format": "trimtab/plan/1",
        "balancer": "replicas",
        "strategy": "trim",
        "seed": 0,
        "settings": {
            "theta": dict.fromkeys(("cpu", "disk", "network_in", "network_out"), 0.8),
            "epsilon": dict.fromkeys(("cpu", "disk", "network_in", "network_out"), 0.9),
            "min_utilization": 0.01,
            "goals": goals,
            "excluded_topics": [],
            "evacuate_excluded_topics": True,
            "min_gain_per_copy": 0.05,
            "fix_offline_replicas": False,
            **settings,
        },
        "snapshot": {"cluster": "planted", "taken_at": document["taken_at"], "sha256": "0" * 64},
        "verdict": verdict,
        "moves": [],
        "assignments": [],
        "predicted": {"before": {}, "after": {}},
        "cost": {"bytes": 0, "replica_moves": 0, "leader_moves": 0},
        "bound": {"bytes": 0, "proof": ""},
        "problems": [],
    }
    reason = {"goal": "drain", "resource": None, "before": None, "after": None, "limit": None, "text": "why"}
    for order, move in enumerate(moves, 1):
        why = {**reason, "broker": move["target"]}
        made["moves"].append({"order": order, "topic": "t", **move, "reason": why})
    return with_figures(document, made)


def with_figures(document: Document, made: Document) -> Document:
    """The plan with all that follows from its moves."""
    judge = Judge(document, made)
    for number, move in enumerate(made["moves"], 1):
        judge.check_move(number, move)
    changed = [
        key
        for key in judge.list
        if judge.list[key] != judge.first_list[key] or judge.leader[key] != judge.first_leader[key]
    ]
    made["assignments"] = [
        {
            "topic": key[0],
            "partition": key[1],
            "before": judge.first_list[key],
            "after": judge.list[key],
            "leader_after": judge.leader[key],
        }
        for key in changed
    ]
    made["predicted"] = {
        "before": judge.measures(judge.first_list, judge.first_leader)[0],
        "after": judge.measures(judge.list, judge.leader)[0],
    }
    kinds = [move["kind"] for move in made["moves"]]
    made["cost"] = {
        "bytes": sum(move["bytes"] for move in made["moves"]),
        "replica_moves": kinds.count("replica"),
        "leader_moves": kinds.count("leader"),
    }
    return made


def three_racks(**states: str) -> list[Document]:
    """Six brokers in three racks."""
    return [broker(b, f"r{b % 3}", states.get(f"b{b}", "alive")) for b in range(1, 7)]


def even() -> list[Document]:
    """Six partitions of two replicas, spread evenly."""
    pairs = [[1, 2], [2, 3], [3, 4], [4, 5], [5, 6], [6, 1]]
    return [partition(number, pair) for number, pair in enumerate(pairs)]


def drained() -> tuple[Document, Document]:
    """Broker 1 is emptied, and nothing else happens."""
    document = snapshot(three_racks(), even())
    moves = [replica(0, 1, 4), replica(5, 1, 4)]
    return document, plan(document, "balanced", moves, drain=[1])


def demoted() -> tuple[Document, Document]:
    """Broker 1 leads nothing; nothing is copied."""
    document = snapshot(three_racks(), even())
    return document, plan(document, "balanced", [leader(0, 1, 2)], demote=[1])


def stopped() -> tuple[Document, Document]:
    """No byte may be copied: broker 1 gives up its leader, keeps its replicas, and the plan says so."""
    document = snapshot(three_racks(), even())
    made = plan(document, "incomplete", [leader(0, 1, 2)], drain=[1], max_bytes=0)
    proof = {"goal": "drain", "broker": 1, "replicas": 2, "leaders": 0}
    made["problems"] = [
        {"kind": "unmet_goal", "text": "broker 1 holds 2 replicas", "count": None, "resource": None}
        | {"proof": proof}
    ]
    return document, made


def impossible() -> tuple[Document, Document]:
    """Broker 3 of three cannot be emptied: each partition has three replicas."""
    document = snapshot(
        [broker(b, f"r{b}") for b in (1, 2, 3)], [partition(0, [1, 2, 3]), partition(1, [2, 3, 1])]
    )
    made = plan(document, "infeasible", [], drain=[3])
    few = {"replication_factor": 3, "brokers_that_may_hold_them": 2}
    left = {"goal": "drain", "broker": 3, "replicas": 2, "leaders": 0}
    made["problems"] = [
        {"kind": "add_brokers", "text": "add 1", "count": 1, "resource": None, "proof": few},
        {"kind": "unmet_goal", "text": "2 stay", "count": None, "resource": None, "proof": left},
    ]
    return document, made


def balanced() -> tuple[Document, Document]:
    """Broker 1 holds two replicas more than the mean, broker 4 two fewer: one copy helps both."""
    rows = [partition(n, [1 + n % 6], 5) for n in range(12) if 1 + n % 6 != 4]
    rows += [partition(n, [1], 5) for n in (20, 21)]
    document = snapshot(three_racks(), rows)
    made = plan(document, "balanced", [replica(20, 1, 4, 5), replica(21, 1, 4, 5)])
    made["settings"]["epsilon"] = dict.fromkeys(("cpu", "disk", "network_in", "network_out"), 0.5)
    return document, with_figures(document, made)


def problem(kind: str, **proof: object) -> Document:
    """A problem with its proof."""
    return {"kind": kind, "text": "why", "count": None, "resource": None, "proof": proof}


def lifted() -> tuple[Document, Document]:
    """Broker 1 is emptied, and whoever takes its replica comes above θ of the CPU: 5 of 10 are in use."""
    half = {"cpu": 5.0, "disk": 10.0 * GB, "network_in": 1e5, "network_out": 1e5}
    rows = [partition(n, [n + 1], leader_load=half, follower_load=half) for n in range(3)]
    document = snapshot([broker(b) for b in (1, 2, 3)], rows)
    made = plan(document, "incomplete", [replica(0, 1, 2)], drain=[1])
    made["problems"] = [problem("unmet_goal", goal="theta", brokers=1, peak_usage=1.0)]
    return document, made


def too_big() -> tuple[Document, Document]:
    """Broker 1 cannot be emptied: it holds 60 GB of one partition, and others may hold 40 GB each."""
    there = [broker(1), *(broker(b, disk=50 * GB) for b in (2, 3, 4))]
    document = snapshot(there, [partition(0, [1], 60), partition(1, [2], 20)])
    made = plan(document, "infeasible", [], drain=[1])
    most = {"allowed_bytes_a_replica": 40.0 * GB, "partitions": 1}
    made["problems"] = [
        problem("conflicting_constraints", goal="theta", **most),
        problem("unmet_goal", goal="drain", broker=1, replicas=1, leaders=1),
    ]
    return document, made


SOUND = (balanced, drained, demoted, stopped, impossible, lifted, too_big)


@pytest.mark.parametrize("scene", SOUND)
def test_a_sound_plan_is_found_sound(scene: Callable[[], tuple[Document, Document]]) -> None:
    """Nothing is wrong with the plans that the faults are planted in."""
    document, made = scene()
    code = 3 if made["verdict"] in ("incomplete", "infeasible") else 0
    assert check_request(document, made, code, witness) == []


def drop_move(document: Document, made: Document) -> None:
    """The last move is lost."""
    del made["moves"][-1]


def drop_move_and_figures(document: Document, made: Document) -> None:
    """The last move is not made; all figures agree."""
    del made["moves"][-1]
    with_figures(document, made)


def verdict(value: str) -> Callable[[Document, Document], None]:
    """Another verdict."""

    def changed(document: Document, made: Document) -> None:
        made["verdict"] = value
        if value == "infeasible":
            proof = {"goal": "drain"}
            made["problems"] = [
                {"kind": "conflicting_constraints", "text": "no", "count": None, "resource": None}
                | {"proof": proof}
            ]

    return changed


def miscount(name: str) -> Callable[[Document, Document], None]:
    """One more in a count of a problem."""

    def changed(document: Document, made: Document) -> None:
        proof = next(one["proof"] for one in made["problems"] if name in one["proof"])
        proof[name] += 1

    return changed


def forget(document: Document, made: Document) -> None:
    """No problem is named but a goal that does not matter."""
    made["problems"] = [
        {"kind": "unmet_goal", "text": "uneven", "count": None, "resource": None, "proof": {"goal": "x"}}
    ]


def extra(*moves: Document) -> Callable[[Document, Document], None]:
    """Moves that nobody asked for; all figures agree."""

    def changed(document: Document, made: Document) -> None:
        for move in moves:
            last = copy.deepcopy(made["moves"][-1])
            made["moves"].append({**last, "order": len(made["moves"]) + 1, **move})
        with_figures(document, made)

    return changed


def retarget(index: int, target: int) -> Callable[[Document, Document], None]:
    """A move goes to another broker; all figures agree."""

    def changed(document: Document, made: Document) -> None:
        made["moves"][index]["target"] = target
        with_figures(document, made)

    return changed


def state(identity: int, value: str) -> Callable[[Document, Document], None]:
    """A broker is in another state."""

    def changed(document: Document, made: Document) -> None:
        next(one for one in document["brokers"] if one["id"] == identity)["state"] = value

    return changed


def out_of_sync(number: int, *brokers: int) -> Callable[[Document, Document], None]:
    """Replicas of a partition that lag."""

    def changed(document: Document, made: Document) -> None:
        row = document["partitions"][number]
        row["in_sync"] = [one for one in row["in_sync"] if one not in brokers]

    return changed


def cost(document: Document, made: Document) -> None:
    """A byte less than the moves copy."""
    made["cost"]["bytes"] -= 1


def prediction(document: Document, made: Document) -> None:
    """A figure that nobody computed."""
    made["predicted"]["after"]["peak_usage"]["disk"] *= 0.9


def full(identity: int, disk: int) -> Callable[[Document, Document], None]:
    """A broker has a smaller disk."""

    def changed(document: Document, made: Document) -> None:
        row = next(one for one in document["brokers"] if one["id"] == identity)
        row["capacity"]["disk"] = float(disk * GB)
        with_figures(document, made)

    return changed


def strong(identity: int) -> Callable[[Document, Document], None]:
    """A broker has ten times the CPU; all figures agree."""

    def changed(document: Document, made: Document) -> None:
        row = next(one for one in document["brokers"] if one["id"] == identity)
        row["capacity"]["cpu"] *= 10
        with_figures(document, made)

    return changed


def excluded(document: Document, made: Document) -> None:
    """The topic is excluded, and is to stay on brokers that are emptied."""
    made["settings"] |= {"excluded_topics": ["t"], "evacuate_excluded_topics": False}


def exchanged(document: Document, made: Document) -> None:
    """Two brokers change replicas of the same size instead."""
    for move, other in zip(made["moves"], (replica(0, 1, 2, 5), replica(1, 2, 1, 5)), strict=True):
        move |= other
    with_figures(document, made)


def unpriced(document: Document, made: Document) -> None:
    """The plan does not say what copies for ε may cost."""
    del made["settings"]["min_gain_per_copy"]


PLANTED = {
    "above θ, and another broker has room": (lifted, strong(3), "[possible] verdict incomplete"),
    "above θ, called balanced": (lifted, verdict("balanced"), "[incomplete]"),
    "a partition called too big for all, and one has room": (too_big, full(4, 100), "are too big for every"),
    "a partition too many called too big": (too_big, miscount("partitions"), "are too big for every broker"),
    "possible, called too big": (too_big, full(4, 100), "[possible] verdict infeasible"),
    "a move dropped": (drained, drop_move, "[plan] assignment"),
    "a drain cut short": (drained, drop_move_and_figures, "[incomplete]"),
    "a demotion cut short": (demoted, drop_move_and_figures, "[incomplete]"),
    "possible, called infeasible": (drained, verdict("infeasible"), "[plan] verdict is infeasible"),
    "undone, called balanced": (stopped, verdict("balanced"), "[incomplete]"),
    "undone, called improved": (stopped, verdict("improved"), "[incomplete]"),
    "impossible, called incomplete": (impossible, verdict("incomplete"), "[impossible]"),
    "impossible, called balanced": (impossible, verdict("balanced"), "[impossible]"),
    "one replica too many counted": (stopped, miscount("replicas"), "[counts] drain"),
    "one leader too many counted": (stopped, miscount("leaders"), "[counts] drain"),
    "replicas left that nobody names": (stopped, forget, "[counts] drain"),
    "a copy too many": (drained, extra(replica(2, 3, 6)), "[bytes]"),
    "a copy for a demotion": (demoted, extra(replica(0, 1, 4)), "[needless]"),
    "a role that costs nothing stays": (stopped, drop_move_and_figures, "[limits]"),
    "two replicas on one broker": (drained, retarget(0, 2), "[plan] move 1"),
    "a crowded rack": (drained, retarget(0, 5), "[plan] verdict is balanced, but ('t', 0) on"),
    "a copy to a dead broker": (drained, state(4, "dead"), "the target is dead"),
    "a copy to a closed broker": (drained, state(4, "no_new_replicas"), "the target is no_new_replicas"),
    "a copy from nobody in sync": (drained, out_of_sync(0, 1, 2), "no in-sync replica to copy from"),
    "a leader out of sync": (demoted, out_of_sync(0, 2), "in sync are [1]"),
    "a wrong sum": (drained, cost, "[plan] cost.bytes"),
    "a wrong prediction": (drained, prediction, "[plan] predicted.after"),
    "a disk above θ": (drained, full(4, 40), "fills the disk of broker 4"),
    "copies that gain nothing": (balanced, exchanged, "[price]"),
    "no price stated": (balanced, unpriced, "[price]"),
    "an excluded topic moved": (drained, excluded, "the topic is excluded"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    """A single error is injected into a valid plan or its snapshot, and the checker names it."""
    scene, plant, expected = PLANTED[name]
    document, made = scene()
    plant(document, made)
    code = 0 if made["verdict"] in ("balanced", "improved") else 3
    faults = check_request(document, made, code, witness)
    assert any(expected in fault for fault in faults), faults


@pytest.mark.parametrize(("scene", "code"), [(drained, 3), (stopped, 0)])
def test_a_wrong_exit_code_is_found(scene: Callable[[], tuple[Document, Document]], code: int) -> None:
    """Exit code 0 is for complete plans, 3 for the others."""
    document, made = scene()
    assert any(fault.startswith("[exit code]") for fault in check_request(document, made, code, witness))


def beyond(name: str) -> tuple[Document, Document]:
    """Inputs that a simple proof shows to be impossible, and the request."""
    racks = [broker(b, f"r{b}") for b in (1, 2, 3, 4)]
    small = [broker(1, disk=50 * GB), broker(2, disk=50 * GB), broker(3, disk=800 * GB), broker(4)]
    two = [broker(1, "r1"), broker(2, "r1"), broker(3, "r1"), broker(4, "r2", disk=50 * GB)]
    sized = [partition(n, [3, 1 + n % 2], 20) for n in range(3, 7)]
    return {
        "more than all disks": (snapshot(racks, [partition(n, [1, 2], 40) for n in range(5)]), {}),
        "more replicas than brokers": (snapshot(racks, [partition(0, [1, 2, 3, 4])]), {"drain": [1]}),
        "one copy a broker": (
            snapshot(small, [partition(n, [3, 4], 30) for n in range(3)] + sized),
            {"drain": [4]},
        ),
        "a rack too small": (snapshot(two, [partition(n, [1, 2], 20) for n in range(3)]), {}),
        "a partition too big": (snapshot(racks, [partition(0, [1], 90)]), {}),
        "nothing to copy from": (
            snapshot(racks, [partition(0, [1], in_sync=[], leader=None)]),
            {"drain": [1]},
        ),
    }[name]


@pytest.mark.parametrize(
    "name",
    [
        "more than all disks",
        "more replicas than brokers",
        "one copy a broker",
        "a rack too small",
        "a partition too big",
        "nothing to copy from",
    ],
)
def test_an_impossible_input_has_to_be_called_so(name: str) -> None:
    """The checker adds the proof to a plan called incomplete, and not to one called infeasible."""
    document, settings = beyond(name)
    for verdict_told, wrong in (("incomplete", True), ("infeasible", False)):
        made = plan(document, verdict_told, [], **settings)
        faults = [fault for fault in check_request(document, made) if fault.startswith("[impossible]")]
        assert bool(faults) == wrong, (verdict_told, faults)
        assert witness(RequestJudge(document, made)) is None
