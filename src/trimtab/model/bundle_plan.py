"""A plan of the level `bundles`: splits and unloads in order, each with its reason, and what they cost.

`trimtab.files.bundle_plan` reads and writes it: format `trimtab/plan/1`, as for every level.
"""

from dataclasses import dataclass
from enum import StrEnum

from trimtab.model.plan import Prediction, Problem, Verdict
from trimtab.model.snapshot import SnapshotReference


class BundleMoveKind(StrEnum):
    """What a move of this level changes."""

    UNLOAD = "unload"
    """The bundle leaves `source` and is owned by `target` afterwards; its clients reconnect."""
    SPLIT = "split"
    """The bundle is cut at `boundaries`; its parts stay on `source` unless later moves unload them."""


@dataclass(frozen=True, slots=True)
class BundleReason:
    """Which goal on which broker a move serves.

    Attributes
    ----------
    goal
        `theta`, `epsilon`, `drain`, `unowned`, `hot` (a bundle too big for its broker), or, for moves of
        Pulsar's own strategies, the class that chose it.
    resource, view
        Resource and view (`BundlesSnapshot.views`) where the goal was furthest from being met; None for goals
        without numbers.
    broker
        The broker that the move relieves or fills.
    before, after, limit
        The broker's value of the goal's measure before and after this move, and the bound that it should
        meet; None where the goal has no number.
    text
        The same for people, with why this bundle and this destination.
    """

    goal: str
    resource: str | None
    view: str | None
    broker: str
    before: float | None
    after: float | None
    limit: float | None
    text: str


@dataclass(frozen=True, slots=True)
class BundleMove:
    """One step.

    Attributes
    ----------
    bundle
        Its key; it may be a part that an earlier split of the plan makes.
    source
        Its owner; None where it has none.
    target
        For an unload, who shall own it.
    boundaries
        For a split, where to cut: strictly inside the bundle, rising.
    sessions, topics
        How many clients are disconnected for a moment, and of how many topics; a split alone disturbs nobody.
    bytes_per_second
        Traffic interrupted, in and out.
    """

    order: int
    kind: BundleMoveKind
    bundle: str
    source: str | None
    target: str | None
    boundaries: tuple[int, ...]
    sessions: int
    topics: int
    bytes_per_second: float
    reason: BundleReason


@dataclass(frozen=True, slots=True)
class Ownership:
    """Who owns a bundle before and after the whole plan; `before` is None for a part that a split makes."""

    bundle: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class BundleCost:
    """What carrying the plan out costs."""

    sessions: int
    unloads: int
    splits: int
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class BundleBound:
    """No plan that meets the same goals disturbs fewer clients; `proof` says why."""

    sessions: int
    proof: str


@dataclass(frozen=True)
class BundlePlan:
    """What to do, why, at what price, and what it will be like afterwards.

    Attributes
    ----------
    predicted
        In the newest view; how the others fare is part of `problems`, if any goal does not hold there.
    """

    level: str
    strategy: str
    seed: int
    settings: dict[str, object]
    snapshot: SnapshotReference
    verdict: Verdict
    moves: tuple[BundleMove, ...]
    assignments: tuple[Ownership, ...]
    predicted: Prediction
    cost: BundleCost
    bound: BundleBound
    problems: tuple[Problem, ...] = ()
