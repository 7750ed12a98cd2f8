"""`trimtab collect` as a command, against the protocol fake."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from simulate.kafka.cluster import cluster_of
from simulate.kafka.server import SimulatedKafkaServer
from trimtab.cli.app import main
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS

EXPOSITIONS = Path(__file__).parents[1] / "systems" / "kafka" / "expositions"


@pytest.fixture
def bootstrap() -> Iterator[str]:
    """Three simulated brokers with a topic."""
    cluster = cluster_of(3)
    cluster.controller.create_topic("t", {0: [1, 2], 1: [2, 3]}, size_bytes=60e6)
    with SimulatedKafkaServer(cluster) as server:
        yield ",".join(server.bootstrap)


def run(*arguments: str) -> int:
    """The exit code of a command; signal handlers as they were."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with pytest.raises(SystemExit) as ended:
            main(["collect", *arguments])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return int(ended.value.code or 0)


def test_some_ticks_land_in_the_lake(
    bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One file and one line of progress per tick; without endpoints CPU is reported as missing."""
    lake = str(tmp_path)
    assert run("--cluster", f"kafka://{bootstrap}", "--lake", lake, "--interval", "1", "--ticks", "2") == 0
    err = capsys.readouterr().err
    assert err.count("3 of 3 brokers, 15 rows") == 2
    assert "no metrics endpoint is set" in err
    assert "2 ticks landed" in err
    assert len(Lake(tmp_path, REPLICAS).raw_files()) == 2


def test_figures_as_json(bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One document on standard output; progress stays on standard error."""
    words = ["--cluster", f"kafka://{bootstrap}", "--lake", str(tmp_path), "--interval", "1", "--ticks", "1"]
    assert run(*words, "--json") == 0
    told = capsys.readouterr()
    document = json.loads(told.out)
    assert (document["written_ticks"], document["lost_ticks"]) == (1, 0)
    assert document["sink"] == str(Lake(tmp_path, REPLICAS).raw)
    assert "3 of 3 brokers" in told.err


def test_a_signal_ends_it_cleanly(bootstrap: str, tmp_path: Path) -> None:
    """SIGTERM between two ticks: it prints a summary and ends with 0."""
    command = [sys.executable, "-c", "from trimtab.cli.app import main; main()", "collect", "--interval", "1"]
    with subprocess.Popen(
        [*command, "--cluster", f"kafka://{bootstrap}", "--lake", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TRIMTAB_COLLECT_CLUSTER": "orders"},
    ) as child:
        assert child.stderr is not None
        deadline = time.monotonic() + 240
        while not Lake(tmp_path, REPLICAS).raw_files():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        child.send_signal(signal.SIGTERM)
        err = child.stderr.read()
        assert child.wait(timeout=30) == 0
    assert "ticks landed" in err.splitlines()[-1]
    assert "-orders-" in Lake(tmp_path, REPLICAS).raw_files()[0].name


def test_ticks_that_cannot_be_written_are_lost_and_counted(
    bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unwritable lake: every tick is tried, and the exit code reports that none was written."""
    (tmp_path / "raw").write_text("in the way")
    lake = str(tmp_path)
    assert run("--cluster", f"kafka://{bootstrap}", "--lake", lake, "--interval", "1", "--ticks", "2") == 1
    err = capsys.readouterr().err
    assert err.count("tick lost: samples cannot be written") == 2
    assert "0 ticks landed, 2 lost" in err


@pytest.mark.parametrize(
    ("arguments", "expected", "code"),
    [
        (["--sink", "elsewhere"], "write lake, kafka:TOPIC or", 2),
        (["--interval", "0"], "collect.interval_seconds is 0", 2),
        (["--set", "collect.intervall=3"], "did you mean collect.interval_seconds", 2),
        (["--set", "collect.hosts.one=h1"], "keys are broker ids", 2),
        (["--set", "collect.cluster=' '"], "collect.cluster is empty", 2),
        (["--set", "collect.timeout_seconds=31"], "collect.timeout_seconds is 31", 2),
        (["--cluster", "kafka://127.0.0.1:1"], "no Kafka broker can be reached", 1),
        (["--cluster", "kafka://nowhere"], "is not host:port", 2),
    ],
)
def test_unusable_arguments_give_one_sentence(
    arguments: list[str], expected: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad settings and unreachable clusters end before the first tick, without a traceback."""
    given = ["--cluster", "kafka://127.0.0.1:1", "--lake", str(tmp_path), "--ticks", "1", *arguments]
    assert run(*given) == code
    err = capsys.readouterr().err
    assert expected in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_settings_may_come_from_a_file(
    bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Brokers, endpoints and capacities in trimtab.toml; paths count from its folder."""
    (tmp_path / "clients.jsonl").write_text(
        json.dumps({"client": "c", "at": time.time(), "served_bytes_total": 5}) + "\n"
    )
    (tmp_path / "t.toml").write_text(
        f'[clusters.k]\naddress = "kafka://{bootstrap}"\n'
        '[collect]\ninterval_seconds = 1\nclient_samples = ["*.jsonl"]\n'
        '[collect.prometheus]\n1 = "127.0.0.1:1"\n'
        "[capacity]\ncpu_cores = 8\n[capacity.brokers.2]\ncpu_cores = 16\n"
    )
    assert run("--settings", str(tmp_path / "t.toml"), "--lake", str(tmp_path), "--ticks", "1") == 0
    err = capsys.readouterr().err
    assert "3 of 3 brokers, 0 of 1 endpoints, 16 rows" in err
    assert "metrics of broker 1: http://127.0.0.1:1/metrics: Connection refused" in err


@pytest.fixture
def exposed(bootstrap: str, tmp_path: Path) -> Iterator[tuple[dict[str, str], Path]]:
    """Pages of metrics by path, and settings that name /ID for each broker."""
    pages: dict[str, str] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(pages[self.path].encode())

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        settings = tmp_path / "t.toml"
        settings.write_text(
            f'[clusters.k]\naddress = "kafka://{bootstrap}"\n[collect]\ninterval_seconds = 1\n'
            f'prometheus = "http://127.0.0.1:{server.server_port}/{{id}}"\n'
        )
        yield pages, settings
        server.shutdown()


def test_missing_counters_are_reported_once(
    exposed: tuple[dict[str, str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rates under counters' names on two brokers: one line for both, and nothing of them in the lake."""
    pages, settings = exposed
    name = "kafka_server_brokertopicmetrics_bytesin_total"
    rates = (
        f'# TYPE {name} gauge\n{name} 1000813.5\n{name}{{topic="t"}} 1000811\nprocess_cpu_seconds_total 2\n'
    )
    pages |= {"/1": rates, "/2": rates}
    pages["/3"] = (EXPOSITIONS / "bitnami.txt").read_text()
    assert run("--settings", str(settings), "--lake", str(tmp_path), "--ticks", "2") == 0
    err = capsys.readouterr().err
    told = [line for line in err.splitlines() if "metrics of broker" in line]
    assert len(told) == 1
    assert (
        f"metrics of brokers 1, 2: the endpoint answers without bytes_in_total ({name} is a gauge by its "
        "# TYPE line), bytes_out_total, replication_bytes_in_total: bytes of all brokers are estimated"
        in told[0]
    )
    columns = ["kind", "broker", "bytes_in_total", "cpu_time_ns"]
    rows = [
        row
        for path in Lake(tmp_path, REPLICAS).raw_files()
        for row in pq.read_table(str(path), columns=columns).to_pylist()
    ]
    counted = {(one["broker"], one["bytes_in_total"]) for one in rows if one["kind"] == "broker"}
    assert counted == {(1, None), (2, None), (3, 5_000_010)}
    assert {one["broker"] for one in rows if one["kind"] == "topic_broker"} == {3}
    assert all(one["cpu_time_ns"] for one in rows if one["kind"] == "broker")
