"""The demo of keys as a newcomer runs it, in its short form."""

import json
from pathlib import Path

import pytest

from support.demo_runs import start_demo, told_by

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]


def test_a_hot_key_is_spread_and_no_record_is_overtaken(tmp_path: Path) -> None:
    """The demo for new users: a partition falls behind, a table spreads it, and order is preserved. The
    improvement depends on the machine; that records of each key took effect in order does not.
    """
    out, state = tmp_path / "demo", tmp_path / "state"
    demo = start_demo(state, out, "keys")
    told, complaint = told_by(demo, 1500)
    assert "Traceback" not in complaint
    assert not list((state / "sandbox").glob("*"))
    for text in ("1/8", "8/8", "fullest partition", "Did it help?", "none lost, none twice"):
        assert text in told, told + complaint
    result = json.loads((out / "result.json").read_text())
    plan = json.loads((out / "plan.json").read_text())
    assert (plan["balancer"], plan["topic"]) == ("keys", "orders")
    assert plan["moves"], "one partition gets more than its consumer can do"
    assert result["in_order"], told
    assert result["before"]["max_over_mean"] > result["after"]["max_over_mean"], told
    assert {"demo-keys.png", "demo-keys.svg"} <= {one.name for one in out.iterdir()}
    helped = result["after"]["p99_seconds"] < result["before"]["p99_seconds"]
    assert demo.returncode == (0 if helped else 1), told
