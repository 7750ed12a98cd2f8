"""One turn of the whole: `act(plan(observe()))`.

Pure composition, generic in what a balancer observes, plans and reports; who calls it how often is a matter
of the balancer's cadence (`trimtab.balancers`).
"""

from collections.abc import Callable
from typing import TypeVar

Snapshot = TypeVar("Snapshot")
Plan = TypeVar("Plan")
Receipt = TypeVar("Receipt")


def turn(
    observe: Callable[[], Snapshot], plan: Callable[[Snapshot], Plan], act: Callable[[Plan], Receipt]
) -> Receipt:
    """Observe, plan, act, once; each error is that of the callable that raised it.

    Parameters
    ----------
    observe
        Gives a snapshot of the balancer.
    plan
        Makes a plan from it.
    act
        Carries the plan out (or shows it) and says what was done.
    """
    return act(plan(observe()))
