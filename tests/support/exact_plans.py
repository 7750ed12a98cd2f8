"""The cheapest placement of a small cluster, solved exactly as a mixed-integer program by HiGHS."""

import math
from typing import Any

import highspy
import numpy as np

from support.plan_checker import RESOURCES
from support.request_checker import RequestJudge

THETA, EPSILON = 0.8, 0.25


def cheapest(brokers: list[dict], partitions: list[dict], is_balanced: bool) -> float | None:
    """Bytes that the cheapest placement copies, None if there is no placement.

    Parameters
    ----------
    brokers, partitions
        As `support.replica_clusters` makes them: states alive and draining, every replica in sync.
    is_balanced
        Whether ε is asked for as well as θ, racks and the emptying of draining brokers.
    """
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("mip_rel_gap", 0.0)
    serving = [b for b in brokers if b["state"] == "alive"]
    racks = {b["rack"] for b in serving}
    holds = {(i, b["id"]): solver.addBinary() for i, _ in enumerate(partitions) for b in serving}
    leads = {(i, b["id"]): solver.addBinary() for i, _ in enumerate(partitions) for b in serving}
    for i, p in enumerate(partitions):
        factor = len(p["replicas"])
        solver.addConstr(sum(holds[i, b["id"]] for b in serving) == factor)
        solver.addConstr(sum(leads[i, b["id"]] for b in serving) == 1)
        for b in serving:
            solver.addConstr(leads[i, b["id"]] <= holds[i, b["id"]])
        for rack in racks:
            inside = [holds[i, b["id"]] for b in serving if b["rack"] == rack]
            solver.addConstr(sum(inside) <= math.ceil(factor / len(racks)))
    for r in range(4):
        total = sum(
            p["leader_load"][r] + (len(p["replicas"]) - 1) * p["follower_load"][r] for p in partitions
        )
        mean = total / sum(b["capacity"][r] for b in serving)
        for b in serving:
            load = sum(
                p["follower_load"][r] * holds[i, b["id"]]
                + (p["leader_load"][r] - p["follower_load"][r]) * leads[i, b["id"]]
                for i, p in enumerate(partitions)
            )
            high = min(THETA, mean * (1 + EPSILON)) if is_balanced else THETA
            solver.addConstr(load <= high * b["capacity"][r])
            if is_balanced:
                solver.addConstr(load >= mean * (1 - EPSILON) * b["capacity"][r])
    solver.minimize(
        sum(
            p["leader_load"][1] * holds[i, b["id"]]
            for i, p in enumerate(partitions)
            for b in serving
            if b["id"] not in p["replicas"]
        )
        + 0.0 * next(iter(holds.values()))
    )
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        assert solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible
        return None
    return float(solver.getObjectiveValue())


def witness(judge: RequestJudge) -> float | None:
    """Bytes of the cheapest placement that does all that a request asks for, None if none is found.

    Only placements count that any order of copies reaches: brokers that receive have room for all that
    arrives before anything leaves, in one log dir.
    """
    brokers = sorted(judge.serving())
    if len(brokers) * len(judge.partitions) > MOST_CELLS:
        return None
    return _Program(judge, brokers).solved()


MOST_CELLS = 400
"""Brokers times partitions of the biggest cluster that is solved."""


class _Program:
    """A mixed-integer program of who holds and who leads each partition; all variables are 0 or 1."""

    def __init__(self, judge: RequestJudge, brokers: list[int]) -> None:
        self.judge, self.brokers = judge, brokers
        self.holds: dict[tuple[Any, int], int] = {}
        self.leads: dict[tuple[Any, int], int] = {}
        self.costs: list[float] = []
        self.rows: list[tuple[float, float, dict[int, float]]] = []

    def solved(self) -> float | None:
        """The bytes copied."""
        if not all(self._partition(key) for key in self.judge.partitions):
            return None
        self._loads()
        if not self.costs:
            return 0.0
        if any(not row and not lower <= 0 <= upper for lower, upper, row in self.rows):
            return None
        biggest = max(*self.costs, 1.0)
        solver = highspy.Highs()
        for option, value in (("output_flag", False), ("mip_max_nodes", 500), ("threads", 1)):
            solver.setOptionValue(option, value)
        columns = range(len(self.costs))
        none = np.zeros(0, dtype=np.int32)
        costs = np.array(self.costs) / biggest
        solver.addCols(
            len(costs), costs, np.zeros(len(costs)), np.ones(len(costs)), 0, none, none, np.zeros(0)
        )
        solver.changeColsIntegrality(
            len(costs), np.array(columns, dtype=np.int32), np.ones(len(costs), dtype=np.uint8)
        )
        starts = np.cumsum([0, *(len(row) for _, _, row in self.rows)])[:-1].astype(np.int32)
        index = np.array([column for _, _, row in self.rows for column in row], dtype=np.int32)
        values = np.array([value for _, _, row in self.rows for value in row.values()])
        lower, upper = (np.array([row[end] for row in self.rows]) for end in (0, 1))
        solver.addRows(len(self.rows), lower, upper, len(index), starts, index, values)
        solver.run()
        status, info = solver.getModelStatus(), solver.getInfo()
        stopped = status in (
            highspy.HighsModelStatus.kSolutionLimit,
            highspy.HighsModelStatus.kIterationLimit,
        )
        if status != highspy.HighsModelStatus.kOptimal and not (stopped and info.primal_solution_status == 2):
            return None
        return float(info.objective_function_value) * biggest

    def _variable(self, cost: float = 0.0) -> int:
        self.costs.append(cost)
        return len(self.costs) - 1

    def _row(self, lower: float, upper: float, row: dict[int, float]) -> None:
        self.rows.append((lower, upper, row))

    def _partition(self, key: Any) -> bool:
        """Its variables and its rules of placement; False where it can be held or led by nobody."""
        judge, row = self.judge, self.judge.partitions[key]
        first, led = judge.first_list[key], judge.first_leader[key]
        leaving = judge.must_leave(key) if judge.evacuates_all else set()
        stays = [broker for broker in first if broker not in leaving]
        wrong = judge.must_hand_over(key) if judge.evacuates_all else led in judge.demoted
        source = judge._in_sync(row)
        fixed = judge.stays(key) or not source
        if fixed and (leaving or (wrong and judge.stays(key))):
            return False
        held = []
        receive = set() if fixed else judge.open_brokers()
        added = set(judge.settings.get("add") or [])
        if added and not judge.placement_faults({key: first}, judge.first_leader, moved=False):
            # What need not move is copied to the added brokers alone.
            receive &= added
        for broker in self.brokers:
            if broker in leaving or (broker not in stays and broker not in receive):
                continue
            variable = self._variable(0.0 if broker in first else judge.size(key))
            self.holds[key, broker] = variable
            held.append(variable)
            alone = broker in judge.demoted and wrong and not judge.heirs(key)
            if (judge.excluded(key) and broker in stays and not alone) or fixed:
                self._row(1.0, 1.0, {variable: 1.0})
        wanted = len(first) - sum(broker not in self.brokers for broker in stays)
        if len(held) < wanted:
            return False
        self._row(wanted, wanted, dict.fromkeys(held, 1.0))
        if judge.rooted(key):
            self._detour(key)
        if not judge.excluded(key):
            self._spread(key, first, leaving)
        return self._leader(key, wrong, source)

    def _detour(self, key: Any) -> None:
        """One copy more where the leader alone leaves: another replica makes room first and comes back.

        That is at least 1 where the leader goes, less 1 for each other replica that goes.
        """
        first, led = self.judge.first_list[key], self.judge.first_leader[key]
        row = {self._variable(self.judge.size(key)): 1.0}
        for broker in first:
            if (key, broker) in self.holds:
                row[self.holds[key, broker]] = 1.0 if broker == led else -1.0
        self._row(2.0 - len(first), math.inf, row)

    def _leader(self, key: Any, wrong: bool, source: set[int]) -> bool:
        judge = self.judge
        first, led = judge.first_list[key], judge.first_leader[key]
        if not wrong and led not in self.brokers:
            return True
        if led is None and not judge.evacuates_all:
            return True
        roles = []
        for broker in self.brokers:
            if (key, broker) not in self.holds:
                continue
            keeps = broker == led and not wrong
            takes = judge.may_lead(broker) and (broker in source or broker not in first)
            if not keeps and (not takes or (judge.excluded(key) and not wrong)):
                continue
            variable = self._variable()
            self.leads[key, broker] = variable
            self._row(-1.0, 0.0, {variable: 1.0, self.holds[key, broker]: -1.0})
            roles.append(variable)
        self._row(1.0, 1.0, dict.fromkeys(roles, 1.0))
        return bool(roles)

    def _spread(self, key: Any, first: list[int], leaving: set[int]) -> None:
        judge = self.judge
        for goal in ("rack", "host"):
            if goal not in judge.settings["goals"]:
                continue
            places = {broker: judge._place(goal, broker) for broker in self.brokers}
            cap = math.ceil(len(first) / max(1, len(set(places.values()))))
            for place in sorted(set(places.values())):
                inside = [b for b in self.brokers if places[b] == place and (key, b) in self.holds]
                # A crowd stays as it is, and what leaves it does not come back.
                was = sum(judge._place(goal, broker) == place for broker in set(first) - leaving)
                most = max(cap, was) if judge.verb_alone else cap
                if len(inside) > most:
                    self._row(0.0, most, {self.holds[key, b]: 1.0 for b in inside})

    def _loads(self) -> None:
        judge = self.judge
        theta = judge._limit("theta")
        before = judge.load(judge.first_list, judge.first_leader)
        for broker in self.brokers:
            capacity = judge.brokers[broker].get("capacity", {})
            keys = [key for key in judge.partitions if (key, broker) in self.holds]
            for name in RESOURCES:
                if name not in capacity:
                    continue
                limit = theta[name] * capacity[name]
                if not judge.theta_asked:
                    limit = max(limit, before[broker][name])
                row: dict[int, float] = {}
                for key in keys:
                    loads = judge.partitions[key]
                    follows, leads = loads["follower_load"][name], loads["leader_load"][name]
                    row[self.holds[key, broker]] = follows / capacity[name]
                    if (key, broker) in self.leads:
                        row[self.leads[key, broker]] = (leads - follows) / capacity[name]
                    elif judge.first_leader[key] == broker and key not in {one for one, _ in self.leads}:
                        row[self.holds[key, broker]] = leads / capacity[name]
                self._row(-math.inf, limit / capacity[name], row)
            self._arrivals(broker, keys, before[broker]["disk"])

    def _arrivals(self, broker: int, keys: list[Any], held: float) -> None:
        """Room for all that arrives, in one log dir, before anything leaves."""
        judge = self.judge
        theta = judge._limit("theta")["disk"]
        capacity = judge.brokers[broker].get("capacity", {}).get("disk", math.inf)
        room = theta * capacity - held
        dirs = [one for one in judge.brokers[broker].get("log_dirs", []) if one["state"] == "online"]
        used = judge.first_dir_held
        frees = [theta * one["capacity"] - used[broker, one["path"]] for one in dirs if "capacity" in one]
        if frees and len(frees) == len(dirs):
            room = min(room, max(frees))
        arriving = [key for key in keys if broker not in judge.first_list[key]]
        if arriving and not math.isinf(room):
            scale = max(capacity, 1.0) if not math.isinf(capacity) else 1e12
            row = {self.holds[key, broker]: judge.size(key) / scale for key in arriving}
            self._row(-math.inf, max(0.0, room) / scale, row)
