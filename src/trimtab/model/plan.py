"""A plan: ordered moves with their reasons, what they cost, and how far any plan could go.

The same for every level; `trimtab.files.plan` reads and writes it (format `trimtab/plan/1`).
"""

from dataclasses import dataclass, field
from enum import StrEnum

from trimtab.model.imbalance import Measures
from trimtab.model.snapshot import SnapshotReference


class Verdict(StrEnum):
    """What a plan achieves."""

    LEVEL = "level"
    """Nothing to do: every goal holds already."""
    LEVELLED = "levelled"
    """Every goal holds after the moves."""
    IMPROVED = "improved"
    """Some goal does not hold after the moves; `Plan.problems` says which, and why. A hard one only where
    that is not proven impossible: left out by a limit on moves or bytes, or not found."""
    INFEASIBLE = "infeasible"
    """Some hard limit cannot be met by any plan; `Plan.problems` proves it."""


class MoveKind(StrEnum):
    """What a move of the level `replicas` changes."""

    LEADER = "leader"
    """The leader role goes from `source` to the in-sync replica on `target`, which becomes the first of the
    list."""
    REPLICA = "replica"
    """The replica on `source` goes to `target`, taking its place in the list (and its role, if it leads)."""
    LOG_DIR = "log_dir"
    """The replica stays on its broker (`source` = `target`) and goes to another log dir there."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Which goal on which broker a move serves.

    Attributes
    ----------
    goal
        Name of the goal, as in settings (`theta`, `epsilon`, `rack`, `drain`, ...).
    resource
        Name of the resource, or None for goals that are about placement.
    broker
        Kafka's id of the broker that the move relieves or fills.
    before, after, limit
        The broker's value of the goal's measure before and after this move, and the bound it should meet;
        fractions of capacity for resources; None where the goal has no number.
    text
        The same for people, with why this replica and this destination.
    """

    goal: str
    resource: str | None
    broker: int
    before: float | None
    after: float | None
    limit: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Move:
    """One step; Kafka ids, not indices. `source` is None where there is no leader to take the role from."""

    order: int
    kind: MoveKind
    topic: str
    partition: int
    source: int | None
    target: int
    bytes: int
    reason: Reason
    source_dir: str | None = None
    target_dir: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """A partition's replica list (Kafka's order) before and after the whole plan."""

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    leader_after: int | None


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a goal cannot be met, or not by this strategy.

    Attributes
    ----------
    kind
        `add_brokers`, `indivisible_replica`, `conflicting_constraints`, `unmet_goal`, `no_capacity`, ...
    count
        How many brokers to add, for `add_brokers`.
    proof
        The numbers that prove it, as plain JSON values.
    """

    kind: str
    text: str
    count: int | None = None
    resource: str | None = None
    proof: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cost:
    """What carrying the plan out costs."""

    bytes: int
    replica_moves: int
    leader_moves: int
    log_dir_moves: int = 0


@dataclass(frozen=True, slots=True)
class Bound:
    """No plan that meets the same goals copies fewer bytes; `proof` says why."""

    bytes: int
    proof: str


@dataclass(frozen=True, slots=True)
class Prediction:
    """Measures of the snapshot, and of the placement after all moves, over the brokers in service."""

    before: Measures
    after: Measures


@dataclass(frozen=True)
class Plan:
    """What to do, why, at what price, and what it will be like afterwards."""

    level: str
    strategy: str
    seed: int
    settings: dict[str, object]
    snapshot: SnapshotReference
    verdict: Verdict
    moves: tuple[Move, ...]
    assignments: tuple[Assignment, ...]
    predicted: Prediction
    cost: Cost
    bound: Bound
    problems: tuple[Problem, ...] = ()
