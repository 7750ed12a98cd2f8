"""What a node process refuses before it takes part in anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trimtab.dataplane.masters.configuration import read_configuration
from trimtab.dataplane.masters.links import FORMAT, who_speaks
from trimtab.dataplane.masters.process import NodeProcess
from trimtab.model.errors import InputError, SettingsError

GOOD = {
    "format": "trimtab/masters-node/1", "cluster": "c", "node": 0, "groups": 2,
    "addresses": ["127.0.0.1:1", "127.0.0.1:2"],
}  # fmt: skip


ETCD = {"engine": "etcd", "etcd": ["127.0.0.1:3", "127.0.0.1:4"]}


def configuration(folder: Path, **changes: Any) -> Path:
    """A file with these changes."""
    path = folder / "node.json"
    path.write_text(json.dumps({**GOOD, "folder": str(folder / "data"), **changes}))
    return path


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"format": "trimtab/masters-node/2"}, "has format 'trimtab/masters-node/2', expected"),
        ({"ideal": [0, 5]}, "names node 5 as ideal for group 1, expected 0 to 1, or -1"),
        ({"groups": "many"}, "cannot be read as a node's configuration"),
        ({"settings": {"lease_seconds": 4.0}}, "masters.lease_seconds is 4, expected 7 or more"),
        ({"settings": {"margin": 0.001}}, "masters.margin is 0.001, expected 0.01 or more"),
        ({"engine": "paxos"}, "cannot be read as a node's configuration"),
        ({"engine": "etcd"}, "has engine etcd and no members"),
        ({"etcd": ["127.0.0.1:3"]}, "has members of etcd and engine embedded"),
        ({**ETCD, "etcd": ["here"]}, "has address 'here', expected host:port"),
        ({**ETCD, "cluster": "a/b"}, "has cluster 'a/b', expected a name without /"),
        (
            {**ETCD, "settings": {"batch_bytes": 1 << 20}},
            "masters.batch_bytes is 1,048,576, expected 524,288",
        ),
        # 2 R + 2 x failover, which takes two elections: 5 + 2 x 3.
        ({**ETCD, "etcd_election_seconds": 1.5}, "masters.lease_seconds is 10, expected 11 or more"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    """One sentence each, before a socket is opened or a line written."""
    with pytest.raises(InputError, match=sentence):
        read_configuration(configuration(tmp_path, **changes))


def test_a_node_on_etcd_counts_with_its_elections_and_is_one_of_many(tmp_path: Path) -> None:
    """A failover takes two elections unless more is said; six nodes are no voters, and so not too many."""
    found = read_configuration(configuration(tmp_path, **ETCD, addresses=["h:1"] * 6))
    assert found.settings.failover_seconds == 2.0
    settings = {"lease_seconds": 13.0, "failover_seconds": 4.0}
    assert (
        read_configuration(configuration(tmp_path, **ETCD, settings=settings)).settings.failover_seconds
        == 4.0
    )
    pytest.importorskip("aetcd", reason="the extra masters-etcd is not installed")
    NodeProcess(found)


@pytest.mark.parametrize("changes", [{"node": 2}, {"addresses": ["h:1"] * 6}])
def test_a_node_that_is_no_voter_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    """A sixth voter, or one outside the list."""
    with pytest.raises(SettingsError, match="voters|one of the nodes"):
        NodeProcess(read_configuration(configuration(tmp_path, **changes)))


@pytest.mark.parametrize(
    "hello", [(FORMAT, "other", 1), ("trimtab/masters-wire/2", "c", 1), 7, (FORMAT, "c", 0.5)]
)
def test_another_cluster_or_version_is_refused(hello: Any) -> None:
    """The first message of a connection says both."""
    with pytest.raises(InputError, match="refused"):
        who_speaks(hello, "c")
    assert who_speaks((FORMAT, "c", 1), "c") == 1
