"""A store of Paxos groups behind `trimtab.act.masters.state.MastersPort`: its map, its nodes' reports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

from trimtab.act.execution.port import calling
from trimtab.act.masters.state import MastersObservation, TransferRequestResult
from trimtab.model.masters.snapshot import group_number
from trimtab.systems.paxos.client import PaxosConnection, PaxosNodes


class PaxosPort:
    """An adapter for the nodes of one store; the map stands in the store, or in a file that they watch."""

    claim_rights = "let the user write into the folder of the preferred map"

    def __init__(self, nodes: PaxosNodes) -> None:
        self._nodes = nodes

    def observe(self, groups: Collection[str]) -> MastersObservation:
        """Read the masters of these groups; missing groups are left out."""
        reports = calling(self._nodes.reports)
        version = calling(self._nodes.preferred_map).version
        # A node further behind than that would refuse to take over.
        max_lag_entries = self._nodes.configuration.settings.max_lag_entries
        masters: dict[str, str | None] = {}
        able: dict[str, frozenset[str]] = {}
        for name in groups:
            number = self._number(name)
            standing = {node: told[number] for node, told in reports.items() if number in told}
            if not standing:
                continue
            newest = max(one.applied for one in standing.values())
            masters[name] = next((str(node) for node, one in sorted(standing.items()) if one.holds), None)
            able[name] = frozenset(
                str(node) for node, one in standing.items() if newest - one.applied <= max_lag_entries
            )
        return MastersObservation(
            self._nodes.cluster,
            self._nodes.cluster,
            version,
            masters,
            able,
            frozenset(map(str, reports)),
        )

    def request_transfers(self, base: int, targets: Mapping[str, str]) -> TransferRequestResult:
        """See `MastersPort.request_transfers`: the next map; groups that are not asked for stay as they are
        in it.
        """

        def publish() -> int | None:
            found = self._nodes.preferred_map()
            if found.version != base:
                return None  # it may also be older: a node has ended that knew more than those that answer
            preferred = list(found.preferred)
            for name, node in targets.items():
                preferred[self._number(name)] = int(node)
            return self._nodes.publish(base, tuple(preferred))

        return TransferRequestResult(calling(publish))

    def read_claims(self) -> frozenset[str]:
        """Read the claims of all trimtabs in this store."""
        return calling(self._nodes.claims)

    def write_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        """Add and remove claims in one change."""
        calling(lambda: self._nodes.change_claims(added, removed))

    def _number(self, name: str) -> int:
        """The number of a group by its name; -1 for one that cannot be of this store."""
        number = group_number(name)
        return number if number is not None and number < self._nodes.configuration.groups else -1


@contextmanager
def open_port(connection: PaxosConnection, clock: Callable[[], float]) -> Iterator[PaxosPort]:
    """A store to act on.

    Raises
    ------
    ConnectError
        If its configuration cannot be read.
    """
    yield PaxosPort(PaxosNodes(connection))
