"""The demo of queues as a newcomer runs it, in its short form, and its sandbox."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.demo_runs import read_result, start_demo, told_by
from support.installations import runtime

pytestmark = pytest.mark.timeout(900)


def test_the_sandbox_starts_from_the_installation_of_make_demo(tmp_path: Path) -> None:
    """After `make demo` alone, the server of queues is installed."""

    def typed(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "trimtab", "sandbox", "queues", *words],
            env=runtime() | {"XDG_STATE_HOME": str(tmp_path), "TRIMTAB_STATE": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        assert "worker 1" in typed("up", "--workers", "1")
        assert "at work" in typed("status")
    finally:
        typed("down")


@pytest.mark.spark
@pytest.mark.long
def test_learned_weights_are_published_and_followed(tmp_path: Path) -> None:
    """The demo for new users: weights learned, published, measured, and a change followed. The improvement
    depends on the machine; that learned weights are near the truth does not.
    """
    out, state = tmp_path / "demo", tmp_path / "state"
    demo = start_demo(state, out, "queues")
    told, complaint = told_by(demo, 800)
    assert "Traceback" not in complaint, told + complaint
    for text in ("1/8", "8/8", "Did it help?", "2 weights published", "followed: W of a vote"):
        assert text in told, told + complaint
    result, plan = read_result(out, "demo-queues")
    assert plan["balancer"] == "queues"
    assert result["followed"]["weight"] >= 0.8 * 0.03
    waits = [result["waits_seconds"][when]["vote"]["p99"] for when in ("before", "after")]
    followed_in_time = result["followed"]["seconds"] <= 120
    assert demo.returncode == (0 if waits[1] < waits[0] and followed_in_time else 1), told
    assert not list((state / "sandbox").glob("*"))
