"""The snapshot of the balancer `bundles`: which broker owns which bundle, with which load, lately and soon.

Struct of arrays: brokers, bundles and topics are indices, so that a million topics fit in memory and in
cache.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trimtab.model.bundles.policies import BundlePolicies
from trimtab.model.documents import Quality, SnapshotReference
from trimtab.model.load import BoolArray, FloatArray, Imbalance, IntArray, imbalance

RESOURCES: Final = ("cpu", "bandwidth_in", "bandwidth_out", "message_rate")
"""The resources that are balanced, in the order of every load array of this balancer.

Memory is not among them: heap and direct memory of a broker follow its garbage collector and its caches, not
the bundles it owns (Pulsar 4 gives both weight 0 for that reason).
"""

UNITS: Final = {
    "cpu": "cores",
    "bandwidth_in": "bytes per second",
    "bandwidth_out": "bytes per second",
    "message_rate": "messages per second, in and out",
}

NO_OWNER: Final = -1
"""Index that stands for no broker: a bundle that nobody has looked up yet, or whose owner died."""


CLAIMS: Final = "x_bundles_at_several_brokers"
"""The fact in `Quality.extra` that names bundles which several brokers report, each with these brokers."""


@dataclass(frozen=True, eq=False)
class BundleBrokers:
    """All brokers, in ascending order of name.

    Attributes
    ----------
    name
        Length (brokers,), Pulsar's broker ids, `host:port` of the web service.
    in_service
        Shape (brokers,): up, and not to be emptied; imbalance is measured over these, and only they may be
        given bundles.
    capacity
        Shape (brokers, resources), in `UNITS`; infinite where it is not limited and not balanced.
    base
        Shape (brokers, resources): load that no bundle carries along (an idle broker's CPU).
    """

    name: tuple[str, ...]
    in_service: BoolArray
    capacity: FloatArray
    base: FloatArray

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True, eq=False)
class Bundles:
    """All bundles, in ascending order of key.

    Attributes
    ----------
    key
        Length (bundles,), `tenant/namespace/0xLOW_0xHIGH`.
    owner
        Shape (bundles,), index into `BundleBrokers`, or `NO_OWNER`.
    load
        Shape (views, bundles, resources), in `UNITS`.
    sessions
        Shape (bundles,): producers and consumers, all of which an unload disconnects for a moment.
    topics
        Shape (bundles,): how many, as the broker counts them (system topics too).
    movable
        Shape (bundles,): False for bundles of brokers' own and of the system's namespaces.
    """

    key: tuple[str, ...]
    owner: IntArray
    load: FloatArray
    sessions: NDArray[np.int64]
    topics: NDArray[np.int64]
    movable: BoolArray

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True, eq=False)
class BundleTopics:
    """Topics that carry traffic, ordered by (bundle, hash); those of the newest view only.

    Attributes
    ----------
    name
        Length (topics,), full names: `persistent://tenant/namespace/topic-partition-0`.
    bundle
        Shape (topics,), index into `Bundles`.
    hash
        Shape (topics,), where in the namespace's hash range it lies.
    load
        Shape (topics, resources), in `UNITS`.
    sessions
        Shape (topics,).
    """

    name: tuple[str, ...]
    bundle: IntArray
    hash: NDArray[np.int64]
    load: FloatArray
    sessions: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.name)


NO_TOPICS: Final = BundleTopics(
    (),
    np.zeros(0, dtype=np.int32),
    np.zeros(0, dtype=np.int64),
    np.zeros((0, len(RESOURCES))),
    np.zeros(0, dtype=np.int64),
)
"""Where loads of topics are not known."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A bundle that left a broker a while ago, whoever moved it."""

    bundle: str
    broker: str
    at: float


@dataclass(frozen=True, eq=False)
class BundlesSnapshot:
    """Everything a planner of the balancer `bundles` may know.

    Attributes
    ----------
    taken_at
        Seconds since 1970, as in `reference`.
    views
        What the first axis of `Bundles.load` stands for: `window -k` for recent windows (the newest is
        `window 0`, always the first view), `forecast +s` for what is expected s seconds on. A plan has to
        hold in all of them.
    departures
        Lately, oldest first.
    boundaries
        Of every namespace: all boundaries of its bundles, rising.
    policies
        What operators have laid down about namespaces and brokers.
    load_manager
        `modular` or `extensible`.
    usage
        Where brokers' usage comes from: `measured` (each broker's own reports) or `declared` (message traffic
        over declared capacities, where one host carries all brokers).
    """

    reference: SnapshotReference
    quality: Quality
    taken_at: float
    views: tuple[str, ...]
    brokers: BundleBrokers
    bundles: Bundles
    topics: BundleTopics
    departures: tuple[Departure, ...] = ()
    boundaries: dict[str, tuple[int, ...]] = field(default_factory=dict)
    policies: BundlePolicies = field(default_factory=BundlePolicies)
    load_manager: str = "modular"
    usage: str = "measured"

    @property
    def claims(self) -> dict[str, tuple[str, ...]]:
        """Bundles that several brokers report as theirs, each with these brokers; they may not be moved."""
        told = dict(self.quality.extra).get(CLAIMS)
        if not isinstance(told, dict):
            return {}
        return {str(key): tuple(map(str, one)) for key, one in told.items() if isinstance(one, list | tuple)}

    @property
    def row_names(self) -> tuple[str, ...]:
        """Names of the rows of `imbalance().usage`: Pulsar's ids of the brokers."""
        return self.brokers.name

    @property
    def by_view(self) -> dict[str, Imbalance]:
        """Measures of the ownership as it is, by view."""
        return {name: self.imbalance(view=view) for view, name in enumerate(self.views)}

    def broker_load(self, owner: IntArray | None = None) -> FloatArray:
        """Shape (views, brokers, resources), in `UNITS`: loads under an ownership, by default as it is."""
        held = self.bundles.owner if owner is None else owner
        owned = held != NO_OWNER
        views, _, resources = self.bundles.load.shape
        load = np.repeat(self.brokers.base[None], views, axis=0)
        for view in range(views):
            for resource in range(resources):
                load[view, :, resource] += np.bincount(
                    held[owned],
                    weights=self.bundles.load[view, owned, resource],
                    minlength=len(self.brokers),
                )
        return load

    def imbalance(self, owner: IntArray | None = None, view: int = 0) -> Imbalance:
        """Equations 1 to 5 of an ownership in one view, over the brokers in service."""
        return imbalance(
            self.broker_load(owner)[view], self.brokers.capacity, self.brokers.in_service, RESOURCES
        )
