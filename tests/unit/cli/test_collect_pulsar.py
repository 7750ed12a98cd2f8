"""`trimtab collect` of a Pulsar cluster as a command, against the simulated admin API."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulate.pulsar_admin.server import Fault, PulsarAdminServer, Trouble
from support.pulsar_admin import loaded_server
from trimtab.cli.app import main
from trimtab.files.bundles.reports import read_reports
from trimtab.observe.bundles.pipeline import PIPELINE as BUNDLES
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS


@pytest.fixture
def server() -> Iterator[PulsarAdminServer]:
    """Three brokers, one of them of another host's load."""
    with loaded_server() as running:
        running.cluster.brokers[running.ids[0]].cpu = (80.0, 200.0)
        yield running


def run(*arguments: str) -> int:
    """The exit code of a command; signal handlers as they were."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return int(ended.value.code or 0)


def test_some_ticks_land_and_are_recorded(
    server: PulsarAdminServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Into the place of the balancer `bundles`, and into a file that a replay reads as it is."""
    record = tmp_path / "reports.jsonl"
    given = ["--cluster", "pulsar+" + ",".join(server.urls), "--lake", str(tmp_path), "--record", str(record)]
    assert run("collect", *given, "--interval", "1", "--ticks", "2") == 0
    err = capsys.readouterr().err
    assert err.count("3 of 3 brokers, 18 rows") == 2
    assert f"load reports are recorded in {record}" in err
    assert "2 ticks landed" in err
    assert len(Lake(tmp_path, BUNDLES).raw_files()) == 2
    assert Lake(tmp_path, REPLICAS).raw_files() == []
    assert len(list(read_reports(record))) == 2
    decisions = tmp_path / "decisions.jsonl"
    arguments = ["--reports", str(record), "--strategy", "ThresholdShedder", "--out", str(decisions)]
    assert run("replay", "bundles", *arguments) == 0
    assert len(decisions.read_text().splitlines()) == 2


def test_an_unresponsive_broker_and_its_recovery_are_reported_once(
    server: PulsarAdminServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sentence when it begins, none at every tick."""
    # A question whose connection breaks is asked once more; the first look, and two ticks.
    server.faults.append(Fault("GET", "load-report", Trouble.LOST, times=6, broker=server.ids[2]))
    given = ["--cluster", "pulsar+" + ",".join(server.urls), "--lake", str(tmp_path)]
    assert run("collect", *given, "--interval", "1", "--ticks", "4") == 0
    lines = capsys.readouterr().err.splitlines()
    assert sum("is unreachable" in line and "over:" not in line for line in lines) == 1
    assert sum("over:" in line and "is unreachable" in line for line in lines) == 1
    assert sum("2 of 3 brokers" in line for line in lines) == 2


def test_a_signal_ends_it_cleanly(server: PulsarAdminServer, tmp_path: Path) -> None:
    """SIGINT between two ticks; the cluster comes from the settings, its name is set."""
    command = [sys.executable, "-c", "from trimtab.cli.app import main; main()", "collect", "--interval", "1"]
    with subprocess.Popen(
        [*command, "--lake", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ
        | {"TRIMTAB_COLLECT_CLUSTER": "orders", "TRIMTAB_CLUSTER": "pulsar+" + ",".join(server.urls)},
    ) as child:
        assert child.stderr is not None
        deadline = time.monotonic() + 60
        while not Lake(tmp_path, BUNDLES).raw_files():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        child.send_signal(signal.SIGINT)
        err = child.stderr.read()
        assert child.wait(timeout=30) == 0
    assert "ticks landed" in err.splitlines()[-1]
    assert "-orders-" in Lake(tmp_path, BUNDLES).raw_files()[0].name


def test_a_half_written_recording_is_mended(server: PulsarAdminServer, tmp_path: Path) -> None:
    """A collector killed in the middle of a line leaves a part of it, which the next one removes."""
    record = tmp_path / "reports.jsonl"
    given = ["--cluster", f"pulsar+{server.urls[0]}", "--lake", str(tmp_path), "--record", str(record)]
    assert run("collect", *given, "--interval", "1", "--ticks", "1") == 0
    record.write_bytes(record.read_bytes() * 1 + b'{"at": "2026-11-')
    assert run("collect", *given, "--interval", "1", "--ticks", "1") == 0
    assert len(list(read_reports(record))) == 2


@pytest.mark.parametrize(
    ("arguments", "expected", "code"),
    [
        (["--cluster", "pulsar+http://127.0.0.1:1"], "no Pulsar broker answers GET brokers", 1),
        (["--cluster", "ftp://b"], "write it like kafka://", 2),
        (
            ["--cluster", "kafka://127.0.0.1:1", "--record", "r.jsonl"],
            "--record keeps load reports of Pulsar",
            2,
        ),
        (
            ["--set", "clusters.a.address=kafka://b:1", "--set", "clusters.b.address=pulsar+http://b:2"],
            "the settings name 2 clusters: choose one with --cluster a or b",
            2,
        ),
        (["--set", "clusters.a.address=pulsar+http://127.0.0.1:1"], "no Pulsar broker answers", 1),
        (
            ["--cluster", "pulsar+http://b:1", "--set", "collect.pulsar.usage=guessed"],
            'usage is "guessed"',
            2,
        ),
        (
            ["--set", "clusters.a.address=pulsar+http://b:1", "--set", "clusters.a.tokn=x"],
            "did you mean clusters.a.token",
            2,
        ),
        (["--cluster", "pulsar+http://b:1", "--sink", "elsewhere"], "write lake, kafka:TOPIC", 2),
    ],
)
def test_unusable_arguments_give_one_sentence(
    arguments: list[str], expected: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad settings and unreachable clusters end before the first tick, without a traceback."""
    assert run("collect", "--lake", str(tmp_path), "--ticks", "1", *arguments) == code
    err = capsys.readouterr().err
    assert expected in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_recording_is_not_made_of_another_file(
    server: PulsarAdminServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistyped name must not spoil what is there."""
    other = tmp_path / "notes.txt"
    other.write_text("do not touch\n")
    given = [
        "--cluster",
        f"pulsar+{server.urls[0]}",
        "--lake",
        str(tmp_path / "lake"),
        "--record",
        str(other),
    ]
    assert run("collect", *given, "--ticks", "1") == 2
    assert "is there and is no recording of load reports" in capsys.readouterr().err
    assert other.read_text() == "do not touch\n"
