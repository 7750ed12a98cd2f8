"""The demo of bundles as a newcomer runs it, in its short form."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from support.demo_runs import read_result, require_levelled, start_demo, told_by

pytestmark = [pytest.mark.pulsar, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]


def test_three_pulsar_brokers_are_balanced_and_measured(tmp_path: Path) -> None:
    """The demo for new users: skew found, a hot bundle split, bundles moved, pauses reported."""
    out, state = tmp_path / "demo", tmp_path / "state"

    def run(attempt: int) -> tuple[int, str, dict[str, Any]]:
        shutil.rmtree(out, ignore_errors=True)
        demo = start_demo(state, out, "bundles")
        told, complaint = told_by(demo, 850)
        assert "Traceback" not in complaint
        assert not list((state / "sandbox").glob("*"))
        for text in ("1/9", "9/9", "message rate", "what did clients notice?"):
            assert text in told
        result, plan = read_result(out)
        # Pulsar puts bundles where it likes, but one bundle of the load is too hot for any broker.
        assert plan["balancer"] == "bundles"
        assert plan["moves"]
        assert "split" in {move["kind"] for move in plan["moves"]}
        assert result["spent"]["splits"] == 1
        assert result["spent"]["unloads"] > 0
        assert 0 < result["pauses"]["p50_seconds"] <= result["pauses"]["max_seconds"]
        return demo.returncode, told, result

    require_levelled(run, always=("message_rate",))
