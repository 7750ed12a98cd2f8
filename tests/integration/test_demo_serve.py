"""The service on six real brokers: the demo as a newcomer runs it, a rolling restart, and an outage."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simulate.served_cluster import free_port
from support.demo_runs import start_demo, told_by
from support.installations import runtime
from trimtab.lab.sandbox.kafka.cluster import KafkaSandbox
from trimtab.lab.sandbox.kafka.topics import create_topics
from trimtab.lab.sandbox.kafka.workload import skewed

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


def test_the_service_heals_and_fills_a_killed_broker(tmp_path: Path) -> None:
    """Every goal holds by measurement, and nothing is left running."""
    out, state = tmp_path / "demo", tmp_path / "state"
    demo = start_demo(state, out, "serve", quick=False)
    told, complaint = told_by(demo, 800)
    assert demo.returncode == 0, told + complaint
    assert "Traceback" not in complaint
    for text in ("1/7", "7/7", "Did it help?", "is accounted for"):
        assert text in told
    assert "MISSED" not in told
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    assert result["seconds_to_sync"] <= result["limit_seconds"]
    assert [one["trigger"] for one in result["executions"]] == ["broker_added", "broker_lost"]
    assert result["log"]["lost"] == {}
    assert {path.name for path in out.iterdir()} >= {"timeline.png", "heatmap.png"}
    assert not list((state / "sandbox").glob("*"))


SETTINGS = """
[clusters.sandbox]
address = "kafka://{bootstrap}"
[collect]
interval_seconds = 5
[pipeline]
window_seconds = 30
slide_seconds = 30
[capacity]
cpu_cores = 8
disk_bytes = 1e10
network_in_bytes_per_second = 1e8
network_out_bytes_per_second = 1e8
[serve]
observe = "run"
listen = "127.0.0.1:{port}"
interval_seconds = 10
restart_quiet_seconds = 60
[serve.broker_lost]
mode = "act"
after_seconds = 45
[serve.broker_added]
mode = "act"
after_seconds = 10
[serve.drift]
mode = "observe"
"""


class RealService:
    """`trimtab serve` with its collector and stream, beside six real brokers with some topics."""

    def __init__(self, folder: Path, sandbox: KafkaSandbox) -> None:
        self.port, self.log = free_port(), folder / "serve.log"
        settings = folder / "trimtab.toml"
        settings.write_text(SETTINGS.format(bootstrap=sandbox.bootstrap, port=self.port), encoding="utf-8")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "trimtab", "serve", "--settings", str(settings)],
                env=runtime()
                | {"TRIMTAB_STATE": str(folder / "state"), "TRIMTAB_LAKE": str(folder / "lake")},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def read(self, path: str) -> Any:
        """A document of the service."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}", timeout=30) as answer:
            return json.load(answer)

    def target(self) -> Any:
        """The state of the cluster; an empty one where the service does not answer yet."""
        try:
            (one,) = self.read("clusters")
        except OSError:
            return {"lost_brokers": (), "snapshot_taken_at": None}
        return one

    def lost(self) -> list[str]:
        """Brokers that it counts as lost."""
        return list(self.target()["lost_brokers"])

    def wait_for(self, text: str, holds: Callable[[], object], seconds: float = 120.0) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"not so: {text}\n{self.log.read_text('utf-8')[-3000:]}"
            time.sleep(0.5)

    def decisions(self, *kinds: str) -> list[Any]:
        """Decisions of some kinds."""
        return [one for one in self.read("decisions?limit=1000") if one["kind"] in kinds]

    def outage(self) -> list[Any]:
        """Alerts of an outage, and their ends."""
        return [one for one in self.decisions("notify") if one["key"] == "outage"]


def test_restarts_in_turn_and_an_outage_move_nothing(tmp_path: Path) -> None:
    """Six real brokers are restarted in turn; then three are killed at once: one alert, and its end."""
    with KafkaSandbox.start(6) as sandbox:
        create_topics(sandbox.connection, skewed())
        service = RealService(tmp_path, sandbox)
        try:
            service.wait_for("a snapshot", lambda: service.target()["snapshot_taken_at"], 180)
            for number in range(1, 7):
                sandbox.kill(number)
                service.wait_for(f"{number} is lost", service.lost)
                sandbox.restart(number)
                service.wait_for(f"{number} is back", lambda: not service.lost())
            assert service.decisions("make_plan", "execute") == []
            for number in (1, 3, 5):
                sandbox.kill(number)
            service.wait_for("an alert", service.outage)
            time.sleep(60)  # longer than the waiting time after a loss
            assert service.decisions("make_plan", "execute") == []
            for number in (1, 3, 5):
                sandbox.restart(number)
            service.wait_for("its end", lambda: len(service.outage()) == 2)
            assert sorted(one["is_over"] for one in service.outage()) == [False, True]
            assert service.decisions("make_plan", "execute") == []
            assert service.read("executions") == []
        finally:
            service.process.terminate()
            assert service.process.wait(30) == 0
