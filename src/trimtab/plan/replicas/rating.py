"""How good a final placement is, in the order of the tiers: goals, bytes, moves."""

from dataclasses import dataclass

import numpy as np

from trimtab.model.load import FloatArray
from trimtab.plan.replicas.limits import limits
from trimtab.plan.replicas.outcome import Outcome
from trimtab.plan.replicas.placement import NEGLIGIBLE, THETA_WEIGHT
from trimtab.plan.replicas.problem import ProblemData


@dataclass(frozen=True)
class Rating:
    """Smaller is better: distance from the goals, bytes copied, moves made.

    Attributes
    ----------
    breach
        Sum over brokers and resources of weight · (distance from the band)², θ a hundredfold; 0 where all
        hold.
    """

    breach: float
    bytes: float
    moves: int

    @property
    def key(self) -> tuple[float, float, int]:
        """For comparing; distances that are only rounding count as none."""
        return (self.breach if self.breach > NEGLIGIBLE else 0.0, self.bytes, self.moves)

    @property
    def perfect(self) -> bool:
        """Whether nothing is out and nothing has to be copied."""
        return self.breach <= NEGLIGIBLE and self.bytes == 0 and self.moves <= 1


def rating_of(problem: ProblemData, outcome: Outcome) -> Rating:
    """Rate a placement."""
    arrays = problem.arrays
    load = loads_of(problem, outcome)
    goal = limits(problem, load, 1.0)
    usage = load * arrays.inverse
    off = np.maximum(np.maximum(usage - goal.high, goal.low - usage), 0.0)
    over = np.maximum(usage - goal.theta, 0.0)
    breach = float((goal.weight * (off**2 + THETA_WEIGHT * over**2)).sum())
    arrived = (outcome.place >= 0) & ~(outcome.place[:, :, None] == arrays.home[:, None, :]).any(axis=2)
    copies = arrived.sum(axis=1)
    rows = np.arange(len(arrays.home))
    leader = np.where(outcome.lead >= 0, outcome.place[rows, np.maximum(outcome.lead, 0)], -1)
    home_leader = np.where(problem.home_lead >= 0, arrays.home[rows, np.maximum(problem.home_lead, 0)], -1)
    return Rating(
        breach, float((copies * arrays.size).sum()), int(copies.sum() + (leader != home_leader).sum())
    )


def loads_of(problem: ProblemData, outcome: Outcome) -> FloatArray:
    """Load of every broker, shape (brokers, resources), of a placement in slots."""
    rows = np.arange(len(outcome.place))
    leader = np.where(outcome.lead >= 0, outcome.place[rows, np.maximum(outcome.lead, 0)], -1).astype(
        np.int32
    )
    return problem.snapshot.broker_load(outcome.place, leader)
