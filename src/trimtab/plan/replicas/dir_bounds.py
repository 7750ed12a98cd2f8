"""A lower bound of the bytes that must be copied between log dirs, where nothing leaves its broker.

A dir above its limit must lose its excess, one below must gain what it lacks, and a move does each of these
once; the total of a broker's dirs, and so their mean, stays what it is.
"""

import numpy as np

from trimtab.plan.replicas.dirs import dir_data
from trimtab.plan.replicas.problem import ReplicasProblem

SLACK = 1e-6
"""Relative: rounding must not lift a bound above the truth."""


def log_dir_bound(problem: ReplicasProblem) -> int:
    """Bytes, for plans that meet the goal `log_dirs`; 0 where replicas may leave their brokers."""
    data = dir_data(problem)
    if (
        data is None
        or not data.is_goal
        or not problem.settings.intra_broker_only
        or problem.settings.fix_offline_replicas
    ):
        return 0
    least = 0.0
    for all_dirs in data.of_broker:
        dirs = [d for d in all_dirs if data.counted[d]]
        if dirs:
            held = data.held[dirs]
            goal = data.broker_dirs(dirs, held, float(held.sum()))
            top = np.minimum(goal.high, goal.theta) * goal.capacity
            over = np.maximum(held - top, 0.0).sum()
            under = np.maximum(goal.low * goal.capacity - held, 0.0).sum()
            least += float(max(over, under))
    return int(np.floor(least * (1 - SLACK)))
