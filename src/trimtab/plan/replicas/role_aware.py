"""`role_aware`: the paper's procedure, as printed or with named repairs. A baseline, never the default.

Source: Gao Zi-yan, Wang Yong, "Load balancing strategy of distributed messaging system for cloud services".
For each broker in turn and each resource: where B > θ or γ > ε, leaderships first (if the resource calls for
it): the broker's leaders by descending use, for each the follower brokers by ascending use; accepted if the
destination stays within θ and ε and nothing that this run has completed is spoiled; then replicas, by
descending use, to all brokers by ascending use; if they run out: "add brokers". The broker is left as soon as
it meets both. Its load is taken anew after every move.

Interpretation of points that the paper leaves open: the order of resources is CPU, network out, disk, network
in; "completed migrations" are the (broker, resource) pairs that this run has brought within both goals.
"""

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from trimtab.model.errors import PlanError
from trimtab.model.load import BoolArray, FloatArray
from trimtab.model.plan import Problem
from trimtab.model.replicas.plan import Plan
from trimtab.model.replicas.settings import CPU, DISK, NETWORK_IN, NETWORK_OUT, RESOURCES, ReplicasSettings
from trimtab.model.replicas.snapshot import ReplicasSnapshot
from trimtab.plan.replicas.arrays import Placement
from trimtab.plan.replicas.board import ReplicasBoard, give_lead_interpreted, move_interpreted, new_board
from trimtab.plan.replicas.budget import apply_limits
from trimtab.plan.replicas.outcome import plan_of
from trimtab.plan.replicas.problem import ReplicasProblem, problem_data
from trimtab.plan.replicas.repair import repair
from trimtab.plan.search.limits import TOLERANCE

ORDER: Final = (CPU, NETWORK_OUT, DISK, NETWORK_IN)

REPAIRS: Final = {
    "resource_roles": "leadership first for CPU and network out, as the paper's section 2 says; its "
    "step 2 prints in",
    "signed_deviation": "shed above the band only, and let a destination be below it; the paper's γ is "
    "absolute",
    "pull": "brokers below the band fetch; the paper's steps only shed, so a new broker never fills",
    "worst_first": "brokers by how far they are out; the paper takes them as they come",
    "passes": "go round again while something changes; the paper goes once",
    "in_sync": "leadership only to replicas in sync; the paper does not look",
    "placement": "racks and hosts spread, dead and draining brokers emptied; the paper knows neither",
    "proof": "brokers to add only where that is proven; the paper's verdict wherever a broker runs out of "
    "replicas to move",
}
"""Repairs that `literal=False` makes, by name."""

MAX_PASSES = 10


def plan(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> Plan:
    """Plan with the paper's procedure."""
    if settings.intra_broker_only:
        raise PlanError("intra_broker_only: role_aware knows no log dirs; plan with the strategy trim")
    if settings.replication_factor:
        raise PlanError(
            "replication_factor: role_aware adds and drops no replicas; plan with the strategy trim"
        )
    # The paper does not have them either: its plans are evaluated without them.
    settings = replace(settings, goals=tuple(goal for goal in settings.goals if goal != "log_dirs"))
    problem = problem_data(snapshot, settings)
    run = _leveled(problem)
    kept, cut = apply_limits(problem, Placement(run.board.place, run.board.lead))
    plan = plan_of(problem, "role_aware", kept, cut)
    switches = {
        "literal": settings.role_aware.literal,
        "repairs": [name for name in REPAIRS if name in run.repairs],
    }
    told = () if "proof" in run.repairs else run.verdicts()
    return replace(plan, settings={**plan.settings, "role_aware": switches}, problems=(*plan.problems, *told))


def repairs_of(settings: ReplicasSettings) -> frozenset[str]:
    """The repairs in force.

    Raises
    ------
    PlanError
        If one is not known.
    """
    if settings.role_aware.literal:
        return frozenset()
    named = settings.role_aware.repairs
    unknown = sorted(set(named or ()) - set(REPAIRS))
    if unknown:
        raise PlanError(f"role_aware.repairs: {', '.join(unknown)} not known; choose of {', '.join(REPAIRS)}")
    return frozenset(REPAIRS if named is None else named)


def _leveled(problem: ReplicasProblem) -> "_RoleAwareRun":
    """The run of the procedure, at its end."""
    run = _RoleAwareRun.start(problem)
    passes = MAX_PASSES if "passes" in run.repairs else 1
    for _ in range(passes):
        changed = run.changed
        for b in run.brokers_in_turn():
            for r in ORDER:
                run.relieve(b, r)
                if "pull" in run.repairs:
                    run.pull_load(b, r)
        if run.changed == changed:
            break
    return run


@dataclass(eq=False)
class _RoleAwareRun:
    """One run of the procedure over a board.

    Attributes
    ----------
    completed
        Shape (brokers, resources): goals that this run has met and will not spoil.
    run_out
        Shape (brokers, resources): its replicas ran out, at its latest turn, before it was within θ and ε.
    """

    problem: ReplicasProblem
    board: ReplicasBoard
    repairs: frozenset[str]
    mean: FloatArray
    theta: FloatArray
    epsilon: FloatArray
    completed: BoolArray
    run_out: BoolArray
    changed: int = field(default=0)

    @classmethod
    def start(cls, problem: ReplicasProblem) -> "_RoleAwareRun":
        settings, arrays = problem.settings, problem.arrays
        repairs = repairs_of(settings)
        load = problem.snapshot.broker_load()
        # The paper has neither hosts nor counts; the verdict includes them.
        arrays = arrays._replace(host_row=np.full_like(arrays.host_row, -1))
        board = new_board(
            arrays, *problem.initial_placement, load * arrays.inverse, problem.bare_limits(load)
        )
        if "placement" in repairs:
            repair(board, problem.biggest_first)
        run = cls(
            problem.filling,
            board,
            repairs,
            np.zeros(len(ORDER)),
            np.where(
                "theta" in settings.goals and not settings.is_scoped,
                np.array(settings.theta) * TOLERANCE,
                np.inf,
            ),
            # Finite without a goal: infinity times a mean of zero is not a number.
            np.where("epsilon" in settings.goals, np.array(settings.epsilon) * TOLERANCE, 1e300),
            np.zeros(problem.counted.shape, dtype=np.bool_),
            np.zeros(problem.counted.shape, dtype=np.bool_),
        )
        run.mean = np.nan_to_num(problem.mean(run.usage * np.nan_to_num(run.capacity, posinf=0.0)))
        return run

    @property
    def usage(self) -> FloatArray:
        """Utilisation of each broker (B), shape (brokers, resources)."""
        return self.board.band[:, 0]

    @property
    def capacity(self) -> FloatArray:
        return self.problem.snapshot.brokers.capacity

    def brokers_in_turn(self) -> list[int]:
        """By id, or the one that is furthest out first."""
        if "worst_first" not in self.repairs:
            return list(range(len(self.usage)))
        with np.errstate(invalid="ignore", divide="ignore"):
            out = np.where(
                self.problem.counted & (self.mean > 0), abs(self.usage - self.mean) / self.mean, 0.0
            )
        order: list[int] = np.argsort(-out.max(axis=1), kind="stable").tolist()
        return order

    def is_within_goals(self, usage: FloatArray) -> BoolArray:
        """True where utilisations, of shape (..., resources), meet θ and ε."""
        low = -np.inf if "signed_deviation" in self.repairs else self.mean * (1 - self.epsilon)
        high = np.where(self.mean > 0, self.mean * (1 + self.epsilon), np.inf)
        return np.asarray((usage <= self.theta) & (usage <= high) & (usage >= low))

    def leadership_first(self, r: int) -> bool:
        """True for resources for which leaderships move before data."""
        right = (CPU, NETWORK_OUT) if "resource_roles" in self.repairs else (CPU, NETWORK_IN)
        return r in right

    def relieve(self, b: int, r: int) -> None:
        """Steps 3 and 4 for a broker and resource: leaderships, then replicas, until within θ and ε."""
        if not self.problem.counted[b, r] or self.is_within_goals(self.usage[b])[r]:
            return
        if self.usage[b, r] < self.mean[r] and "signed_deviation" in self.repairs:
            return
        if self.leadership_first(r):
            self._shed_leaders(b, r)
        if not self.is_within_goals(self.usage[b])[r]:
            self._shed_replicas(b, r)
        self.completed[b, r] = bool(self.is_within_goals(self.usage[b])[r])
        self.run_out[b, r] = not self.completed[b, r]

    def _sitting(self, b: int, r: int, leading_only: bool) -> list[tuple[int, int]]:
        """(partition, slot) of the broker's replicas that balancing may move, by descending use."""
        rows, slots = np.nonzero(self.board.place == b)
        leads = self.board.lead[rows] == slots
        keep = (self.problem.free & self.problem.arrays.movable)[rows] & (leads | (not leading_only))
        rows, slots, leads = rows[keep], slots[keep], leads[keep]
        order = np.argsort(-self.problem.arrays.use[rows, leads.astype(np.int64), r], kind="stable")
        return list(zip(rows[order].tolist(), slots[order].tolist(), strict=True))

    def _spoils(self, brokers: "np.ndarray", after: FloatArray) -> BoolArray:
        """Shape (len(brokers),): whether a completed goal of theirs would no longer be met."""
        return np.asarray((self.completed[brokers] & ~self.is_within_goals(after)).any(axis=1))

    def _accepts(self, brokers: "np.ndarray", after: FloatArray, r: int) -> BoolArray:
        """True where destinations stay within θ and ε of the resource and nothing completed is spoiled."""
        free = ~self.problem.counted[brokers, r]
        return np.asarray((self.is_within_goals(after)[:, r] | free) & ~self._spoils(brokers, after))

    def _shed_leaders(self, b: int, r: int) -> None:
        arrays, board = self.problem.arrays, self.board
        for p, s in self._sitting(b, r, leading_only=True):
            more = arrays.use[p, 1] - arrays.use[p, 0]
            others = np.array(
                [t for t in range(board.place.shape[1]) if t != s and board.place[p, t] >= 0], dtype=np.int64
            )
            followers = board.place[p, others]
            after = self.usage[followers] + more * arrays.inverse[followers]
            allowed = self._accepts(followers, after, r) & arrays.may_lead[followers]
            if "in_sync" in self.repairs:
                allowed &= self._in_sync(p, followers)
            mine = self.usage[[b]] - more * arrays.inverse[[b]]
            if more[r] <= 0 or not allowed.any() or self._spoils(np.array([b]), mine)[0]:
                continue
            chosen = min(np.flatnonzero(allowed).tolist(), key=lambda i: (self.usage[followers[i], r], i))
            give_lead_interpreted(board, p, int(others[chosen]))
            self.changed += 1
            if self.is_within_goals(self.usage[b])[r]:
                return

    def _in_sync(self, p: int, followers: "np.ndarray") -> BoolArray:
        arrays = self.problem.arrays
        ready = set(arrays.initial[p][arrays.initial_in_sync[p]].tolist())
        known = set(arrays.initial[p].tolist())
        return np.array([f in ready or f not in known for f in followers.tolist()], dtype=np.bool_)

    def _destinations(self, p: int, s: int, r: int) -> BoolArray:
        """Shape (brokers,): permitted destinations of the replica by the procedure."""
        arrays, board = self.problem.arrays, self.board
        role = int(board.lead[p] == s)
        everyone = np.arange(len(self.usage))
        after = self.usage + arrays.use[p, role] * arrays.inverse
        if arrays.pinned[p] >= 0:
            return np.zeros(len(self.usage), dtype=np.bool_)
        allowed = arrays.may_receive & self._accepts(everyone, after, r)
        allowed[board.place[p][board.place[p] >= 0]] = False
        if role:
            allowed &= arrays.may_lead
        returning = arrays.initial[p][
            (arrays.initial[p] >= 0) & (arrays.leaving[p] | (bool(role) & ~arrays.initial_in_sync[p]))
        ]
        allowed[returning] = False
        if "placement" in self.repairs:
            allowed &= self._fits(p, s)
        return np.asarray(allowed)

    def _fits(self, p: int, s: int) -> BoolArray:
        """Shape (brokers,): where the slot crowds no rack or host that it does not crowd already."""
        arrays, place = self.problem.arrays, self.board.place[p]
        siblings = np.array([b for t, b in enumerate(place.tolist()) if b >= 0 and t != s], dtype=np.int64)
        fits = np.ones(len(self.usage), dtype=np.bool_)
        for group, cap in ((arrays.rack, arrays.rack_cap[p]), (arrays.host, arrays.host_cap[p])):
            held = np.bincount(group[siblings], minlength=int(group.max()) + 1)
            fits &= (held[group] < cap) | (group == group[place[s]])
        return fits

    def _shed_replicas(self, b: int, r: int) -> None:
        arrays, board = self.problem.arrays, self.board
        for p, s in self._sitting(b, r, leading_only=False):
            role = int(board.lead[p] == s)
            if arrays.use[p, role, r] <= 0:
                return
            mine = self.usage[[b]] - arrays.use[p, role] * arrays.inverse[[b]]
            allowed = self._destinations(p, s, r)
            if not allowed.any() or self._spoils(np.array([b]), mine)[0]:
                continue
            target = int(np.argmin(np.where(allowed, self.usage[:, r], np.inf)))
            move_interpreted(board, p, s, target)
            self.changed += 1
            if self.is_within_goals(self.usage[b])[r]:
                return

    def verdicts(self) -> tuple[Problem, ...]:
        """The paper's "add brokers", for each resource of which replicas ran out; without any proof."""
        ids = self.problem.snapshot.brokers.id
        return tuple(
            Problem(
                "add_brokers",
                f"{RESOURCES[r]}: on {out.sum()} of {len(out)} brokers, the first being {ids[out][0]}, "
                "replicas ran out before theta and epsilon were met; the paper then says to add brokers: its "
                "verdict, and no proof",
                resource=RESOURCES[r],
            )
            for r in ORDER
            if (out := self.run_out[:, r]).any()
        )

    def pull_load(self, b: int, r: int) -> None:
        """The repair `pull`: fetch from the fullest brokers, biggest first, until in the band."""
        counted, low = self.problem.counted, self.mean * (1 - self.epsilon)
        if not counted[b, r] or self.usage[b, r] >= low[r] or not self.problem.arrays.may_receive[b]:
            return
        for donor in np.argsort(-self.usage[:, r], kind="stable").tolist():
            if donor == b or not counted[donor, r] or self.usage[donor, r] <= self.mean[r]:
                continue
            for p, s in self._sitting(donor, r, leading_only=False):
                load = self.problem.arrays.use[p, int(self.board.lead[p] == s)]
                left = self.usage[[donor]] - load * self.problem.arrays.inverse[[donor]]
                if load[r] <= 0 or left[0, r] < low[r] or not self._destinations(p, s, r)[b]:
                    continue
                move_interpreted(self.board, p, s, b)
                self.changed += 1
                if self.usage[b, r] >= low[r]:
                    return
