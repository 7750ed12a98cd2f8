"""`RoundRobinBrokerSelector`: one broker after the other, for namespaces that shedding leaves alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.plan.pulsar.decision import BrokerChoice, Placer
from trimtab.plan.pulsar.java import LARGEST
from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.view import LeaderLoadView


@dataclass(frozen=True)
class RoundRobinState:
    """The memory from choice to choice.

    Attributes
    ----------
    count
        How many choices there were.
    brokers
        The candidates in the order in which turns are taken, as of when they last changed noticeably.
    """

    count: int = 0
    brokers: tuple[str, ...] = ()


def choose(
    bundle: str,
    candidates: Sequence[str],
    view: LeaderLoadView,
    state: RoundRobinState,
    options: PulsarBrokerConfig,
    chance: np.random.Generator,
) -> tuple[BrokerChoice, RoundRobinState]:
    """The broker whose turn it is.

    The remembered order is kept until the number of candidates changes, or the one whose turn it is is no
    candidate any more: another set of the same size is not noticed before. A broker that joins as another
    leaves therefore gets its turns late.

    References
    ----------
    Pulsar 4.2.4, `org.apache.pulsar.broker.loadbalance.impl.RoundRobinBrokerSelector`.
    """
    size = len(candidates)
    if not size:
        return BrokerChoice(None), state
    turn = state.count % size
    following = 0 if state.count == LARGEST else state.count + 1
    order = state.brokers if len(state.brokers) == size else tuple(candidates)
    if order[turn] not in candidates:
        order = tuple(candidates)
    why = {"turn": turn, "of": size}
    return BrokerChoice(order[turn], (order[turn],), why), RoundRobinState(following, order)


PLACER = Placer(choose, RoundRobinState())
"""`RoundRobinBrokerSelector`."""
