"""The load that rules on racks, hosts and replicas force on brokers under every plan.

A broker holds one replica of a partition at most, a rack and a host as many as their caps. So a set of
brokers must hold every replica that all other brokers together may not hold. The sets are *prefixes* of an
order of brokers, scarce ones first: prefixes of racks, of hosts, and of brokers by capacity. Each gives a
bound that holds for every lawful placement, and together they give the most even lawful utilisations
(`trimtab.plan.search.limits`).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.plan.replicas.arrays import ReplicasArrays
from trimtab.plan.search.limits import even_usage

ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class BrokerPrefix:
    """A set of brokers with its necessary load of one column.

    Attributes
    ----------
    brokers
        Indices.
    needed, capacity
        Load that it must carry at least, and capacity of its brokers.
    replicas
        Replicas that it must hold of each partition: at least, and at most over all partitions.
    """

    brokers: IntArray
    needed: float
    capacity: float
    replicas: tuple[int, int]

    @property
    def usage(self) -> float:
        """The least mean utilisation of the set."""
        return self.needed / self.capacity


@dataclass(frozen=True, eq=False)
class MinimumShares:
    """The least loads of sets of brokers.

    Attributes
    ----------
    service
        Shape (brokers,).
    lead
        Shape (partitions,): slot that leads in the snapshot, -1 for none.
    led
        Shape (partitions,): has a leader in the end.
    known
        Shape (columns,): every broker in service has a capacity, so that the mean is known.
    """

    arrays: ReplicasArrays
    service: BoolArray
    lead: IntArray
    led: BoolArray
    known: BoolArray

    @cached_property
    def _classes(self) -> tuple[IntArray, FloatArray]:
        """Distinct rules, and the loads of the partitions under each, shape (rules, 3 roles, columns).

        Rules are (replicas, cap of racks, cap of hosts); roles are follower, leader, and the lighter of both.
        """
        arrays = self.arrays
        held = arrays.initial >= 0
        # A demotion alone leaves replicas on brokers out of service, and leaders with them.
        number = (held & (arrays.leaving | self.service[arrays.initial])).sum(axis=1).astype(np.int64)
        led = (number == held.sum(axis=1)) & self.led
        caps = [np.minimum(cap, number) for cap in (arrays.rack_cap, arrays.host_cap)]
        wide = int(number.max(initial=0)) + 1
        code = np.where(arrays.movable & (number > 0), (number * wide + caps[0]) * wide + caps[1], -1)
        found, of = np.unique(code, return_inverse=True)
        rules = np.stack([found // wide**2, found // wide % wide, found % wide], axis=1)
        load = np.zeros((len(found), 3, arrays.use.shape[2]))
        for column in range(arrays.use.shape[2]):
            follower = arrays.use[:, 0, column]
            leader = np.where(led, arrays.use[:, 1, column], np.minimum(*arrays.use[:, :, column].T))
            for role, weights in enumerate((follower, leader, np.minimum(follower, leader))):
                load[:, role, column] = np.bincount(of, weights=weights, minlength=len(found))
        fixed = found < 0
        return rules[~fixed].astype(np.int32), load[~fixed]

    @cached_property
    def _fixed(self) -> FloatArray:
        """Shape (brokers, columns): load of partitions that stay where they are."""
        arrays = self.arrays
        load = np.zeros((len(self.service), arrays.use.shape[2]))
        rows = np.flatnonzero(~arrays.movable)
        for slot in range(arrays.initial.shape[1]):
            at = rows[arrays.initial[rows, slot] >= 0]
            role = (self.lead[at] == slot).astype(np.int64)
            np.add.at(load, arrays.initial[at, slot], arrays.use[at, role])
        return load

    def _nested(self) -> bool:
        """Whether no host stands in two racks."""
        hosts, racks = self.arrays.host[self.service], self.arrays.rack[self.service]
        return len(np.unique(hosts)) == len(np.unique(np.stack([hosts, racks], axis=1), axis=0))

    def _gains(self, order: IntArray) -> IntArray:
        """Shape (rules, brokers): 1 where a broker lets it and all that follow it hold one more replica.

        The last of the order come first: caps of racks, of hosts in them, and one a broker form a matroid, so
        that adding one by one gives the most that a set may hold.
        """
        arrays, (rules, _) = self.arrays, self._classes
        nested = self._nested()
        gains = np.zeros((len(rules), len(order)), dtype=np.int32)
        for row, (_, rack_cap, host_cap) in enumerate(rules.tolist()):
            in_rack: dict[int, int] = {}
            in_host: dict[int, int] = {}
            for at in range(len(order) - 1, -1, -1):
                rack, host = int(arrays.rack[order[at]]), int(arrays.host[order[at]])
                full = nested and in_host.get(host, 0) >= host_cap
                if full or in_rack.get(rack, 0) >= rack_cap:
                    continue
                in_rack[rack] = in_rack.get(rack, 0) + 1
                in_host[host] = in_host.get(host, 0) + 1
                gains[row, at] = 1
        return gains

    def _lower_bounds(self, order: IntArray, column: int) -> tuple[FloatArray, IntArray]:
        """Least load and least replicas of the first 0, 1, ... brokers.

        Shape (brokers + 1,) and (rules, brokers + 1).
        """
        rules, load = self._classes
        gains = self._gains(order)
        elsewhere = np.concatenate(
            [np.cumsum(gains[:, ::-1], axis=1)[:, ::-1], np.zeros((len(rules), 1), np.int32)], axis=1
        )
        number = rules[:, :1]
        held = np.minimum(np.maximum(number - elsewhere, 0), np.arange(len(order) + 1)[None, :])
        follower, leader, lighter = (load[:, role, column][:, None] for role in range(3))
        one_out = np.where(held > 0, (held - 1) * follower + lighter, 0.0)
        needed = np.where(held >= number, (held - 1) * follower + leader, one_out)
        fixed = np.concatenate([[0.0], np.cumsum(self._fixed[order, column])])
        return needed.sum(axis=0) + fixed, held

    def _orders(self, column: int) -> list[IntArray]:
        """Orders of the brokers in service whose prefixes are looked at."""
        arrays, capacity = self.arrays, self._capacity[:, column]
        service = np.flatnonzero(self.service)
        orders = [service[np.lexsort((service, capacity[service]))]]
        rules, load = self._classes
        weight = load[:, 0, column] + load[:, 1, column]
        for group, cap in ((arrays.rack, rules[:, 1]), (arrays.host, rules[:, 2])):
            size = np.bincount(group[service], minlength=int(group.max(initial=0)) + 1)
            if (size <= 1).all():
                continue
            room = np.bincount(group[service], weights=capacity[service], minlength=len(size))
            may = (np.minimum(cap[:, None], size[None, :]) * weight[:, None]).sum(axis=0)
            # A group that receives no replicas is not scarce.
            scarce = np.divide(room, may, out=np.full_like(room, np.inf), where=may > 0)
            orders.append(
                service[np.lexsort((service, capacity[service], group[service], scarce[group[service]]))]
            )
        return [order.astype(np.int32) for order in orders]

    @cached_property
    def _capacity(self) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 / self.arrays.inverse[: len(self.service)])

    def _requested(self, column: int) -> bool:
        return bool(self.known[column]) and len(self._classes[0]) > 0

    @cached_property
    def stretch(self) -> tuple[FloatArray, FloatArray]:
        """The most even utilisation of each broker and column as a share of the mean: highest, and lowest.

        Shape (brokers, columns). Both are 1 if the rules allow the mean.
        """
        high = np.ones((len(self.service), self.arrays.use.shape[2]))
        low = high.copy()
        for column in range(high.shape[1]):
            if not self._requested(column):
                continue
            for order in self._orders(column):
                least, _ = self._lower_bounds(order, column)
                capacity = self._capacity[order, column]
                if least[-1] <= 0.0:
                    continue
                even = even_usage(capacity, least) * (capacity.sum() / least[-1])
                even = np.where(np.abs(even - 1) <= ROUNDING, 1.0, even)
                high[order, column] = np.maximum(high[order, column], even)
                low[order, column] = np.minimum(low[order, column], even)
        return high, low

    def total(self, column: int) -> tuple[float, float]:
        """Load and capacity of all brokers in service, where they are known."""
        order = np.flatnonzero(self.service).astype(np.int32)
        return float(self._lower_bounds(order, column)[0][-1]), float(self._capacity[order, column].sum())

    def fullest(self, column: int) -> BrokerPrefix | None:
        """The set of brokers with the highest necessary mean utilisation; None if unknown."""
        return self._best(column, most=True)

    def emptiest(self, column: int) -> BrokerPrefix | None:
        """The set of brokers besides which the others must be emptiest on average."""
        return self._best(column, most=False)

    def _best(self, column: int, *, most: bool) -> BrokerPrefix | None:
        best: tuple[float, BrokerPrefix] | None = None
        for order in self._orders(column) if self._requested(column) else []:
            least, held = self._lower_bounds(order, column)
            width = np.cumsum(self._capacity[order, column])
            for end in range(1, len(order)):
                if most:
                    figure = least[end] / width[end - 1]
                else:
                    figure = -(least[-1] - least[end]) / (width[-1] - width[end - 1])
                if best is None or figure > best[0] + ROUNDING * abs(best[0]):
                    replicas = int(held[:, end].min()), int(held[:, end].max())
                    best = (
                        figure,
                        BrokerPrefix(order[:end], float(least[end]), float(width[end - 1]), replicas),
                    )
        return None if best is None else best[1]


def whole_groups(brokers: IntArray, group: IntArray, service: BoolArray) -> bool:
    """Whether a set of brokers is made of whole racks or hosts, as far as they are in service."""
    inside = np.zeros(len(service), dtype=np.bool_)
    inside[brokers] = True
    return not (np.isin(group, group[brokers]) & service & ~inside).any()
