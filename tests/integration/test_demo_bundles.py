"""The demo of bundles as a newcomer runs it, in its short form."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trimtab.model.plan import Verdict

pytestmark = [pytest.mark.pulsar, pytest.mark.spark, pytest.mark.timeout(1200)]


def test_three_pulsar_brokers_are_levelled_and_measured(tmp_path: Path) -> None:
    """Somebody wants to see it before reading: skew found, a hot bundle split, bundles moved, pauses told."""
    out, state = tmp_path / "demo", tmp_path / "state"
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "from trimtab.cli.app import main; main()",
            *("demo", "bundles", "--quick", "--out", str(out)),
        ],
        env=os.environ | {"TRIMTAB_STATE": str(state)},
        capture_output=True,
        text=True,
        timeout=1100,
    )
    assert told.returncode in (0, 1), told.stderr
    assert "Traceback" not in told.stderr
    assert not list((state / "sandbox").glob("*"))
    result = json.loads((out / "result.json").read_text())
    plan = json.loads((out / "plan.json").read_text())
    assert sorted(path.name for path in out.iterdir()) == [
        "heatmap.png", "heatmap.svg", "plan.json", "result.json",
    ]  # fmt: skip
    for text in ("1/9", "9/9", "message rate", "what did clients notice?"):
        assert text in told.stdout
    # Which bundles Pulsar puts where is its own draw, but one bundle of the load is too hot for any broker.
    assert plan["level"] == "bundles"
    assert plan["verdict"] != Verdict.LEVEL
    assert "split" in {move["kind"] for move in plan["moves"]}
    assert result["spent"]["splits"] == 1
    assert result["spent"]["unloads"] > 0
    assert 0 < result["pauses"]["p50_seconds"] <= result["pauses"]["max_seconds"]
    if told.returncode == 0:
        assert any(
            result["after"]["sigma"][name] < result["before"]["sigma"][name]
            for name in result["before"]["sigma"]
        )
