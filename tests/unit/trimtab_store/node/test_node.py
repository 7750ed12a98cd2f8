"""What a node process refuses before it takes part in anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trimtab_common.errors import InputError, SettingsError
from trimtab_store.format.configuration import read_configuration
from trimtab_store.format.peer_authentication import FORMAT, identify
from trimtab_store.node.health_monitor import RateLimitedLogger
from trimtab_store.node.process import NodeProcess

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
        ({"preferred_nodes": [0, 5]}, "names node 5 as preferred for group 1, expected 0 to 1, or -1"),
        (
            {"preferred_nodes": [0]},
            "has preferred nodes for 1 groups, expected 2: one node per group, or -1 for any",
        ),
        ({"setings": {}}, "has key setings, which a node does not know: did you mean settings"),
        ({"adresses": []}, "has key adresses, .*: did you mean addresses"),
        ({"x": 1}, "has key x, which a node does not know: known are format, cluster, node"),
        (
            {"settings": {"lease_secs": 7.0}},
            "has key settings.lease_secs, which a node .*: did you mean settings.lease_seconds",
        ),
        ({"settings": {"window": 0}}, "masters.window is 0, expected a whole number, 1 or more: correct it"),
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
        ({**ETCD, "etcd_election_seconds": 0}, "has etcd_election_seconds 0, expected a number above 0"),
        # 2 R + 2 x failover, which takes two elections: 5 + 2 x 3.
        ({**ETCD, "etcd_election_seconds": 1.5}, "masters.lease_seconds is 10, expected 11 or more"),
    ],
)
def test_invalid_configurations_are_rejected(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    """One sentence each, before a socket is opened or a line written."""
    with pytest.raises(InputError, match=sentence):
        read_configuration(configuration(tmp_path, **changes))


def test_a_node_on_etcd_counts_with_its_elections_and_is_one_of_many(tmp_path: Path) -> None:
    """A failover takes two elections unless configured otherwise; six nodes are not too many, as they do not
    vote.
    """
    found = read_configuration(configuration(tmp_path, **ETCD, addresses=["h:1"] * 6))
    assert found.settings.failover_seconds == 2.0
    settings = {"lease_seconds": 13.0, "failover_seconds": 4.0}
    assert (
        read_configuration(configuration(tmp_path, **ETCD, settings=settings)).settings.failover_seconds
        == 4.0
    )
    pytest.importorskip("aetcd", reason="the extra masters-etcd is not installed")
    NodeProcess(found)


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (None, r"no/map.json is not there, .*: correct .map. in the configuration of the node, or write"),
        ("{}", "map.json cannot be read as a preferred map"),
        (
            '{"format": "trimtab/masters-map/1", "version": 3, "preferred": [0]}',
            "has preferred nodes for 1 groups",
        ),
    ],
)
def test_a_node_without_the_map_that_it_is_to_watch_is_refused(
    tmp_path: Path, told: str | None, sentence: str
) -> None:
    """A mistyped path would hold up the transfers of all others; the log is not touched."""
    path = tmp_path / ("no/map.json" if told is None else "map.json")
    if told is not None:
        path.write_text(told)
    with pytest.raises(InputError, match=sentence):
        NodeProcess(read_configuration(configuration(tmp_path, map=str(path))))
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("changes", [{"node": 2}, {"addresses": ["h:1"] * 6}])
def test_a_node_that_is_no_voter_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    """A sixth voter, or one outside the list."""
    with pytest.raises(SettingsError, match="voters|one of the nodes"):
        NodeProcess(read_configuration(configuration(tmp_path, **changes)))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {0: "trimtab/masters-wire/1"},
            "began in trimtab/masters-wire/1, expected trimtab/masters-wire/5: run the",
        ),
        ({0: "http"}, "did not begin as trimtab/masters-wire/5 does"),
        ({1: "other"}, "node 1 is of cluster 'other', expected 'c'"),
        ({2: 0}, "node 0 is none of this cluster"),
        ({2: 3}, "node 3 is none of this cluster, expected another of 3 nodes"),
        ({2: 0.5}, "did not begin as"),
        ({3: 2}, "took this node for node 2, and it is node 0: correct the addresses"),
        ({4: "nonce"}, "did not begin as"),
        ({5: "life"}, "did not begin as"),
        ({6: "settings"}, "did not begin as"),
        # A client has neither life nor settings.
        ({2: "client"}, "did not begin as"),
    ],
)
def test_another_cluster_or_version_is_refused(changes: dict[int, Any], sentence: str) -> None:
    """The first message of a connection names sender, receiver and cluster."""
    hello = (FORMAT, "c", 1, 0, b"nonce", 7, ())
    with pytest.raises(InputError, match=f"{sentence}.*refused"):
        identify(tuple(changes.get(place, value) for place, value in enumerate(hello)), "c", 0, 3)
    assert identify(hello, "c", 0, 3) == 1
    assert identify((FORMAT, "c", "client", 0, b""), "c", 0, 3) == "client"
    with pytest.raises(InputError, match=r"is none of this cluster.*refused"):
        identify((FORMAT, "c", "x" * 65, 0, b""), "c", 0, 3)
    with pytest.raises(InputError, match=f"did not begin as {FORMAT} does"):
        identify(hello[:5], "c", 0, 3)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"tls_ca": "ca.pem"}, "tls_certificate and tls_key of a masters cluster not set"),
        ({"tls_certificate": "a", "tls_key": "b"}, "tls_ca of a masters cluster not set"),
        ({"tls_ca": "no.pem", "tls_certificate": "a", "tls_key": "b"}, "TLS file no.pem cannot be used"),
        ({"secret_file": "no"}, "secret_file no cannot be read"),
        ({"secret_file": "SHORT"}, "has a secret of 15 bytes, expected 16 or more"),
    ],
)
def test_a_guard_that_cannot_be_is_refused(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    """Before a socket is opened; and the secret is in no sentence."""
    (tmp_path / "SHORT").write_bytes(b"fifteen letters\n")
    if changes.get("secret_file") == "SHORT":
        changes = {"secret_file": str(tmp_path / "SHORT")}
    with pytest.raises(SettingsError, match=sentence) as caught:
        NodeProcess(read_configuration(configuration(tmp_path, **changes)))
    assert "fifteen" not in str(caught.value)


def test_lines_that_strangers_cause_are_few(capsys: pytest.CaptureFixture[str]) -> None:
    """Ten a minute; the first one after that states how many were suppressed."""
    now = 0.0
    complaints = RateLimitedLogger(lambda: now)
    for _ in range(1000):
        complaints.log("no")
    now = 60.0
    complaints.log("again no")
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["no"] * 10 + ["again no (990 such lines were left out before)"]
