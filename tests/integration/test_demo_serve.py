"""The demo of the service as a newcomer runs it: a real broker is killed, healed, and filled again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.demo_runs import start_demo, told_by

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
