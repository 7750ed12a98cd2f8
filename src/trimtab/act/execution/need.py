"""Need: whether pending changes are still needed under the load as it is now, whatever they change.

The source senses the load after every move and drops the rest of a broker's moves once it meets θ and ε. Here
that is done between batches and for everything that is to happen to one thing (a partition, a bundle), and
only where nothing suffers: the goals that it serves must hold already, and the end of the plan without it
must break no goal that it meets with it. The same inner margin as the planner's keeps dropping and planning
from undoing each other.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np

from trimtab.model.goals import exceeds
from trimtab.model.imbalance import Imbalance
from trimtab.model.load import BoolArray, FloatArray

INNER_MARGIN: Final = 0.9
"""A goal counts as held when it holds with a tenth of ε to spare."""
CANDIDATES: Final = 64
"""How many things are weighed for dropping before a batch; each takes a sum over the whole placement."""
DROPPABLE: Final = frozenset({"theta", "epsilon"})
"""Goals about load; moves that serve any other goal are never dropped."""

Cell = tuple[int, int, int]
"""Goal (0 is θ, 1 is ε), broker and resource, by index."""
KeyT = TypeVar("KeyT")
SnapshotT = TypeVar("SnapshotT")


@dataclass(frozen=True)
class LoadGoals:
    """θ and ε per resource, shape (resources,); infinite where it is not asked for."""

    theta: FloatArray
    epsilon: FloatArray

    @classmethod
    def of(cls, settings: Mapping[str, object], resources: Sequence[str]) -> "LoadGoals":
        """As a plan's settings have them; what it did not ask for is no goal."""
        asked = settings.get("goals", DROPPABLE)
        names = set(asked) if isinstance(asked, list | tuple | set | frozenset) else set(DROPPABLE)
        return cls(
            _per_resource(settings.get("theta") if "theta" in names else None, resources),
            _per_resource(settings.get("epsilon") if "epsilon" in names else None, resources),
        )

    def violated(self, measured: Imbalance) -> BoolArray:
        """Shape (2, brokers, resources): whether θ, and ε with the inner margin, are broken."""
        over = measured.counted & exceeds(measured.usage, self.theta)
        return np.stack([over, measured.counted & exceeds(measured.deviation, INNER_MARGIN * self.epsilon)])


def served_cells(
    reasons: Iterable[Any], brokers: Mapping[Any, int], resources: Sequence[str]
) -> set[Cell] | None:
    """The goals that moves serve, by their reasons; None if any is not about load, or of nobody known."""
    cells = set()
    for reason in reasons:
        if reason.goal not in DROPPABLE or reason.resource not in resources or reason.broker not in brokers:
            return None
        goal = 0 if reason.goal == "theta" else 1
        cells.add((goal, brokers[reason.broker], resources.index(reason.resource)))
    return cells


def unneeded(
    served: Mapping[KeyT, set[Cell] | None],
    now: BoolArray,
    broken_without: Callable[[frozenset[KeyT]], BoolArray],
    order: Callable[[KeyT], Any],
) -> tuple[KeyT, ...]:
    """The things whose pending changes can be dropped.

    Parameters
    ----------
    served
        What the changes of each thing serve.
    now
        Violated goals as things are, shape (2, brokers, resources).
    broken_without
        The same at the end of all pending changes but those of some things.
    order
        Sorts them: whose are to be dropped first.
    """
    candidates = [key for key, cells in served.items() if cells and not any(now[cell] for cell in cells)]
    if not candidates:
        return ()
    dropped: tuple[KeyT, ...] = ()
    broken = broken_without(frozenset())
    for key in sorted(candidates, key=order)[:CANDIDATES]:
        if not (broken_without(frozenset({*dropped, key})) & ~broken).any():
            dropped += (key,)
    return dropped


def latest(
    planned: SnapshotT, newest: Callable[[], tuple[float, SnapshotT] | None], changed_at: float
) -> tuple[SnapshotT, bool]:
    """The newest snapshot, and True, if it is from after that time; else that of the plan."""
    found = newest()
    return (found[1], True) if found is not None and found[0] > changed_at else (planned, False)


def _per_resource(values: object, resources: Sequence[str]) -> FloatArray:
    if isinstance(values, dict):
        return np.array([float(values.get(name, np.inf)) for name in resources])
    if isinstance(values, int | float):
        return np.full(len(resources), float(values))
    return np.full(len(resources), np.inf)
