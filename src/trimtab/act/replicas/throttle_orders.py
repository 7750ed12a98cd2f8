"""The orders that put a replication throttle in force, or give back what was there before."""

from collections.abc import Sequence

from trimtab.act.execution.commands import Command
from trimtab.act.replicas.commands import ReadThrottle, WriteThrottle
from trimtab.act.replicas.state import ExecutionState
from trimtab.act.replicas.steps import Step
from trimtab.act.replicas.throttle import topics_of, wanted_config


def order_for_throttle(state: ExecutionState, steps: Sequence[Step]) -> tuple[ExecutionState, Command] | None:
    """The order that puts the throttle for these steps in force; None when it is."""
    rate = state.rate_bytes_per_second
    copies = topics_of(steps) if rate is not None else frozenset()
    unknown = copies - state.throttle.topics
    if unknown or (copies and not state.throttle.rates_touched):
        return state, ReadThrottle(tuple(sorted(unknown)))
    if state.throttle.empty:
        return None
    wanted = wanted_config(state.throttle, rate if copies else None, steps)
    if wanted == state.throttle_in_force:
        return None
    return state, WriteThrottle(wanted, kept_topics=copies, kept_rates=bool(copies))
