"""Compiled: the descent.

Take the broker that is furthest out; shed or fill it; go on until all hold or nothing helps. For each broker
in turn: leaderships out or in (no bytes), then replicas out, then replicas in, best gain per byte first and
each gain computed again when its turn comes; when none of these helps, the best exchange of two replicas.
"""

import numpy as np

from trimtab.plan.replicas.exchanging import exchange
from trimtab.plan.replicas.leaderships import change_leaders
from trimtab.plan.replicas.placement import NEGLIGIBLE
from trimtab.plan.replicas.pulling import pull
from trimtab.plan.replicas.shedding import shed
from trimtab.plan.search.compiled import entry

VISITS = 40
"""Most visits a broker on average: a descent in ever smaller steps is not worth its time."""


@entry
def level(g, floor, rounds):  # type: ignore[no-untyped-def]
    """Make the potentials fall until all are negligible or no change of one or two replicas helps.

    Parameters
    ----------
    floor
        Bytes that a move is deemed to cost besides its copy, so that fewer moves win among equals.
    rounds
        How often brokers that found no help are tried again after others have changed.

    Returns
    -------
    int
        How many brokers are still out of their band.
    """
    brokers = len(g.worth)
    stuck = np.zeros(brokers, np.bool_)
    changed_since = 0
    for _ in range(VISITS * brokers + 1000):
        h = -1
        worst = NEGLIGIBLE
        for b in range(brokers):
            if not stuck[b] and g.worth[b, 0] > worst:
                h, worst = b, g.worth[b, 0]
        if h < 0:
            if changed_since == 0 or rounds <= 0:
                break
            rounds -= 1
            changed_since = 0
            stuck[:] = False
            continue
        changed = change_leaders(g, h)
        if g.worth[h, 0] > NEGLIGIBLE:
            changed += shed(g, h, floor)
        if g.worth[h, 0] > NEGLIGIBLE:
            changed += pull(g, h, floor)
        if changed == 0:
            changed = 1 if exchange(g, h, floor) else 0
        if changed == 0:
            stuck[h] = True
        changed_since += changed
    left = 0
    for b in range(brokers):
        left += g.worth[b, 0] > NEGLIGIBLE
    return left
