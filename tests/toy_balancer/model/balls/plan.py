"""A plan of the balancer `balls`."""

from dataclasses import dataclass

from trimtab.model.documents import Amount, Order, Receipt, StepOutcome
from trimtab.model.plan import Plan
from trimtab_common.documents import Fraction, Name, Share


@dataclass(frozen=True)
class BallsSettings:
    """The settings of a planner of this balancer."""

    strategy: str = "trim"
    theta: tuple[Share, ...] = (0.9,)
    epsilon: tuple[Fraction, ...] = (0.1,)


@dataclass(frozen=True, slots=True)
class BallReason:
    """The box that a move relieves."""

    goal: Name
    resource: Name | None
    text: str


@dataclass(frozen=True, slots=True)
class BallMove:
    """One ball from one box to another."""

    order: Order
    ball: Name
    source: Name
    target: Name
    weight: Amount
    reason: BallReason


@dataclass(frozen=True, slots=True)
class Lying:
    """The box of a ball before and after the whole plan."""

    ball: Name
    before: Name
    after: Name


@dataclass(frozen=True, slots=True)
class Carried:
    """The weight that is carried."""

    weight: Amount


@dataclass(frozen=True, slots=True)
class CarriedAtLeast:
    """The weight that any plan carries."""

    weight: Amount
    proof: str


@dataclass(frozen=True, kw_only=True)
class BallsPlan(Plan[BallMove]):
    """A plan of this balancer."""

    assignments: tuple[Lying, ...]
    cost: Carried
    bound: CarriedAtLeast


@dataclass(frozen=True, slots=True)
class BallOutcome(StepOutcome):
    """The end of one step."""

    ball: str


BallsReceipt = Receipt[BallOutcome]
