"""A store of Paxos groups as executions see it: who is master, and who could become it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from trimtab.act.execution.port import PortError
from trimtab.model.masters import group_name
from trimtab.systems.paxos.client import PaxosNodes
from trimtab.systems.paxos.port import PaxosPort
from trimtab_common.errors import ConnectError
from trimtab_store.core.messages import GroupReport, MapChanged
from trimtab_store.core.settings import StoreSettings


def report(applied: int, *, holds: bool = False, votes: bool = True) -> GroupReport:
    """What a node tells of a group that it has applied so much of."""
    return GroupReport(1, holds, 0, 0, applied, 0.0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0, 0.0, votes)


class Nodes:
    """Two groups on three nodes; node 2 is six slots behind in group 1."""

    cluster = "store"

    def __init__(self, answering: bool = True, **settings: Any) -> None:
        self.configuration = SimpleNamespace(groups=2, settings=StoreSettings(**settings))
        self._answering, self.votes = answering, True
        self.published: tuple[int, ...] | None = None

    def reports(self) -> dict[int, dict[int, GroupReport]]:
        """Of all nodes, where they answer."""
        if not self._answering:
            raise ConnectError("no node answers")
        return {
            0: {0: report(7, holds=True), 1: report(20, votes=self.votes)},
            1: {0: report(7), 1: report(20, holds=True)},
            2: {0: report(7), 1: report(14)},
        }

    def preferred_map(self) -> MapChanged:
        """The first map."""
        return MapChanged(1, (0, 1))

    def publish(self, base: int, preferred: tuple[int, ...]) -> int | None:
        """Keep it."""
        self.published = preferred
        return base + 1


def port_of(nodes: Nodes) -> PaxosPort:
    """A port over them."""
    return PaxosPort(cast("PaxosNodes", nodes))


def test_groups_go_by_the_names_that_snapshots_give_them() -> None:
    """Other stores are rejected, whatever their name."""
    nodes = Nodes()
    seen = port_of(nodes).observe([group_name(0), group_name(1), "group 2", "group -1", "1", "other 1"])
    assert seen.masters == {"group 0": "0", "group 1": "1"}
    assert port_of(nodes).request_transfers(1, {"group 1": "2"}).version == 2
    assert nodes.published == (0, 2)


@pytest.mark.parametrize(("max_lag_entries", "able"), [(5, {"0", "1"}), (6, {"0", "1", "2"})])
def test_the_limit_of_lagging_nodes_is_read_from_the_nodes(max_lag_entries: int, able: set[str]) -> None:
    """Nodes reject lagging targets by a setting of their own, so no such transfer is requested."""
    seen = port_of(Nodes(max_lag_entries=max_lag_entries)).observe(["group 1"])
    assert seen.able == {"group 1": frozenset(able)}


def test_a_node_without_a_vote_gets_no_group() -> None:
    """It could not renew the mastership."""
    nodes = Nodes()
    nodes.votes = False
    assert port_of(nodes).observe(["group 1"]).able == {"group 1": frozenset({"1", "2"})}


def test_a_map_is_based_on_the_observed_version() -> None:
    """What is read may be older, where a node that knew more has ended: its groups would be set back."""
    nodes = Nodes()
    assert port_of(nodes).request_transfers(2, {"group 1": "2"}).version is None
    assert nodes.published is None


def test_a_store_that_does_not_answer_is_retried() -> None:
    """It may be there the next time."""
    with pytest.raises(PortError, match="NoAnswer: no node answers") as caught:
        port_of(Nodes(answering=False)).observe(["group 0"])
    assert caught.value.failure.transient
