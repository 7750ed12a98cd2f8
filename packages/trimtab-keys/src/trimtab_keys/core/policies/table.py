"""Key groups by a table, hot keys split over partitions."""

from __future__ import annotations

from typing import ClassVar

from trimtab_keys.core.load import PartitionLoadView, least_loaded
from trimtab_keys.core.murmur2 import Hashes
from trimtab_keys.core.policy import Chance
from trimtab_keys.core.routing import RoutingTable, group_count


class KeyGroups:
    """The partition that the table names for the key's group; for a split key the least loaded of its own.

    With a table that names nothing it is the plain hash. Its keys keep their order where none is split; the
    order guard keeps it where some are, and while groups move.

    Parameters
    ----------
    table
        Where everything goes.
    """

    name: ClassVar[str] = "key_groups"
    keeps_order: ClassVar[bool] = False
    needs_load: ClassVar[bool] = False

    def __init__(self, table: RoutingTable) -> None:
        self.table = table
        self._hashes = Hashes()
        self._groups = [group % table.base for group in range(group_count(table.base))]
        for group, route in table.groups.items():
            self._groups[group] = route.partitions[0]
        self._split = {key: route.partitions for key, route in table.keys.items()}

    def choose(self, key: bytes | None, view: PartitionLoadView, chance: Chance, /) -> int:
        """The group's partition, or one of a split key's."""
        if key is None:
            place = int(chance() * len(view.load))
        elif key in self._split:
            place = least_loaded(view.load, self._split[key], chance())
        else:
            groups = self._groups
            place = groups[self._hashes[key] % len(groups)]
        view.load[place] += 1
        return place

    def group(self, key: bytes) -> int:
        """The group of a key."""
        return self._hashes[key] % len(self._groups)
