"""Hand-written tables of the balancer `masters` to snapshots."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from hand_written_tables import lake_with
from trimtab.model.masters import NodeLoad, NodeState
from trimtab.observe.lake.lake import microseconds
from trimtab.observe.lake.snapshots import SnapshotInputs
from trimtab.observe.masters.pipeline import PIPELINE, MastersPipelineSettings
from trimtab.observe.masters.stages import snapshot_at

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime.datetime(2026, 11, 24, 12, tzinfo=datetime.UTC)


def row(tick: int, **columns: Any) -> dict[str, Any]:
    """A row of a tick of ten seconds."""
    return {"cluster": "store", "tick": NOON + datetime.timedelta(seconds=10 * tick), **columns}


def sample(tick: int, kind: str, **columns: Any) -> dict[str, Any]:
    """A sample that nothing is wrong with."""
    return row(tick, kind=kind, accepted=True, flags=0, **columns)


def test_nodes_use_the_addresses_of_their_samples(tmp_path: Path) -> None:
    """Of the same tick, which may be others than before; a node that does not answer has one too."""
    states = ("alive", "dead")
    told = [
        sample(tick, "paxos_node", node=node, address=f"{host}:{7000 + node}", alive=not node)
        for tick, host in enumerate(("old.example", "new.example"))
        for node in (1, 0)
    ]
    lake = lake_with(
        tmp_path,
        {
            "cleaned": [*told, sample(1, "paxos_map", version=3, preferred=[1], scheme="await")],
            "brokers": [
                row(1, broker=f"node {node}", node=node, broker_state=state)
                for node, state in enumerate(states)
            ],
            "groups": [row(1, group_number=0, master=0)],
        },
        balancer=PIPELINE,
    )
    tick = microseconds(NOON + datetime.timedelta(seconds=10))
    found = snapshot_at(SnapshotInputs(lake, lake.manifest(), MastersPipelineSettings(), "store", tick))
    assert found.nodes == (
        NodeLoad("0", "new.example:7000", NodeState.ALIVE),
        NodeLoad("1", "new.example:7001", NodeState.DEAD),
    )
    assert (found.version, found.scheme) == (3, "await")
    assert [(one.group, one.preferred) for one in found.groups] == [("group 0", 1)]


def test_a_node_that_lags_or_has_no_vote_cannot_be_master(tmp_path: Path) -> None:
    """Nor one that is dead, though its last report was sound."""
    told = [("alive", 100, True), ("alive", 100, False), ("alive", 35, True), ("dead", 100, True)]
    lake = lake_with(
        tmp_path,
        {
            "brokers": [
                row(1, broker=f"node {node}", node=node, broker_state=state)
                for node, (state, _, _) in enumerate(told)
            ],
            "shares": [
                row(1, node=node, group_number=0, applied=applied, votes=votes)
                for node, (_, applied, votes) in enumerate(told)
            ],
            "groups": [row(1, group_number=0, master=0)],
        },
        balancer=PIPELINE,
    )
    tick = microseconds(NOON + datetime.timedelta(seconds=10))
    found = snapshot_at(SnapshotInputs(lake, lake.manifest(), MastersPipelineSettings(), "store", tick))
    assert found.groups[0].able == (0,)
