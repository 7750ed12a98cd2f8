"""What a change between two brokers is worth, held against whole placements' potentials."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from support.replica_clusters import broker, partition, snapshot
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.plan.replicas.arrays import Placement
from trimtab.plan.replicas.board import gain, outcome
from trimtab.plan.replicas.problem import ReplicasProblem, problem_data
from trimtab.plan.replicas.trim import board_of
from trimtab.plan.search.board import GUIDANCE
from trimtab.plan.search.compiled import entry
from trimtab.plan.search.limits import potential


@entry
def trades(g, a, b, gives, gets, out):
    """Write what a trade is worth by every measure."""
    out[0], out[1] = outcome(g, a, b, gives, gets)
    out[2], out[3] = gain(g, a, b, gives, gets)


A, B, C = range(3)


def problem() -> ReplicasProblem:
    """Broker 1 is crowded, 3 nearly empty; `a` is led by 1 and followed by 2, `b` and `c` stand alone."""
    return problem_data(
        snapshot(
            [broker(1), broker(2), broker(3)],
            [
                partition("a", 0, [1, 2], load=(2.0, 30.0, 20.0, 24.0)),
                partition("b", 0, [1], load=(3.0, 31.0, 21.0, 8.0)),
                partition("c", 0, [3], load=(0.5, 7.0, 5.0, 4.0)),
            ],
        ),
        ReplicasSettings(),
    )


def worth(asked: ReplicasProblem, placement: Placement) -> tuple[float, float]:
    """Potential of a placement with guidance and without, in the band of the snapshot, by numpy."""
    limits = asked.limits(asked.load(asked.initial_placement), 0.9)
    usage = asked.load(placement) * asked.arrays.inverse
    guidance = GUIDANCE * (limits.weight * (usage - limits.centre) ** 2).sum()
    alone = potential(limits, usage)
    return alone, alone + float(guidance)


@pytest.mark.parametrize(
    ("name", "pair", "rows", "changes"),
    [
        ("a replica alone", (A, C), (3, -1), {"place": (1, 0, C)}),
        ("a replica with its role", (A, C), (1, -1), {"place": (0, 0, C)}),
        ("a leadership", (A, B), (1, 0), {"lead": (0, 1)}),
        ("an exchange", (A, C), (3, 5), {"place": (1, 0, C), "other": (2, 0, A)}),
    ],
)
def test_a_trade_is_worth_the_difference_of_placements(
    name: str, pair: tuple[int, int], rows: tuple[int, int], changes: dict[str, tuple[int, ...]]
) -> None:
    """For any trade, the compiled figures are differences of whole placements' potentials."""
    asked = problem()
    board = board_of(asked, asked.initial_placement, 0.9)
    place, lead = asked.initial_placement.place.copy(), asked.initial_placement.lead.copy()
    for key in ("place", "other"):
        if key in changes:
            p, s, b = changes[key]
            place[p, s] = b
    if "lead" in changes:
        lead[changes["lead"][0]] = changes["lead"][1]
    before, before_guided = worth(asked, asked.initial_placement)
    after, after_guided = worth(asked, Placement(place, lead))
    out = np.zeros(4)
    trades(board, *pair, *rows, out)
    assert before > after > 0, name
    assert_allclose(out[0] - out[1], before - after)
    assert_allclose(out[2], before - after)
    assert_allclose(out[3], before_guided - after_guided)


def test_a_harmful_trade_is_worth_nothing() -> None:
    """A trade that makes things worse gains nothing, however much the guidance might like it."""
    asked = problem()
    board = board_of(asked, asked.initial_placement, 0.9)
    out = np.zeros(4)
    trades(board, C, A, 5, -1, out)
    assert out[1] > out[0]
    assert (out[2], out[3]) == (0.0, 0.0)
