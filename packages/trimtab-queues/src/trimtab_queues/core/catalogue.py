"""The dispatch policies by the names that settings give them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from trimtab_common.errors import SettingsError
from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.policies.central import CentralQueue
from trimtab_queues.core.policies.idle import JoinIdleQueue
from trimtab_queues.core.policies.least_work import LeastWorkLeft
from trimtab_queues.core.policies.light_load import LightLoadFirst
from trimtab_queues.core.policies.min_min import MinMin
from trimtab_queues.core.policies.power_of_two import PowerOfTwo
from trimtab_queues.core.policies.round_robin import OpenRoundRobinQueue, RoundRobinQueue
from trimtab_queues.core.policies.shortest import JoinShortestQueue
from trimtab_queues.core.policies.size_interval import SizeInterval, equal_work_limits
from trimtab_queues.core.policies.stealing import WorkStealing
from trimtab_queues.core.policies.threshold import CountThreshold
from trimtab_queues.core.policy import DispatchPolicy
from trimtab_queues.core.settings import SchedulingSettings

DEFAULT: Final = LeastWorkLeft.name


@dataclass(frozen=True, slots=True)
class DispatchInputs:
    """What policies may ask for beyond the ledger; each takes what it needs.

    Attributes
    ----------
    chance
        Numbers in [0, 1), as of `random.Random(seed).random`; none refuses policies that draw.
    classes
        Weight in seconds and messages a second of each class.
    speed
        Shape (queues,): seconds of work that a worker does in a second; none for one each.
    threshold
        Messages at which a queue is passed over.
    scheduling
        Its limits say which queue is light.
    """

    chance: Callable[[], float] | None = None
    classes: Sequence[tuple[float, float]] = ()
    speed: Sequence[float] | None = None
    threshold: int = 3000
    scheduling: SchedulingSettings = field(default_factory=SchedulingSettings)


def _power_of_two(ledger: QueueLedger, values: DispatchInputs) -> DispatchPolicy:
    if values.chance is None:
        raise SettingsError("policy 'power_of_two' draws queues and needs a generator: pass one")
    return PowerOfTwo(ledger, values.chance)


def _size_interval(ledger: QueueLedger, values: DispatchInputs) -> DispatchPolicy:
    if not values.classes:
        raise SettingsError("policy 'size_interval' needs the weights and rates of the classes")
    return SizeInterval(ledger, equal_work_limits(values.classes, len(ledger)))


POLICIES: Final[dict[str, Callable[[QueueLedger, DispatchInputs], DispatchPolicy]]] = {
    RoundRobinQueue.name: lambda ledger, _: RoundRobinQueue(ledger),
    OpenRoundRobinQueue.name: lambda ledger, _: OpenRoundRobinQueue(ledger),
    CountThreshold.name: lambda ledger, inputs: CountThreshold(ledger, inputs.threshold),
    JoinShortestQueue.name: lambda ledger, _: JoinShortestQueue(ledger),
    PowerOfTwo.name: _power_of_two,
    JoinIdleQueue.name: lambda ledger, _: JoinIdleQueue(ledger),
    MinMin.name: lambda ledger, inputs: MinMin(ledger, inputs.speed),
    LightLoadFirst.name: lambda ledger, inputs: LightLoadFirst(ledger, inputs.scheduling),
    LeastWorkLeft.name: lambda ledger, _: LeastWorkLeft(ledger),
    WorkStealing.name: lambda ledger, _: WorkStealing(ledger),
    CentralQueue.name: lambda ledger, _: CentralQueue(ledger),
    SizeInterval.name: _size_interval,
}
"""Name of a policy to how it is made."""


def policy_named(name: str, ledger: QueueLedger, values: DispatchInputs | None = None) -> DispatchPolicy:
    """A policy over a ledger.

    Raises
    ------
    SettingsError
        If there is none of that name, or it was not inputs what it needs.
    """
    if name not in POLICIES:
        raise SettingsError(f"queues.policy is {name!r}, expected one of {', '.join(POLICIES)}")
    return POLICIES[name](ledger, DispatchInputs() if values is None else values)
