"""`trim`: the fewest clients disturbed, then the fewest unloads, that meet the goals in all views.

It makes the necessary moves, then the descent, then rounds that improve the ownership (`searched_ownership`).
If bundles are too big, the search is repeated with some of them split. `max_unloads` and `max_sessions` limit
a plan: the least valuable unloads are left out (`apply_limits`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trimtab.model.bundles.plan import (
    BundleAssignment,
    BundleBound,
    BundleCost,
    BundleMove,
    BundleMoveKind,
    BundlePlan,
    BundlesSettings,
)
from trimtab.model.bundles.snapshot import (
    NO_OWNER,
    NO_TOPICS,
    RESOURCES,
    BundleBrokers,
    Bundles,
    BundlesSnapshot,
    namespace_of,
)
from trimtab.model.documents import Quality, SnapshotReference
from trimtab.model.load import FloatArray, IntArray
from trimtab.model.plan import Prediction, Problem, settings_document
from trimtab.plan.bundles.board import BundlesBoard, new_board
from trimtab.plan.bundles.descent import anneal, balance, cheapen, place_homeless, revert_bundle
from trimtab.plan.bundles.explain import narrator, split_reason
from trimtab.plan.bundles.problem import BundlesProblem, problem_data
from trimtab.plan.bundles.splitting import (
    SplitPoint,
    UnplaceableLoad,
    after_cut,
    best_cut,
    bundles_of_namespace,
    free_capacity,
    too_big,
)
from trimtab.plan.bundles.steps import reasons_of, schedule
from trimtab.plan.bundles.verdicts import bound_of, evaluate
from trimtab.plan.search.board import NEGLIGIBLE, WEIGHT, set_limits
from trimtab.plan.search.limits import MARGIN, UsageLimits, potential
from trimtab.plan.search.reasons import blank_reasons
from trimtab.plan.search.rounds import (
    CHANGES,
    MOVE_COSTS,
    RETRIES,
    BudgetUse,
    Rating,
    SearchBudget,
    heats,
    improved,
)


def apply_limits(problem: BundlesProblem, place: IntArray) -> tuple[IntArray, Problem | None]:
    """The ownership, or the part of it within the limits with the problem that reports this."""
    settings, arrays = problem.settings, problem.arrays
    moved = np.flatnonzero(place != arrays.initial).astype(np.int32)
    each = np.ones(len(moved), np.int32), arrays.cost[moved].astype(np.int64)
    spending = BudgetUse(("unloads", "sessions"), each, (settings.max_unloads, settings.max_sessions))
    unloads, sessions = spending.total
    cut = spending.cut(f"{unloads} unloads that disturb {sessions} clients")
    return (place if cut is None else _within_limits(problem, place, moved, spending)), cut


def _within_limits(
    problem: BundlesProblem, place: IntArray, moved: IntArray, spending: BudgetUse
) -> IntArray:
    """Revert moves until the rest is within the limits; all moves, if necessary."""
    arrays = problem.arrays
    kept = place.copy()
    load = problem.load(place)
    goal = problem.limits(load)
    usage = load * arrays.inverse
    top = np.maximum(goal.theta, problem.load(arrays.initial) * arrays.inverse) * (1 + 1e-12)
    harm = np.array([_potential_increase(problem, goal, usage, place, i) for i in moved.tolist()])

    def send_home(k: int) -> bool:
        i = moved[k]
        home, gain = int(arrays.initial[i]), arrays.use[i]
        if home >= 0 and (usage[home] + gain * arrays.inverse[home] > top[home]).any():
            # Others must be reverted first, otherwise this would lift a broker above θ.
            return False
        usage[kept[i]] -= gain * arrays.inverse[kept[i]]
        if home >= 0:
            usage[home] += gain * arrays.inverse[home]
        kept[i] = home
        return True

    return kept if spending.reverted(harm, arrays.must[moved], send_home) else arrays.initial.copy()


def _potential_increase(
    problem: BundlesProblem, goal: UsageLimits, usage: FloatArray, place: IntArray, i: int
) -> float:
    """Rise of the potential if a bundle is reverted."""
    arrays = problem.arrays
    here, home, gain = int(place[i]), int(arrays.initial[i]), arrays.use[i]
    rise = potential(goal, usage[here] - gain * arrays.inverse[here], here)
    rise -= potential(goal, usage[here], here)
    if home >= 0:
        rise += potential(goal, usage[home] + gain * arrays.inverse[home], home)
        rise -= potential(goal, usage[home], home)
    return rise


EFFORT = SearchBudget(free=60_000, per_second=100_000)
LEAST_CHANGES, MOST_CHANGES = 60_000, 200_000
"""Minimum and maximum number of random changes of one annealing."""

TRIMS = 3


def searched_ownership(problem: BundlesProblem) -> IntArray:
    """The ownership that `trim` ends with."""
    lawful = with_homeless_placed(problem)
    search = BundlesSearch(problem, lawful)
    first = search.balanced(lawful, MARGIN, MOVE_COSTS[0])
    settings = problem.settings
    budget, seed = settings.time_budget_seconds, settings.seed
    return improved(search, first, len(first), EFFORT, budget, seed, anneals=True)


def with_homeless_placed(problem: BundlesProblem) -> IntArray:
    """The ownership after the necessary moves."""
    arrays = problem.arrays
    rows = np.flatnonzero(arrays.must)
    # The limits are around the mean with everything placed, as if spread by capacity.
    service = problem.snapshot.brokers.in_service
    homeless = rows[(arrays.initial[rows] < 0) | ~service[arrays.initial[rows]]]
    board = _search_board(problem, arrays.initial, MARGIN, homeless=homeless)
    size = (arrays.use[rows] * board.band[:, WEIGHT].max(axis=0) ** 0.5).max(axis=1, initial=0.0)
    place_homeless(board, rows[np.argsort(-size, kind="stable")].astype(np.int32))
    return board.place


def rating_of(problem: BundlesProblem, place: IntArray) -> Rating:
    """Distance from the goals, clients disturbed, unloads."""
    arrays = problem.arrays
    load = problem.load(place)
    breach = potential(problem.limits(load), load * arrays.inverse)
    moved = place != arrays.initial
    sessions = float(arrays.cost[moved].sum())
    perfect = breach <= NEGLIGIBLE and sessions <= float(arrays.cost[arrays.must].sum())
    return Rating(breach, sessions, int(moved.sum()), perfect)


@dataclass(frozen=True, eq=False)
class BundlesSearch:
    """The steps of a round, see `trimtab.plan.search.rounds.RoundSearch`.

    Attributes
    ----------
    lawful
        The snapshot's ownership after the necessary moves; reverted bundles return to it.
    """

    problem: BundlesProblem
    lawful: IntArray

    def rating(self, placement: IntArray) -> Rating:
        """Distance from the goals, clients disturbed, unloads."""
        return rating_of(self.problem, placement)

    def balanced(self, start: IntArray, margin: float, move_cost: float) -> IntArray:
        """Descend to `margin` of the band, then send home what the goals do not need."""
        board = _search_board(self.problem, start, margin)
        self._descend(board, move_cost)
        if (board.potentials[:, 0] > NEGLIGIBLE).any():
            # The margin was too narrow: descend again towards the goals themselves.
            self._descend(board, move_cost)
        return board.place

    def _descend(self, board: BundlesBoard, move_cost: float) -> None:
        """Balance, revert unnecessary moves, and replace bundles by ones with fewer clients."""
        problem = self.problem
        balance(board, self._floor(move_cost), RETRIES)
        load = problem.load(board.place)
        set_limits(board, load * problem.arrays.inverse, problem.limits(load))
        order = np.argsort(-problem.arrays.cost, kind="stable").astype(np.int32)
        revert_bundle(board, order)
        for _ in range(TRIMS):
            if not cheapen(board, order):
                break
            revert_bundle(board, order)

    def _floor(self, move_cost: float) -> float:
        """Fixed cost of an unload in clients, besides its own clients."""
        cost = self.problem.arrays.cost
        return move_cost * float(cost.mean() if len(cost) else 0.0) + 1e-3

    def annealed(self, random: np.random.Generator, price: float, margin: float) -> IntArray:
        """An ownership far from the lawful one, near a deep minimum of potential and price."""
        board = _search_board(self.problem, self.lawful, margin)
        dear = self.problem.arrays.cost + self._floor(MOVE_COSTS[0])
        changes = min(max(CHANGES * len(dear), LEAST_CHANGES), MOST_CHANGES)
        anneal(board, price * dear / dear.sum(), heats(changes), random.random((changes, 4)))
        return board.place

    def partly_reverted(self, best: IntArray, random: np.random.Generator, share: float) -> IntArray:
        """`best` with some of its moves reverted to the lawful ownership."""
        start = best.copy()
        chosen = np.flatnonzero(best != self.lawful)
        chosen = chosen[random.random(len(chosen)) < share]
        start[chosen] = self.lawful[chosen]
        return start


def _search_board(
    problem: BundlesProblem, place: IntArray, margin: float, homeless: "np.ndarray | None" = None
) -> BundlesBoard:
    load = problem.load(place)
    wanted = load
    if homeless is not None and len(homeless):
        wanted = load + np.where(
            problem.counted,
            problem.arrays.use[homeless].sum(axis=0) / np.maximum(problem.counted.sum(axis=0), 1),
            0.0,
        )
    return new_board(problem.arrays, place, load * problem.arrays.inverse, problem.limits(wanted, margin))


SMALL = 5000
"""Maximum number of bundles up to which splits for finer balancing are tried, one by one."""

COARSE_TRIES = 4
WORTHWHILE = 0.7
"""A split for finer balancing must lower the distance from the goals below this share."""


@dataclass(frozen=True, eq=False)
class TrimResult:
    """The result of the search.

    Attributes
    ----------
    problem
        With the parts of split bundles in place of these.
    place
        Shape (bundles,): owner of each.
    cuts
        The splits in order, with the excess of each bundle.
    """

    problem: BundlesProblem
    place: IntArray
    rating: Rating
    cuts: tuple[tuple[SplitPoint, UnplaceableLoad | None], ...] = ()


def plan_bundles(snapshot: BundlesSnapshot, settings: BundlesSettings) -> BundlePlan:
    """Make a plan with `trim`; the same snapshot, settings and seed give the same plan.

    Every goal must hold in all views of the snapshot; an unmet goal is a result, not an error.
    """
    outcome = _with_splits(_solved(problem_data(snapshot, settings)))
    place, cut = apply_limits(outcome.problem, outcome.place)
    return _plan_of(snapshot, outcome, place, cut)


def _solved(
    problem: BundlesProblem, cuts: tuple[tuple[SplitPoint, UnplaceableLoad | None], ...] = ()
) -> TrimResult:
    place = searched_ownership(problem)
    return TrimResult(problem, place, rating_of(problem, place), cuts)


def _with_splits(first: TrimResult) -> TrimResult:
    """The outcome after splits that bring the cluster nearer to its goals; unchanged if none does."""
    best = first
    if first.rating.violation <= NEGLIGIBLE or not first.problem.settings.allow_splits:
        return first
    problem, cuts = first.problem, first.cuts
    for excess in _hot(first):
        # Rows change with every split; keys do not.
        key = first.problem.snapshot.bundles.key[excess.row]
        row = problem.snapshot.bundles.key.index(key)
        found = _cut(problem, row, excess.broker, first)
        if found is not None:
            problem = problem_data(after_cut(problem.snapshot, found), problem.settings)
            cuts = (*cuts, (found, excess))
    if cuts:
        split = _solved(problem, cuts)
        if split.rating.violation < best.rating.violation:
            best = split
    tries = COARSE_TRIES if len(first.problem.arrays.initial) <= SMALL else 0
    for _ in range(tries):
        if best.rating.violation <= NEGLIGIBLE:
            break
        finer = _finer(best)
        if finer is None or finer.rating.violation > WORTHWHILE * best.rating.violation:
            break
        best = finer
    return best


def _hot(outcome: TrimResult) -> list[UnplaceableLoad]:
    goal = outcome.problem.limits(outcome.problem.load(outcome.place))
    return [one for one in too_big(outcome.problem, goal.high) if outcome.problem.arrays.movable[one.row]]


def _finer(outcome: TrimResult) -> TrimResult | None:
    """Search again with the biggest bundle of the broker furthest outside its band split in two."""
    problem = outcome.problem
    goal = problem.limits(problem.load(outcome.place))
    usage = problem.load(outcome.place) * problem.arrays.inverse
    off = goal.weight * np.maximum(usage - goal.high, 0.0) ** 2
    if not off.any():
        # Brokers only lack load: the biggest bundle of all is split.
        broker, column = -1, int((goal.weight * np.maximum(goal.low - usage, 0.0) ** 2).sum(axis=0).argmax())
    else:
        broker, column = int(off.sum(axis=1).argmax()), int(off.sum(axis=0).argmax())
    mine = problem.arrays.movable & ((outcome.place == broker) if broker >= 0 else (outcome.place >= 0))
    for row in np.argsort(-np.where(mine, problem.arrays.use[:, column], -1.0), kind="stable")[:3].tolist():
        found = _cut(problem, row, max(broker, 0), outcome, halves=True) if mine[row] else None
        if found is not None:
            finer = problem_data(after_cut(problem.snapshot, found), problem.settings)
            return _solved(finer, (*outcome.cuts, (found, None)))
    return None


def _cut(
    problem: BundlesProblem, row: int, broker: int, outcome: TrimResult, *, halves: bool = False
) -> SplitPoint | None:
    snapshot, settings = problem.snapshot, problem.settings
    if not problem.arrays.movable[row] or snapshot.bundles.owner[row] == NO_OWNER:
        return None
    goal = outcome.problem.limits(outcome.problem.load(outcome.place))
    room = free_capacity(outcome.problem, goal.high)[broker]
    number = bundles_of_namespace(snapshot, namespace_of(snapshot.bundles.key[row]))
    most = settings.max_bundles_per_namespace - number + 1
    return best_cut(snapshot, row, room, min(most, 2) if halves else most)


def _plan_of(
    before: BundlesSnapshot, outcome: TrimResult, place: IntArray, cut: Problem | None
) -> BundlePlan:
    """Steps, reasons, cost, predictions and verdict of an outcome."""
    problem = outcome.problem
    snapshot, settings = problem.snapshot, problem.settings
    load = problem.load(place)
    goal = problem.limits(load)
    unordered = [*_splits(before, outcome), *_unloads(problem, place, goal)]
    moves = tuple(replace(move, order=order) for order, move in enumerate(unordered, start=1))
    cost = cost_of(moves)
    judgement = evaluate(problem, place, bool(moves), cut)
    placed = not (problem.arrays.must & (place == problem.arrays.initial)).any()
    bound = bound_of(problem, goal, problem.load(problem.arrays.initial), problem.fixed_mean(placed))
    if not judgement.goals_met and bound.sessions > cost.sessions:
        # Fewer moves than the goals need: the bound does not apply, so none above the plan's cost is claimed.
        bound = BundleBound(
            cost.sessions,
            f"not all goals are met; to meet them disturbs at least {bound.sessions} clients: {bound.proof}",
        )
    return BundlePlan(
        balancer="bundles",
        strategy="trim",
        seed=settings.seed,
        settings=settings_document(settings, RESOURCES),
        snapshot=before.reference,
        verdict=judgement.verdict,
        moves=moves,
        assignments=_assignments(before, outcome, place, moves),
        predicted=Prediction(before.imbalance().measures(), snapshot.imbalance(place).measures()),
        cost=cost,
        bound=bound,
        problems=judgement.problems,
    )


def cost_of(moves: Sequence[BundleMove]) -> BundleCost:
    """The sum of the moves."""
    return BundleCost(
        sessions=sum(move.sessions for move in moves),
        unloads=sum(move.kind is BundleMoveKind.UNLOAD for move in moves),
        splits=sum(move.kind is BundleMoveKind.SPLIT for move in moves),
        bytes_per_second=math.fsum(move.bytes_per_second for move in moves),
    )


def _splits(before: BundlesSnapshot, outcome: TrimResult) -> list[BundleMove]:
    """The splits; the extensible load manager cuts at one boundary at a time."""
    made = []
    owner = before.brokers.name
    snapshot = before
    for cut, excess in outcome.cuts:
        row = snapshot.bundles.key.index(cut.bundle)
        source = owner[snapshot.bundles.owner[row]]
        later = after_cut(snapshot, cut)
        reason = split_reason(snapshot, later, cut, excess)
        topics = int(snapshot.bundles.topics[row])
        whole = cut.parts[0]
        pieces: list[tuple[str, tuple[int, ...]]] = [(cut.bundle, cut.boundaries)]
        if before.load_manager == "extensible":
            lows = (whole.low, *cut.boundaries)
            high = cut.parts[-1].high
            pieces = [
                (f"{whole.namespace}/0x{low:08x}_0x{high:08x}", (boundary,))
                for low, boundary in zip(lows, cut.boundaries, strict=False)
            ]
        for bundle, boundaries in pieces:
            made.append(
                BundleMove(0, BundleMoveKind.SPLIT, bundle, source, None, boundaries, 0, topics, 0.0, reason)
            )
        snapshot = later
    return made


def _unloads(problem: BundlesProblem, place: IntArray, goal: UsageLimits) -> list[BundleMove]:
    """The unloads in the order of execution, each with its reason."""
    arrays, bundles, names = problem.arrays, problem.snapshot.bundles, problem.snapshot.brokers.name
    moved = np.flatnonzero(place != arrays.initial).astype(np.int32)
    if not len(moved):
        return []
    usage = problem.load(arrays.initial) * arrays.inverse
    after = problem.load(place) * arrays.inverse
    theta = problem.goals.theta
    ceiling = np.maximum(np.maximum(usage, after) * (1 + 1e-12), theta)
    distance = np.maximum(usage - goal.high, 0.0).sum(axis=1)
    far = np.where(arrays.initial[moved] >= 0, distance[arrays.initial[moved]], np.inf)
    queue = moved[np.lexsort((moved, -far, ~arrays.must[moved]))]
    order = np.empty(len(queue), np.int32)
    schedule(arrays.use, arrays.inverse, arrays.initial, place, usage.copy(), ceiling, queue, order)
    reasons = blank_reasons(len(order), rules=3)
    owned = np.bincount(arrays.initial[arrays.initial >= 0], minlength=len(names)).astype(np.float64)
    reasons_of(arrays, goal, order, place, usage.copy(), ceiling, owned, reasons)
    reason = narrator(problem, order, place, reasons, goal)
    traffic = traffic_of(problem.snapshot)[order].tolist()
    columns = zip(
        order.tolist(),
        arrays.initial[order].tolist(),
        place[order].tolist(),
        bundles.sessions[order].tolist(),
        bundles.topics[order].tolist(),
        traffic,
        strict=True,
    )
    return [
        BundleMove(
            order=0,
            kind=BundleMoveKind.UNLOAD,
            bundle=bundles.key[row],
            source=names[source] if source >= 0 else None,
            target=names[target],
            boundaries=(),
            sessions=sessions,
            topics=topics,
            bytes_per_second=one,
            reason=reason(step),
        )
        for step, (row, source, target, sessions, topics, one) in enumerate(columns)
    ]


def traffic_of(snapshot: BundlesSnapshot) -> FloatArray:
    """Bytes per second of each bundle in the newest view, in and out."""
    into, out = RESOURCES.index("bandwidth_in"), RESOURCES.index("bandwidth_out")
    return np.asarray(snapshot.bundles.load[0, :, into] + snapshot.bundles.load[0, :, out])


def _assignments(
    before: BundlesSnapshot, outcome: TrimResult, place: IntArray, moves: tuple[BundleMove, ...]
) -> tuple[BundleAssignment, ...]:
    """Every bundle that is moved, split or made, by key."""
    names, snapshot = before.brokers.name, outcome.problem.snapshot
    there = {key: row for row, key in enumerate(before.bundles.key)}
    later = {key: row for row, key in enumerate(snapshot.bundles.key)}
    keys = {move.bundle for move in moves}
    for move in moves:
        if move.kind is BundleMoveKind.SPLIT:
            keys |= {part.key for part in SplitPoint(move.bundle, move.boundaries).parts}

    def name(owner: int) -> str | None:
        return None if owner == NO_OWNER else names[owner]

    return tuple(
        BundleAssignment(
            key,
            name(int(before.bundles.owner[there[key]])) if key in there else None,
            name(int(place[later[key]])) if key in later else None,
        )
        for key in sorted(keys)
    )


def warm_up() -> None:
    """Plan something tiny, so that the first real plan does not wait for the compiler."""
    brokers, bundles, resources = 3, 12, 4
    width = 2**32 // bundles
    keys = [f"t/n/0x{width * n:08x}_0x{min(width * (n + 1), 2**32 - 1):08x}" for n in range(bundles)]
    snapshot = BundlesSnapshot(
        reference=SnapshotReference("warm-up", "1970-01-01T00:00:00Z", "0" * 64),
        quality=Quality(),
        taken_at=0.0,
        views=("window 0",),
        brokers=BundleBrokers(
            name=tuple(f"broker-{number}:8080" for number in range(brokers)),
            in_service=np.ones(brokers, dtype=np.bool_),
            capacity=np.full((brokers, resources), 20.0),
            base=np.zeros((brokers, resources)),
        ),
        bundles=Bundles(
            key=tuple(keys),
            owner=np.zeros(bundles, dtype=np.int32),
            load=np.tile(np.linspace(0.5, 1.5, bundles)[None, :, None], (1, 1, resources)),
            sessions=np.full(bundles, 2),
            topics=np.ones(bundles, dtype=np.int64),
            movable=np.ones(bundles, dtype=np.bool_),
        ),
        topics=NO_TOPICS,
        boundaries={"t/n": (*(width * number for number in range(bundles)), 2**32 - 1)},
    )
    plan_bundles(snapshot, BundlesSettings())
