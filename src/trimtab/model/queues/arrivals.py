"""Recorded arrivals of messages: when each came, of which class, and how long its processing took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trimtab.model.load import FloatArray


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Messages in the order in which they came.

    Attributes
    ----------
    at
        Shape (messages,), seconds since 1970 or since any other beginning, ascending.
    classes
        Names, in the order of the alphabet.
    of_class
        Shape (messages,), places in `classes`.
    seconds
        Shape (messages,), how long each was processed.
    keys
        Affinity keys, one a message; None for a message without one, empty where none has any.
    weights
        Seconds by which classes were dispatched when this was recorded, as far as that is known.
    queues, capacity
        How many queues there were, and the most messages that each held; None where not known.
    """

    at: FloatArray
    classes: tuple[str, ...]
    of_class: NDArray[np.int64]
    seconds: FloatArray
    keys: tuple[str | None, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    queues: int | None = None
    capacity: int | None = None

    def __len__(self) -> int:
        return len(self.at)

    def between(self, since: float | None, until: float | None) -> Arrivals:
        """Those from `since` on and before `until`, in the units of `at`."""
        first = 0 if since is None else int(np.searchsorted(self.at, since))
        last = len(self) if until is None else int(np.searchsorted(self.at, until))
        part = slice(first, max(first, last))
        return replace(
            self,
            at=self.at[part],
            of_class=self.of_class[part],
            seconds=self.seconds[part],
            keys=self.keys[part],
        )

    def mean_seconds(self) -> FloatArray:
        """Mean processing time of each class, shape (classes,); that of all for one without a message."""
        counts = np.bincount(self.of_class, minlength=len(self.classes))
        sums = np.bincount(self.of_class, weights=self.seconds, minlength=len(self.classes))
        return np.where(counts > 0, sums / np.maximum(counts, 1), self.seconds.mean())
