"""Option `--metrics` of commands that sample and stream: what a scrape reads, and what is refused."""

from __future__ import annotations

import datetime
import sys
import time
import urllib.request

import pytest

from trimtab.cli.metrics import COLLECT_METRICS, STREAM_METRICS, collect_metrics, stream_metrics
from trimtab.lab.sandbox.processes import free_ports
from trimtab.observe.collect.sampler import TickResult, TickSample
from trimtab.observe.lake.columns import SECOND
from trimtab.observe.steps.stream import BatchResult
from trimtab_common.errors import SettingsError
from trimtab_common.extras import MissingExtraError


def scrape(port: int) -> dict[str, float]:
    """Values by name and labels, without time stamps of creation."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    parts = [line.rpartition(" ") for line in lines if not line.startswith("#") and "_created" not in line]
    return {name: float(value) for name, _, value in parts}


def sample(problems: tuple[str, ...] = ()) -> TickSample:
    """A tick of three brokers, of which two answer."""
    return TickSample("orders", (), 2, 3, 0, 0, 0, problems, 0.25)


def test_ticks_are_counted() -> None:
    """Written, lost and missed ticks, their time and problems, and the age of the newest one."""
    (port,) = free_ports(1)
    now = datetime.datetime.now(datetime.UTC)
    with collect_metrics(f"127.0.0.1:{port}") as count:
        assert scrape(port)['trimtab_collect_ticks_total{result="lost"}'] == 0
        count(TickResult(now - datetime.timedelta(seconds=100), 0, sample(), None, 0.5))
        count(TickResult(now, 2, sample(("broker 3 does not answer",)), "the disk is full"))
        count(TickResult(now, 0, None, "no broker answers"))
        found = scrape(port)
    assert found['trimtab_collect_ticks_total{result="written"}'] == 1
    assert found['trimtab_collect_ticks_total{result="lost"}'] == 2
    assert found['trimtab_collect_ticks_total{result="missed"}'] == 2
    assert found["trimtab_collect_problems_total"] == 3
    assert found["trimtab_collect_tick_seconds_count"] == 2
    assert found["trimtab_collect_tick_seconds_sum"] == 1.0
    assert found['trimtab_collect_brokers{state="silent"}'] == 1
    assert 99 < found["trimtab_collect_newest_tick_age_seconds"] < 130
    assert found["process_start_time_seconds"] > 0


def test_micro_batches_are_counted() -> None:
    """Each balancer has its own figures; an empty micro-batch does not make the newest tick younger."""
    (port,) = free_ports(1)
    old = round((time.time() - 100) * SECOND)
    with stream_metrics(f"127.0.0.1:{port}") as count:
        count(BatchResult("replicas", 500, 3, old, 2.0))
        count(BatchResult("replicas", 0, 0, None, 1.0))
        count(BatchResult("queues", 7, 0, None, 0.5))
        found = scrape(port)
    assert found['trimtab_stream_rows_total{balancer="replicas"}'] == 500
    assert found['trimtab_stream_late_rows_total{balancer="replicas"}'] == 3
    assert found['trimtab_stream_batch_seconds_count{balancer="replicas"}'] == 2
    assert found['trimtab_stream_batch_seconds_sum{balancer="queues"}'] == 0.5
    assert 99 < found['trimtab_stream_newest_tick_age_seconds{balancer="replicas"}'] < 130
    assert found['trimtab_stream_newest_tick_age_seconds{balancer="queues"}'] < 30


def test_the_server_ends_with_the_command() -> None:
    """The port is free again, so that a supervisor can start the command anew at once."""
    (port,) = free_ports(1)
    for _ in range(2):
        with collect_metrics(f"127.0.0.1:{port}"):
            assert scrape(port)
    with pytest.raises(OSError, match="refused"):
        scrape(port)


@pytest.mark.parametrize("address", ["9230", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:70000", ":9230"])
def test_wrong_addresses_are_refused(address: str) -> None:
    """An address has a host and a port."""
    with pytest.raises(SettingsError, match="write an address and a port"), collect_metrics(address):
        pass


def test_an_occupied_port_is_refused() -> None:
    """The second command at an address names it and the remedy."""
    (port,) = free_ports(1)
    with (
        collect_metrics(f"127.0.0.1:{port}"),
        pytest.raises(SettingsError, match="name a free port"),
        stream_metrics(f"127.0.0.1:{port}"),
    ):
        pass


def test_a_base_installation_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without prometheus_client the error names the extra; without the option nothing is needed."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.setattr("trimtab_common.extras.find_spec", lambda _: None)
    with collect_metrics(None) as count:
        count(TickResult(datetime.datetime.now(datetime.UTC), 0, None, "lost"))
    with pytest.raises(MissingExtraError, match=r"extra serve"), collect_metrics("127.0.0.1:9230"):
        pass


def test_names_follow_the_conventions() -> None:
    """Counters end in `_total`, and units are base units."""
    for metric in (*COLLECT_METRICS, *STREAM_METRICS):
        assert metric.name.endswith("_total") == (metric.kind == "counter")
