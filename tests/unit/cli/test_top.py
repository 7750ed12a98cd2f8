"""`trimtab top`: largest partitions and topics, busiest brokers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from support.fake_service import FakeService
from support.http_calls import served
from support.replica_clusters import broker, partition, snapshot
from trimtab.api import write_snapshot
from trimtab.cli.app import _root
from trimtab.serve.documents import BrokerStatus, LargestPart
from trimtab.serve.http.app import create_app
from trimtab_common.errors import InputError

Top = Callable[..., Result]
LOADS = {("a", 0): (0.1, 5e9, 1e6, 9e6), ("a", 1): (0.2, 4e9, 2e6, 1e6), ("b", 0): (0.4, 8e9, 9e6, 2e6)}


@pytest.fixture
def top(tmp_path: Path) -> Top:
    """Runs the command on a snapshot of two topics on three brokers, of which one is dead."""
    capacity = (1.0, 1e11, 1e8, 1e8)
    brokers = [broker(one, state="dead" if one == 3 else "alive", capacity=capacity) for one in (1, 2, 3)]
    partitions = [
        partition("a", 0, [1, 2], load=LOADS["a", 0]),
        partition("a", 1, [2, 1], load=LOADS["a", 1]),
        partition("b", 0, [2, 3], load=LOADS["b", 0]),
    ]
    write_snapshot(snapshot(brokers, partitions), tmp_path / "snapshot.json")

    def run(*words: str) -> Result:
        return CliRunner().invoke(_root, ["top", "--snapshot", str(tmp_path / "snapshot.json"), *words])

    return run


def rows(done: Result) -> list[str]:
    """The first column below the headings."""
    assert done.exit_code == 0, done.output
    return [line.split()[0] for line in done.stdout.splitlines()[1:]]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ([], ["b-0", "a-0", "a-1"]),
        (["--sort", "network_out"], ["a-0", "b-0", "a-1"]),
        (["--sort", "cpu", "--count", "2"], ["b-0", "a-1"]),
        (["--topics"], ["a", "b"]),
        (["--topics", "--sort", "cpu"], ["b", "a"]),
        (["--brokers"], ["2", "1", "3"]),
        (["--brokers", "--sort", "leaders"], ["2", "1", "3"]),
        (["--brokers", "--sort", "replicas", "--count", "1"], ["2"]),
    ],
)
def test_rows_are_sorted_and_counted(top: Top, words: list[str], names: list[str]) -> None:
    """By stored bytes, or by the named column; brokers by their largest utilization."""
    assert rows(top(*words)) == names


def test_figures_have_units(top: Top) -> None:
    """A topic has the sum of its leaders; a broker its load, utilization and signed deviation."""
    topic = top("--topics").stdout.splitlines()[1]
    assert " ".join(topic.split()) == "a 0.30 cores 9.0 GB 3.0 MB/s 10.0 MB/s 2 1, 2"
    assert " ".join(top().stdout.splitlines()[2].split()) == "a-0 0.10 cores 5.0 GB 1.0 MB/s 9.0 MB/s 1 1, 2"
    text = top("--brokers").stdout
    assert "3 (offline)" in text
    busiest = json.loads(top("--brokers", "--json").stdout)[0]
    assert f"{busiest['usage'][1]:.0%}" in text
    assert busiest["deviation"][1] > 0
    assert json.loads(top("--brokers", "--json").stdout)[1]["deviation"][1] < 0
    assert busiest["capacity"] == [1.0, 1e11, 1e8, 1e8]
    assert busiest["figures"]["leader_network_in"] == 11e6
    assert busiest["figures"]["potential_network_out"] == 12e6
    assert busiest["host"] == "broker-2"


def test_wrong_values_are_named(top: Top) -> None:
    """A column that is not there, and two kinds of rows."""
    for words, text in (
        (["--sort", "heat"], "use cpu, disk"),
        (["--brokers", "--sort", "heat"], "network_out, replicas, leaders"),
        (["--brokers", "--topics"], "exclude each other"),
        (["--balancer", "keys"], "choose another balancer"),
    ):
        done = top(*words)
        assert isinstance(done.exception, InputError), done.output
        assert text in str(done.exception)


def test_a_service_lists_the_same() -> None:
    """With --via the rows are those of the API; options of this machine are refused."""
    service = FakeService()
    with served(create_app(service)) as server:

        def run(*words: str) -> Result:
            words = ("top", "--via", server.url, "--cluster", "payments", *words)
            return CliRunner().invoke(_root, list(words))

        found = msgspec.json.decode(run("--json", "--sort", "network_in").stdout, type=list[LargestPart])
        assert found == service.largest("payments", "replicas", "partitions", "network_in", 20)
        assert rows(run("--topics", "--count", "2")) == ["live-00", "live-01"]
        brokers = msgspec.json.decode(run("--brokers", "--json").stdout, type=list[BrokerStatus])
        assert [one.name for one in brokers][::5] == ["2", "6"]
        assert sorted(brokers, key=lambda one: one.name) == list(
            service.target("payments", "replicas").brokers
        )
        assert isinstance(run("--lake", "lake").exception, InputError)
