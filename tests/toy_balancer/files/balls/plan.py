"""Plans of the balancer `balls` in files."""

from trimtab.files.document import JsonDocument
from trimtab.files.plan_format import PlanFormat, check_cost
from trimtab.model.balls.plan import BallsPlan
from trimtab.model.balls.snapshot import RESOURCES


def _check(document: JsonDocument, plan: BallsPlan) -> None:
    check_cost(document, plan.cost, {"weight": sum(move.weight for move in plan.moves)})


FORMAT = PlanFormat("balls", BallsPlan, RESOURCES, _check)
