"""What `AvgShedder` remembers: how often brokers were apart, and where bundles should go; its placement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from zlib import crc32

import numpy as np

from trimtab.model.bundles import LONG_SAMPLES, BundleData
from trimtab.plan.bundles.decision import Placement, Placer
from trimtab.plan.bundles.options import Options
from trimtab.plan.bundles.view import LoadView


@dataclass(frozen=True)
class Planned:
    """Where a bundle is to go.

    Attributes
    ----------
    bundle
        Its key.
    data
        What was known of it when it was planned: the key of the plan in released Pulsar.
    broker
        The destination.
    """

    bundle: str
    data: BundleData
    broker: str


@dataclass(frozen=True)
class AvgState:
    """What is remembered from decision to decision.

    Attributes
    ----------
    hits_low, hits_high
        How often in succession each broker was in a pair as far apart as the two thresholds.
    plan
        Destinations, in the order in which they were first written down.
    most_brokers
        The most brokers ever seen: Pulsar's map of scores keeps its size, and so its order.
    """

    hits_low: Mapping[str, int] = field(default_factory=dict)
    hits_high: Mapping[str, int] = field(default_factory=dict)
    plan: tuple[Planned, ...] = ()
    most_brokers: int = 0

    @cached_property
    def places(self) -> dict[BundleData | str, list[int]]:
        """Where in the plan entries of some data stand, and those of some bundle."""
        found: dict[BundleData | str, list[int]] = {}
        for place, one in enumerate(self.plan):
            found.setdefault(one.data, []).append(place)
            found.setdefault(one.bundle, []).append(place)
        return found


def choose(
    bundle: str,
    candidates: Sequence[str],
    view: LoadView,
    state: AvgState,
    options: Options,
    chance: np.random.Generator,
) -> tuple[Placement, AvgState]:
    """What `AvgShedder.selectBroker` decides: the plan where it has a candidate, else a hash of chance.

    In released Pulsar what chance decides is written into the plan as well, so that all bundles of equal data
    (as those that nothing is known of yet) follow the first of them.

    References
    ----------
    Pulsar 4.0.7 and 4.2.4, `org.apache.pulsar.broker.loadbalance.impl.AvgShedder`. The number hashed is a
    Java `int` in decimal, by crc32.
    """
    broker = planned(bundle, view, state, options)
    if broker is not None and broker in candidates:
        return Placement(broker, (broker,), {"planned": broker}), state
    if not candidates:
        return Placement(None, why={"planned": broker}), state
    pool = tuple(sorted(candidates))
    drawn = int(chance.integers(-(2**31), 2**31))
    broker = pool[crc32(str(drawn).encode()) % len(pool)]
    if not options.avg_shedder_plan_by_bundle_name:
        state = with_planned(living(state, view), view, {bundle: broker}, options)
    return Placement(broker, pool, {"planned": None, "drawn": drawn}), state


class AvgPlacement(Placer[AvgState]):
    """The placement of `AvgShedder`: its choice, and what it remembers at first."""

    def __init__(self) -> None:
        super().__init__(choose, AvgState())


def planned(bundle: str, view: LoadView, state: AvgState, options: Options) -> str | None:
    """Where the plan says that a bundle should go, if it says anything.

    Released Pulsar looks it up by what is known of the bundle, not by its name, and what is known of those
    in the plan goes on changing: a bundle is found only as long as nothing new was heard of it, and one whose
    data are equal to another's finds the destination of whichever was planned last. Planning by name
    (#26246) is an option of ours, `avgShedderPlanByBundleName`.
    """
    place = _place_of(bundle, view, state, options)
    return None if place is None else state.plan[place].broker


def without_plan(state: AvgState, options: Options) -> AvgState:
    """The state once a round of shedding is over: a plan by name is for that round only (#26246)."""
    if not options.avg_shedder_plan_by_bundle_name:
        return state
    return replace(state, plan=())


def living(state: AvgState, view: LoadView) -> AvgState:
    """The state without entries of the plan that can never be found again; Pulsar keeps them for ever.

    Their bundle has had another sample since, and the count of samples, which is part of the key, only grows
    up to `LONG_SAMPLES`.
    """
    plan = tuple(
        one for one in state.plan if one.data.long.samples >= LONG_SAMPLES or _is_as_filed(one, view)
    )
    return state if len(plan) == len(state.plan) else replace(state, plan=plan)


def with_planned(
    state: AvgState, view: LoadView, destinations: Mapping[str, str], options: Options
) -> AvgState:
    """The state with these bundles' destinations written down.

    Where there is an equal key, that entry keeps its place and its bundle and gets the new broker.
    """
    entries = list(state.plan)
    fresh: dict[BundleData | str, int] = {}
    for bundle, broker in destinations.items():
        data = view.known_of(bundle)
        key = bundle if options.avg_shedder_plan_by_bundle_name else data
        place = fresh.get(key, _place_of(bundle, view, state, options))
        if place is None:
            fresh[key] = len(entries)
            entries.append(Planned(bundle, data, broker))
        else:
            entries[place] = replace(entries[place], broker=broker)
    return replace(state, plan=tuple(entries))


def _place_of(bundle: str, view: LoadView, state: AvgState, options: Options) -> int | None:
    if options.avg_shedder_plan_by_bundle_name:
        return next(iter(state.places.get(bundle, ())), None)
    places = state.places.get(view.known_of(bundle), ())
    return next((place for place in places if _is_as_filed(state.plan[place], view)), None)


def _is_as_filed(one: Planned, view: LoadView) -> bool:
    """Whether the data of an entry's bundle are still those it was filed under.

    Java's map files an entry under the hash that its key had on that day, and compares with the key as it is
    now.
    """
    return one.bundle not in view.bundles.row or view.bundles[one.bundle] == one.data
