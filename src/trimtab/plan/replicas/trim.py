"""`trim`: the fewest bytes, then the fewest moves, that meet the goals.

It makes the necessary moves (`repair`), descends towards the inner band, and reverts moves that the goals do
not need. In small clusters the search continues (`trimtab.plan.search.rounds`).

If `replication_factor` requests another number of replicas, replicas are only added or dropped (`resized`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trimtab.model.documents import Quality, SnapshotReference
from trimtab.model.load import BoolArray, IntArray
from trimtab.model.plan import Problem, Verdict
from trimtab.model.replicas.plan import Plan
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.model.replicas.snapshot import (
    LogDirs,
    Partitions,
    ReplicaBrokers,
    ReplicaBrokerState,
    ReplicasSnapshot,
)
from trimtab.plan.replicas.arrays import Placement
from trimtab.plan.replicas.board import (
    SPREAD,
    ReplicasBoard,
    new_board,
    set_topics,
    topic_potential,
    topic_table,
)
from trimtab.plan.replicas.budget import apply_limits, breaks_rules, worthwhile
from trimtab.plan.replicas.choices import feasible_below_theta
from trimtab.plan.replicas.descent import anneal, balance, revert_partition
from trimtab.plan.replicas.factor import problem_with_vacancies
from trimtab.plan.replicas.headroom import relax_constraints, with_leaders_moved
from trimtab.plan.replicas.outcome import PlanPath, path_of, plan_of
from trimtab.plan.replicas.problem import ReplicasProblem, problem_data
from trimtab.plan.replicas.repair import (
    LAGGING,
    LEAVING_BROKER,
    OFFLINE,
    SOUND,
    add_missing,
    drop_spare,
    repair,
)
from trimtab.plan.search.board import NEGLIGIBLE, set_limits
from trimtab.plan.search.limits import MARGIN, potential
from trimtab.plan.search.rounds import CHANGES, MOVE_COSTS, RETRIES, Rating, SearchBudget, heats, improved

EFFORT = SearchBudget(free=100_000, per_second=200_000)
LEAST_CHANGES, MOST_CHANGES = 200_000, 600_000
"""Random changes of one annealing, at least and at most."""

PRICINGS = 8
"""Maximum number of times that the price is applied to the remaining copies."""

DETOURS = 4
"""Maximum number of further searches if disks are too full for a part of the path."""

WITHOUT_FURTHER_COPIES = 2
"""Number of the last search for a request that copies only partitions which the request concerns."""

MISSED = {"theta", "drain", "offline", "demote", "leader", "rack", "host"}
"""Goals of problems for which all lawful sets of brokers are tried."""

CHUNK = 1 << 16
"""Random changes drawn at a time."""


def plan(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> Plan:
    """Make a plan with the strategy `trim`."""
    if settings.replication_factor:
        return resized(snapshot, settings)
    problem = problem_data(snapshot, settings)
    made = _plan_to(problem, *_passable(problem))
    return _with_choices(problem, made) if _misses(made) or _may_copy_less(problem, made) else made


def _plan_to(problem: ReplicasProblem, path: PlanPath, dear: Problem | None) -> Plan:
    kept, cut = apply_limits(problem, path.placement)
    return plan_of(problem, "trim", kept, cut, dear, path if cut is None else None)


def _misses(made: Plan) -> bool:
    """Whether a request or θ is missed without a proof that it must be."""
    missed = {one.proof.get("goal") for one in made.problems if one.kind == "unmet_goal"}
    return made.verdict is Verdict.INCOMPLETE and bool(missed & MISSED)


def _may_copy_less(problem: ReplicasProblem, made: Plan) -> bool:
    """Whether a request copies more bytes than it provably needs, and only bytes count."""
    arrays, dear = problem.arrays, made.cost.bytes > made.bound.bytes
    return problem.scoped and dear and made.verdict.is_complete and np.array_equal(arrays.price, arrays.size)


def _with_choices(problem: ReplicasProblem, made: Plan) -> Plan:
    """A plan that misses nothing, if one is found among all lawful sets of brokers of a small cluster.

    It is balanced if requested, as long as no request is missed for that. If the first plan misses nothing
    either, the one with fewer copied bytes is chosen.
    """
    found = feasible_below_theta(problem)
    if found is None:
        return made
    if not problem.scoped:
        plan = _plan_to(problem, *_worthwhile(problem, problem, _searched(problem, found)))
        if not _misses(plan):
            return plan
    plan = _plan_to(problem, path_of(problem, found), None)
    better = _misses(made) or plan.cost.bytes < made.cost.bytes
    return plan if better and not _misses(plan) else made


def searched(problem: ReplicasProblem) -> Placement:
    """The final placement of `trim`; other rules are relaxed if a disk would be filled above θ."""
    search = _scoped_search if problem.scoped else _searched
    return with_leaders_moved(problem, relax_constraints(problem, search(problem), search))


def _worthwhile(
    problem: ReplicasProblem, rest: ReplicasProblem, placement: Placement
) -> tuple[PlanPath, Problem | None]:
    """The path to a placement without copies that cost too much, and the problem that reports them.

    The price is applied again to the part for which disks have space: its gain differs from that of the
    whole.

    Parameters
    ----------
    rest
        The problem without the partitions that stay: the searched part.
    """

    def lawful() -> Placement:
        return repaired(rest) if breaks_rules(rest).any() else rest.initial_placement

    placement, dear = worthwhile(rest, lawful, placement)
    path = path_of(problem, placement)
    for _ in range(PRICINGS):
        if not len(path.held):
            break
        placement, said = worthwhile(rest, lawful, path.placement, dear)
        if said is dear:
            break
        shorter, dear = path_of(problem, placement), said
        path = replace(shorter, held=np.union1d(path.held, shorter.held).astype(np.int32))
    return path, dear


def _passable(problem: ReplicasProblem) -> tuple[PlanPath, Problem | None]:
    """The path to the placement found; if disks are too full for a part of it, the path to another one.

    Copies wait for one another where disks are nearly full: each would fill its destination before what makes
    room there has gone. Blocked partitions stay in place in the next search, which balances by other moves.
    """
    path, cut = _worthwhile(problem, problem, searched(problem))
    best = path
    held = np.zeros(len(problem.arrays.movable), dtype=np.bool_)
    for _ in range(DETOURS):
        blocked = path.held[~problem.arrays.leaving[path.held].any(axis=1)]
        blocked = blocked[problem.initial_leader[blocked] >= 0]
        if not len(blocked):
            break
        held[blocked] = True
        arrays = problem.arrays._replace(movable=problem.arrays.movable & ~held)
        rest = replace(problem, arrays=arrays, free=problem.free & ~held)
        path, dear = _worthwhile(problem, rest, searched(rest))
        if _rating(problem, path.placement).key < _rating(problem, best.placement).key:
            best, cut = path, dear
    return best, cut


def _scoped_search(problem: ReplicasProblem) -> Placement:
    """The placement after the moves that a request needs.

    Other partitions change only if a broker would be above θ without that: first leaders, then replicas. The
    result is the first placement within θ with the bytes that the request needs, otherwise the one with the
    fewest bytes.
    """
    lawful = repaired(problem)
    touched = problem.changed(lawful)
    closed = np.zeros_like(problem.arrays.may_receive)
    leaders = replace(problem, arrays=problem.arrays._replace(may_receive=closed))
    tries = [
        (leaders, problem.free & touched),
        (problem, problem.free & touched),
        (leaders, problem.free),
        (problem, problem.free),
    ]
    needed = _rating(problem, lawful).cost
    best, least = lawful, (np.inf, np.inf)
    for turn, (rules, movable) in enumerate(tries):
        found = _searched(rules, lawful, movable)
        breach, cost, _ = _rating(problem, found).key
        if (breach, cost) < least:
            best, least = found, (breach, cost)
        if least[0] == 0.0 and (least[1] <= needed or turn == WITHOUT_FURTHER_COPIES):
            break
    return best


def _searched(
    problem: ReplicasProblem, lawful: Placement | None = None, movable: BoolArray | None = None
) -> Placement:
    """The best placement found from a lawful one, with changes to the movable partitions alone."""
    lawful = repaired(problem) if lawful is None else lawful
    replicas = int((problem.arrays.initial >= 0).sum())
    settled = _settled(problem.filling, lawful, problem.free if movable is None else movable)
    search = ReplicasSearch(settled, lawful, _changes(replicas))
    first = search.balanced(lawful, MARGIN, MOVE_COSTS[0])
    settings = problem.settings
    return improved(
        search,
        first,
        replicas,
        EFFORT,
        settings.time_budget_seconds,
        settings.seed,
        anneals=search.changes > 0,
    )


def repaired(problem: ReplicasProblem) -> Placement:
    """The placement after the necessary moves."""
    board = board_of(problem, problem.initial_placement, MARGIN)
    repair(board, problem.biggest_first)
    return Placement(board.place, board.lead)


def board_of(problem: ReplicasProblem, start: Placement, share: float) -> ReplicasBoard:
    """A board for a placement, with `share` of ε around its own mean."""
    borne, arrays = problem.carried_load(start), problem.wide
    limits, topics = problem.limits(borne, share), problem.topics
    if topics is None:
        return new_board(arrays, *start, borne * arrays.inverse, limits)
    table = topic_table(topics, start.place, start.leader, share)
    return new_board(arrays, *start, borne * arrays.inverse, limits, topics.row, table)


def _settled(problem: ReplicasProblem, lawful: Placement, movable: BoolArray) -> ReplicasProblem:
    """The same problem, but pinned leaders that could be freed stay as `repair` left them.

    They needed a copy for their transfer, and a later change of that copy would pin them again. The same
    holds for demoted leaders that no other replica can replace immediately.
    """
    pinned = problem.arrays.pinned
    rows = np.arange(len(pinned))
    slot = np.maximum(pinned, 0)
    freed = (pinned >= 0) & problem.demoted
    freed |= (pinned >= 0) & (lawful.place[rows, slot] != problem.arrays.initial[rows, slot])
    return replace(problem, arrays=problem.arrays._replace(movable=movable & ~freed))


def _rating(problem: ReplicasProblem, placement: Placement) -> Rating:
    """Distance from the goals, bytes copied, moves made."""
    borne = problem.carried_load(placement)
    breach = potential(problem.limits(borne), borne * problem.carriers.inverse)
    if problem.topics is not None:
        table = topic_table(problem.topics, placement.place, placement.leader)
        breach += float(topic_potential(table).sum())
    copies = problem.copies(placement.place)
    new_leaders = int((placement.leader != problem.initial_placement.leader).sum())
    copied, moves = float((copies * problem.arrays.price).sum()), int(copies.sum()) + new_leaders
    return Rating(breach, copied, moves, breach <= NEGLIGIBLE and copied == 0 and moves <= 1)


def _changes(replicas: int) -> int:
    """Random changes of one annealing; none where a cluster is too big to try enough of them."""
    if CHANGES * replicas > 2 * MOST_CHANGES:
        return 0
    return min(max(CHANGES * replicas, LEAST_CHANGES), MOST_CHANGES)


@dataclass(frozen=True, eq=False)
class ReplicasSearch:
    """The steps of a round, see `trimtab.plan.search.rounds.RoundSearch`.

    Attributes
    ----------
    lawful
        The snapshot's placement after what had to move: where partitions are sent back to.
    changes
        Random changes of one annealing.
    """

    problem: ReplicasProblem
    lawful: Placement
    changes: int

    def rating(self, placement: Placement) -> Rating:
        """Distance from the goals, bytes copied, moves made."""
        return _rating(self.problem, placement)

    def balanced(self, start: Placement, margin: float, move_cost: float) -> Placement:
        """Descend to `margin` of the band, then send home what the goals do not need."""
        problem = self.problem
        board = board_of(problem, start.in_slots_of(problem.arrays.initial), margin)
        self._descend(board, move_cost)
        if (board.potentials[:, [0, SPREAD]] > NEGLIGIBLE).any():
            # The band moved with the mean, or the margin was too narrow to be met: once more towards the
            # goals themselves.
            self._descend(board, move_cost)
        return Placement(board.place, board.lead)

    def _descend(self, board: ReplicasBoard, move_cost: float) -> None:
        problem = self.problem
        balance(board, self._floor(move_cost), RETRIES)
        reached = Placement(board.place, board.lead)
        borne = problem.carried_load(reached)
        set_limits(board, borne * problem.carriers.inverse, problem.limits(borne))
        if problem.topics is not None:
            set_topics(board, topic_table(problem.topics, reached.place, reached.leader))
        revert_partition(board, problem.biggest_first, problem.initial_leader)

    def _floor(self, move_cost: float) -> float:
        """Fixed cost of a move in bytes, besides its copy."""
        size = self.problem.arrays.price
        return move_cost * float(size.mean() if len(size) else 0.0) + 1.0

    def annealed(self, random: np.random.Generator, price: float, margin: float) -> Placement:
        """A placement far from the lawful one, near a deep minimum of potential and price."""
        arrays = self.problem.arrays
        board = board_of(self.problem, self.lawful, margin)
        dear = arrays.price + self._floor(MOVE_COSTS[0])
        prices = price * dear / float((dear * (arrays.initial >= 0).sum(axis=1)).sum())
        falling = heats(self.changes)
        for first in range(0, self.changes, CHUNK):
            part = falling[first : first + CHUNK]
            anneal(board, prices, part, random.random((len(part), 6)))
        return Placement(board.place, board.lead)

    def partly_reverted(self, best: Placement, random: np.random.Generator, share: float) -> Placement:
        """`best` with some of its partitions reverted to the lawful placement."""
        lawful = self.lawful
        changed = np.flatnonzero((best.place != lawful.place).any(axis=1) | (best.lead != lawful.lead))
        chosen = changed[random.random(len(changed)) < share]
        place, lead = best.place.copy(), best.lead.copy()
        place[chosen], lead[chosen] = lawful.place[chosen], lawful.lead[chosen]
        return Placement(place, lead)


EVALUATED = ("rack", "host", "theta")
"""The goals for the evaluation of such a plan, if requested."""

RESIZE_PASSES = 3
"""Number of passes over the choices of all partitions."""


def resized(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> Plan:
    """The plan that gives topics the number of replicas that `replication_factor` asks for.

    Raises
    ------
    PlanError
        If the setting meets no topic, or asks two numbers of one.
    """
    problem = problem_with_vacancies(snapshot, settings)
    placement = relax_constraints(problem, resized_placement(problem), resized_placement)
    goals = tuple(goal for goal in problem.settings.goals if goal in EVALUATED)
    judged = replace(problem, settings=replace(problem.settings, goals=goals), topics=None)
    kept, cut = apply_limits(judged, placement)
    return plan_of(judged, "trim", kept, cut)


def resized_placement(problem: ReplicasProblem) -> Placement:
    """The placement with replicas added and dropped."""
    arrays, first, wanted = problem.wide, problem.brokers, problem.target_factor
    have = ((arrays.initial >= 0) & (arrays.initial < first)).sum(axis=1)
    order = problem.biggest_first
    more, less = (order[side[order]] for side in ((wanted > have), (wanted > 0) & (wanted < have)))
    fewer = np.where(wanted > 0, np.maximum(have - wanted, 0), 0).astype(np.int32)
    start = placement = problem.initial_placement
    used = problem.carried_load(start) * arrays.inverse
    for _ in range(2):
        # The target mean includes added replicas, so it is known once they are placed somewhere.
        limits = problem.limits(problem.carried_load(placement), MARGIN)
        board = new_board(arrays, *start, used, limits)
        drop_spare(board, less, fewer, _ranks(problem), start.lead, first, RESIZE_PASSES)
        add_missing(board, more, first, RESIZE_PASSES)
        placement = Placement(board.place, board.lead)
    return placement


def _ranks(problem: ReplicasProblem) -> IntArray:
    """Shape (partitions, width): rank of each replica."""
    arrays, state = problem.arrays, problem.snapshot.brokers.state
    parts = problem.snapshot.partitions
    of = state[np.maximum(arrays.initial, 0)]
    ranks = np.where(parts.in_sync, SOUND, LAGGING)
    ranks = np.where(of == ReplicaBrokerState.DRAINING, LEAVING_BROKER, ranks)
    return np.ascontiguousarray(
        np.where((of == ReplicaBrokerState.DEAD) | problem.offline, OFFLINE, ranks), np.int32
    )


def warm_up(
    settings: Sequence[ReplicasSettings] = (ReplicasSettings(),), hosts: tuple[str, ...] = ("a", "b", "c")
) -> None:
    """Plan something tiny, so that the first real plan does not wait for the compiler."""

    def indices(*values: object) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
        return np.array(values, dtype=np.int32)

    load = np.ones((2, 4))
    snapshot = ReplicasSnapshot(
        reference=SnapshotReference("warm-up", "1970-01-01T00:00:00Z", "0" * 64),
        quality=Quality(),
        brokers=ReplicaBrokers(
            id=np.array([1, 2, 3]),
            host=hosts,
            rack=("a", "b", "c"),
            state=np.zeros(3, dtype=np.int8),
            capacity=np.full((3, 4), 4.0),
        ),
        log_dirs=LogDirs(indices(0, 1, 2), ("/",) * 3, np.zeros(3, dtype=np.int8), np.full(3, 4.0)),
        partitions=Partitions(
            topics=("t",),
            topic=indices(0, 0),
            number=indices(0, 1),
            replicas=indices([0, 1], [0, 1]),
            leader=indices(0, 0),
            in_sync=np.ones((2, 2), dtype=np.bool_),
            log_dir=indices([0, 1], [0, 1]),
            leader_load=load,
            follower_load=load,
        ),
    )
    for one in settings:
        plan(snapshot, one)
