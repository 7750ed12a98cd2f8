"""The demo of masters as a newcomer runs it, in its short form."""

from __future__ import annotations

from pathlib import Path

import pytest

from demos.masters import GROUPS, NODES, VICTIM
from support.demo_runs import read_result, start_demo, told_by

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

LEAST, MOST = GROUPS // NODES - 1, GROUPS // NODES + 1
"""Groups are equally busy by chance alone, so that a node may end with one more or less than its share."""


def test_a_killed_node_gets_masterships_back_under_load(tmp_path: Path) -> None:
    """The demo for new users: a node dies, masterships accumulate, are balanced again, and
    nothing is lost.
    """
    out, state = tmp_path / "demo", tmp_path / "state"
    demo = start_demo(state, out, "masters")
    told, complaint = told_by(demo, 800)
    assert "Traceback" not in complaint, told + complaint
    assert demo.returncode == 0, told + complaint
    for text in ("1/8", "8/8", "Did it help?", "none lost, none twice", "no client was told of an error"):
        assert text in told
    result, plan = read_result(out, "demo-masters")
    # Whatever is lost, twice or out of order ends the demo; what is in the logs beside would show here.
    assert result["acknowledged"] == result["logged"] > 0
    before, after = (result["masters"][when] for when in ("before", "after"))
    assert (before[VICTIM], sum(before), sum(after)) == (0, GROUPS, GROUPS)
    assert LEAST <= min(after) <= max(after) <= MOST
    assert result["queries_most_over_mean"]["before"] > 1.4  # 1.5, but for chance
    assert result["queries_most_over_mean"]["after"] < 1.25
    assert plan["balancer"] == "masters"
    assert result["transfers"] == len(plan["moves"]) == plan["bound"]["transfers"] >= LEAST
    waits = result["longest_wait_seconds"]
    assert waits["transfers"] < waits["failover"]
    assert not list((state / "sandbox").glob("*"))
