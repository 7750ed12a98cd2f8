"""A plan held to two limits: what is worth least for its price is left out."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.model.load import BoolArray, FloatArray
from trimtab.model.plan import Problem

TRIES = 4

Amounts = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class BudgetUse:
    """The changes of a plan, and what two limits leave of them.

    Attributes
    ----------
    names
        Of the two things that are spent; a setting `max_NAME` limits each.
    each
        Shape (changes,): what every change spends of the first, and of the second.
    limits
        To the whole plan; None is no limit.
    """

    names: tuple[str, str]
    each: tuple[Amounts, Amounts]
    limits: tuple[int | None, int | None]

    @cached_property
    def limit_values(self) -> tuple[float, ...]:
        """The limits as numbers."""
        return tuple(np.inf if limit is None else limit for limit in self.limits)

    @cached_property
    def total(self) -> tuple[int, ...]:
        """What all changes spend."""
        return tuple(int(each.sum()) for each in self.each)

    def cut(self, spent: str) -> Problem | None:
        """The problem that a part is left out of what `spent` tells; None where that is within the limits."""
        if all(total <= most for total, most in zip(self.total, self.limit_values, strict=True)):
            return None
        limits = {f"max_{name}": limit for name, limit in zip(self.names, self.limits, strict=True)}
        told = " or ".join(f"{name} {limit}" for name, limit in limits.items())
        return Problem(
            "limit_reached",
            f"meeting the goals took this planner {spent}, more than {told} allow; "
            "the least useful were left out",
            proof={**dict(zip(self.names, self.total, strict=True)), **limits},
        )

    def reverted(self, harm: FloatArray, needed: BoolArray, undo: Callable[[int], bool]) -> bool:
        """Undo changes, the least useful for their price first; whether the rest came within the limits.

        Parameters
        ----------
        harm
            Shape (changes,): rise of the potential if the change is undone.
        needed
            Shape (changes,): hard goals ask for it, so that it is undone last.
        undo
            Undoes the change of that number, unless others have to go first; whether it did.
        """
        price = sum(each / max(most, 1.0) for each, most in zip(self.each, self.limit_values, strict=True))
        order = np.lexsort((harm / np.maximum(price, 1e-12), needed)).tolist()
        left = [total - most for total, most in zip(self.total, self.limit_values, strict=True)]
        for turn in range(2 * TRIES):
            later = []
            for i in order:
                if needed[i] and turn < TRIES:
                    # Whatever is not needed goes first, also what has to wait for others.
                    later.append(i)
                    continue
                if max(left) <= 0:
                    return True
                too_much = any(excess > 0 and each[i] for excess, each in zip(left, self.each, strict=True))
                if not (too_much and undo(i)):
                    later.append(i)
                    continue
                left = [excess - int(each[i]) for excess, each in zip(left, self.each, strict=True)]
            order = later
        return max(left) <= 0
