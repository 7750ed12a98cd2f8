"""The planner of the balancer `balls`: the heaviest box gives a ball to the lightest while that helps."""

import numpy as np

from trimtab.model.balls.plan import (
    BallMove,
    BallReason,
    BallsPlan,
    BallsSettings,
    Carried,
    CarriedAtLeast,
    Lying,
)
from trimtab.model.balls.snapshot import BallsSnapshot
from trimtab.model.plan import Prediction, Problem, Verdict


def plan(snapshot: BallsSnapshot, settings: BallsSettings) -> BallsPlan:
    """The moves, one after another."""
    box, moves = snapshot.box.copy(), []
    while snapshot.imbalance(box).worst_deviation[0] > settings.epsilon[0]:
        load = np.bincount(box, snapshot.weight, len(snapshot.boxes))
        heavy, light = int(load.argmax()), int(load.argmin())
        fitting = [b for b in np.flatnonzero(box == heavy) if snapshot.weight[b] < load[heavy] - load[light]]
        if not fitting:
            break
        ball = max(fitting, key=lambda b: -abs(2 * snapshot.weight[b] - (load[heavy] - load[light])))
        names = snapshot.boxes[heavy], snapshot.boxes[light]
        reason = BallReason("epsilon", "weight", f"box {names[0]} relieved")
        moves.append(
            BallMove(len(moves) + 1, snapshot.balls[ball], *names, float(snapshot.weight[ball]), reason)
        )
        box[ball] = light
    before, after = snapshot.imbalance(), snapshot.imbalance(box)
    held = after.worst_deviation[0] <= settings.epsilon[0]
    problems = () if held else (Problem("unmet_goal", "no ball is light enough", resource="weight"),)
    return BallsPlan(
        balancer="balls",
        strategy="trim",
        seed=0,
        settings={"epsilon": list(settings.epsilon)},
        snapshot=snapshot.reference,
        verdict=Verdict.BALANCED if held else Verdict.IMPROVED,
        moves=tuple(moves),
        assignments=tuple(
            Lying(name, snapshot.boxes[snapshot.box[row]], snapshot.boxes[box[row]])
            for row, name in enumerate(snapshot.balls)
            if box[row] != snapshot.box[row]
        ),
        predicted=Prediction(before.measures(), after.measures()),
        cost=Carried(sum(move.weight for move in moves)),
        bound=CarriedAtLeast(0.0, "nothing is known"),
        problems=problems,
    )
