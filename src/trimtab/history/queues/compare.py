"""Dispatch policies side by side over recorded arrivals: waits by class, makespan, imbalance, moves."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.history.queues.simulation import DispatchScheme, QueuesRun, QueuesWorld, ReplayedMessage
from trimtab.model.load import FloatArray, imbalance
from trimtab.model.queues import Arrivals
from trimtab_common.errors import SettingsError
from trimtab_queues.core.catalogue import POLICIES, CentralQueue, DispatchInputs, MinMin
from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.ordering import OVERTAKE_SECONDS
from trimtab_queues.core.policies import DispatchPolicy
from trimtab_queues.core.scheduling import SchedulingSettings

BALANCED: Final = "balanced"
LANE_NAMES: Final = "lanes"
EXTRAS: Final = (BALANCED, LANE_NAMES)
GATHER_SECONDS: Final = 0.1
"""How long Min-Min holds messages back for a batch."""
OBSERVATIONS: Final = 2000
"""Looks at the queues that are kept of a run, about."""
MIN_WEIGHT: Final = 1e-6
"""Seconds; programs count work in whole microseconds."""


@dataclass(frozen=True, kw_only=True)
class QueuesScenario:
    """The workers and weights that all policies of a comparison share.

    Attributes
    ----------
    speed
        Shape (queues,): seconds of work that each worker does in a second.
    capacity
        Messages that a queue may hold.
    weights
        Shape (messages,): seconds by which each is dispatched.
    scheduling
        Of balance scheduling, where a scheme has it.
    seed
        Of what policies draw.
    """

    speed: Sequence[float]
    capacity: int
    weights: FloatArray
    scheduling: SchedulingSettings
    seed: int = 0


@dataclass(frozen=True)
class Waits:
    """Seconds from when messages came until their processing began; NaN where there were none."""

    messages: int
    mean: float
    p50: float
    p99: float


@dataclass(frozen=True, eq=False)
class DispatchPolicyResult:
    """The metrics of one policy on a recording.

    Attributes
    ----------
    waits
        By class, in the order of the recording's.
    overall
        Of all messages.
    makespan_seconds
        From the first message until the last was finished.
    sigma
        σ of the queues' shares of the work that lies in them (equation 5 of `trimtab.model.load`), the
        mean over time, weighted by that work; 0 where none ever lay.
    busiest
        The busiest worker's time over the mean of all.
    moved, stolen
        Messages moved by the scheduler, and taken by a worker from another's queue.
    lost
        Messages that no queue took, where the scheduling's `full` is to drop them.
    overtaken
        Messages of a key begun after a later one of that key.
    at, work
        Shapes (looks,) and (looks, queues): seconds since the first message, and seconds of work.
    """

    waits: Mapping[str, Waits]
    overall: Waits
    makespan_seconds: float
    sigma: float
    busiest: float
    moved: int
    stolen: int
    lost: int
    overtaken: int
    at: FloatArray
    work: FloatArray


def default_schemes() -> tuple[str, ...]:
    """Every policy by itself; the paper's with its forecast; and what the broker does as it comes."""
    return (*POLICIES, f"marked_round_robin+{BALANCED}", f"least_work_left+{BALANCED}+{LANE_NAMES}")


def compare(
    arrivals: Arrivals,
    schemes: Sequence[str],
    setting: QueuesScenario,
    text: Callable[[str], None] = lambda name: None,
) -> dict[str, DispatchPolicyResult]:
    """The metrics of each policy on the same arrivals.

    Parameters
    ----------
    schemes
        `POLICY`, `POLICY+balanced` (with balance scheduling), `POLICY+lanes` (quick messages first) or with
        both.
    text
        Called with each name before it is run.

    Raises
    ------
    SettingsError
        If a scheme is not known, or a policy cannot do what is asked.
    """
    made = {name: _scheme(name, arrivals, setting) for name in schemes}
    messages = _messages(arrivals, setting)
    # Settled once: the same for all, so that what is kept of a long recording stays small.
    lasted = messages[-1].deadline + sum(one.takes_seconds for one in messages) / sum(setting.speed)
    found = {}
    for name, scheme in made.items():
        text(name)
        count = len(setting.speed)
        capacity = [setting.capacity] * count
        if name.startswith(CentralQueue.name):
            capacity[0] *= count  # the one queue holds what all would
        world = QueuesWorld(
            scheme,
            capacity,
            float(setting.weights.mean()),
            speed=setting.speed,
            poll_seconds=max(setting.scheduling.window_seconds, lasted / OBSERVATIONS),
            retention_seconds=lasted / OBSERVATIONS,
        )
        found[name] = _outcome(arrivals, world.run(messages), count)
    return found


def _scheme(name: str, arrivals: Arrivals, setting: QueuesScenario) -> DispatchScheme:
    policy, *extras = name.split("+")
    if policy not in POLICIES or not set(extras) <= set(EXTRAS):
        raise SettingsError(
            f"--policy {name} is not known: write one of {', '.join(POLICIES)}, and after it +{BALANCED} for "
            f"balance scheduling, +{LANE_NAMES} for quick messages first"
        )
    counts = np.bincount(arrivals.of_class, minlength=len(arrivals.classes))
    sums = np.bincount(arrivals.of_class, weights=setting.weights, minlength=len(arrivals.classes))
    classes = [(float(work / count), float(count)) for work, count in zip(sums, counts, strict=True) if count]

    def make(ledger: QueueLedger) -> DispatchPolicy:
        chance = random.Random(setting.seed).random
        return POLICIES[policy](
            ledger, DispatchInputs(chance, classes, setting.speed, scheduling=setting.scheduling)
        )

    return DispatchScheme(
        policy=make,
        scheduling=setting.scheduling if BALANCED in extras else None,
        full=setting.scheduling.when_full,
        gather_seconds=GATHER_SECONDS if policy == MinMin.name else 0.0,
        max_overtake_seconds=OVERTAKE_SECONDS if LANE_NAMES in extras else None,
    )


def _messages(arrivals: Arrivals, setting: QueuesScenario) -> list[ReplayedMessage]:
    keys = arrivals.keys or (None,) * len(arrivals)
    weights = np.maximum(setting.weights, MIN_WEIGHT).tolist()
    due = (arrivals.at - arrivals.at[0]).tolist()
    rows = zip(due, weights, keys, arrivals.seconds.tolist(), strict=True)
    return [ReplayedMessage(number, *row) for number, row in enumerate(rows)]


def _outcome(arrivals: Arrivals, run: QueuesRun, queues: int) -> DispatchPolicyResult:
    begun, due = np.array(run.started_at), arrivals.at - arrivals.at[0]
    # Sums of times in virtual time may miss one another by a rounding.
    waited = np.where(begun >= 0, np.maximum(begun - due, 0.0), np.nan)
    work = np.array([one.work for one in run.samples]).reshape(-1, queues)
    every = np.ones(queues, dtype=np.bool_)
    # Looks as columns: each is a load of its own.
    sigma = imbalance(work.T, np.ones_like(work.T), every, tuple(map(str, range(len(work))))).sigma
    total = work.sum(axis=1)
    busy = np.array(run.busy_seconds)
    return DispatchPolicyResult(
        waits={
            name: _waits(waited[arrivals.of_class == place]) for place, name in enumerate(arrivals.classes)
        },
        overall=_waits(waited),
        makespan_seconds=run.makespan_seconds,
        sigma=float((sigma * total).sum() / total.sum()) if total.sum() else 0.0,
        busiest=float(busy.max() / busy.mean()) if busy.any() else 1.0,
        moved=run.moved,
        stolen=run.stolen,
        lost=run.lost,
        overtaken=run.overtaken,
        at=np.array([one.at for one in run.samples]),
        work=work,
    )


def _waits(waited: FloatArray) -> Waits:
    known = waited[np.isfinite(waited)]
    if not len(known):
        return Waits(0, np.nan, np.nan, np.nan)
    return Waits(len(known), float(known.mean()), *(float(one) for one in np.quantile(known, [0.5, 0.99])))
