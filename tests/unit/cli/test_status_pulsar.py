"""`trimtab status --cluster pulsar+http://…`: the live status of a Pulsar cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from simulate.pulsar_admin.server import Fault, PulsarAdminServer, Trouble
from support.pulsar_admin import NAMESPACE, loaded_server
from trimtab.cli.app import main


@pytest.fixture
def server() -> Iterator[PulsarAdminServer]:
    """Three brokers; one bundle of four has no owner."""
    with loaded_server() as running:
        running.cluster.owners.popitem()
        yield running


def run(*arguments: str) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main(["status", *arguments])
    return int(ended.value.code or 0)


def document(server: PulsarAdminServer, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """What --json prints."""
    assert run("--cluster", "pulsar+" + ",".join(server.urls), "--json") == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_live_status_lists_brokers_with_their_load(
    server: PulsarAdminServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Brokers and leader, bundles and traffic, and what Pulsar does by itself."""
    assert run("--cluster", "pulsar+" + ",".join(server.urls)) == 0
    out = capsys.readouterr().out
    assert "simulated: 3 brokers, 8 bundles" in out
    assert "Pulsar 4.2.4, load manager modular" in out
    assert f"{server.ids[0]} (leader)" in out
    assert "shedding: on" in out
    assert "automatic splits: on" in out
    assert "5 of 8 bundles have no owner" in out  # four of pulsar/system, which nobody owns either


def test_programs_get_the_same_as_one_document(
    server: PulsarAdminServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Figures by broker add up to the cluster's."""
    found = document(server, capsys)
    brokers = found["brokers"]
    assert isinstance(brokers, list)
    assert (found["load_manager"], found["versions"], found["unowned_bundles"]) == ("modular", ["4.2.4"], 5)
    assert found["settings"] == {
        "loadBalancerSheddingEnabled": ["true"],
        "loadBalancerAutoBundleSplitEnabled": ["true"],
        "loadBalancerLoadSheddingStrategy": [],
    }
    owned = [key for key in server.cluster.owners if key.startswith(NAMESPACE)]
    assert sum(one["bundles"] for one in brokers) == len(owned) == 3
    assert [one["leader"] for one in brokers].count(True) == 1
    carried = sum(
        sum(server.cluster.rates[topic])
        for bundle in server.cluster.bundles_of(NAMESPACE)
        if bundle.key in owned
        for topic in server.cluster.topics_in(bundle)
    )
    assert sum(one["messages_per_second"] for one in brokers) == carried


def test_a_dead_broker_has_no_figures(server: PulsarAdminServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Listed as unreachable, and the others as they are."""
    dead = server.ids[1]
    server.kill(dead)
    found = document(server, capsys)
    assert isinstance(found["brokers"], list)
    (row,) = [one for one in found["brokers"] if one["id"] == dead]
    assert (row["state"], row["bundles"], row["messages_per_second"]) == ("unreachable", None, None)
    assert f"broker {dead} is unreachable" in str(found["problems"])


def test_switches_that_disagree_are_reported(
    server: PulsarAdminServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """One broker's own file differs; a quarter of the cluster would continue shedding."""
    server.cluster.files[server.ids[2]]["loadBalancerSheddingEnabled"] = "false"
    server.cluster.overrides["loadBalancerAutoBundleSplitEnabled"] = "false"
    assert run("--cluster", f"pulsar+{server.urls[0]}") == 0
    out = capsys.readouterr().out
    assert "shedding: on in some brokers, off in others" in out
    assert "automatic splits: off" in out


def test_settings_may_be_hidden_from_us(
    server: PulsarAdminServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A role that may not see them sees everything else."""
    server.faults.append(Fault("GET", "configuration/runtime", Trouble.REFUSED, times=99, status=403))
    assert run("--cluster", f"pulsar+{server.urls[0]}") == 0
    out = capsys.readouterr().out
    assert "shedding: unknown" in out
    assert "3 brokers" in out


def test_live_status_of_the_extensible_manager_reads_no_topic(capsys: pytest.CaptureFixture[str]) -> None:
    """One observation receives nothing that is published, and does not wait for it."""
    with loaded_server(extensible=True) as server:
        found = document(server, capsys)
    assert found["load_manager"] == "extensible"
    assert found["problems"] == []


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["--cluster", "pulsar+http://127.0.0.1:1"], "no Pulsar broker answers", 1),
        (["--cluster", "ftp://b:1"], "--cluster is 'ftp://b:1': write it like kafka://", 2),
        (["--live", "--cluster", "nowhere"], "the settings have no [clusters.NAME]", 2),
    ],
)
def test_an_unreachable_cluster_gives_one_sentence(
    arguments: list[str], said: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback, nothing on standard output."""
    assert run(*arguments) == code
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), said in err) == ("", 1, True)
