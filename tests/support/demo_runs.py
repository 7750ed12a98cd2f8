"""Runs of `trimtab demo --quick`, and what their results must show."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.installations import runtime

EPSILON, THETA = 0.10, 0.80
ATTEMPTS = 2
"""A machine that was too busy for one measurement gets one more chance."""
FILES = ["plan.json", "result.json"]


def start_demo(state: Path, out: Path, *level: str, quick: bool = True) -> subprocess.Popen[str]:
    """`trimtab demo`, as a shell would start it in the environment that `make demo` builds."""
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from trimtab.cli.app import main; main()",
            *("demo", *level, *(["--quick"] if quick else []), "--out", str(out)),
        ],
        env=runtime() | {"TRIMTAB_STATE": str(state), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def told_by(demo: subprocess.Popen[str], seconds: float) -> tuple[str, str]:
    """Both outputs of a demo that ends within so long; else it is ended as by Ctrl-C, servers too."""
    try:
        return demo.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=240)
        raise


def require_levelled(run: Callable[[int], tuple[int, str, dict[str, Any]]], always: tuple[str, ...]) -> None:
    """Judge a demo: every uneven resource became more even, and none misses its goals by far.

    Where the demo's own log of the machine says that it was too busy to measure, a resource that misses its
    goals passes if its σ at least halved; if it did not, the demo is run once more, and only then skipped.
    Whatever the machine did, no record may be lost, all resources together must have become more even, and σ
    of those in `always`, which no other program's load changes, must at least have halved.

    Parameters
    ----------
    run
        Takes the number of the attempt; returns exit code, output and result.
    """
    for attempt in range(ATTEMPTS):
        code, told, result = run(attempt)
        log, outcome = result["log"], result["outcome"]
        assert log["confirmed"] > 0
        assert (log["lost"], log["twice"], log["out_of_order"]) == ({}, {}, {}), told
        assert f"every one of {log['confirmed']:,} confirmed" in told
        helped = outcome["improved"] and not outcome["worse"]
        assert code == (1 if not helped else 3 if outcome["unmet"] else 0), told
        assert ("every goal holds, by measurement" in told) == (code == 0)
        lacking = shortcomings(result)
        if not lacking:
            assert code in (0, 3), told
            return
        sums = [sum(result[when]["sigma"].values()) for when in ("before", "after")]
        assert sums[1] < sums[0], f"the cluster became less even: {lacking}\n{told}"
        for name in always:
            even = result["before"]["worst_deviation"][name] <= EPSILON
            assert even or halved(result, name), f"σ of {name} did not halve: {lacking}\n{told}"
        busy = [sample["why"] for sample in result["samples"] if sample["too_busy"]]
        assert busy, f"{lacking}, and the machine had time\n{told}"
        if not (unclear := [why for name, why in lacking if not halved(result, name)]):
            return
    pytest.skip(f"this machine was too busy {ATTEMPTS} times, at last for {busy}: {unclear}")


def halved(result: dict[str, Any], name: str) -> bool:
    """True if σ of a resource fell by half or more, as no other program's load makes it."""
    was, now = (result[when]["sigma"][name] for when in ("before", "after"))
    return bool(now <= was / 2)


def shortcomings(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Resources that a result does not show balanced, and why.

    A look of a few samples is no measurement to the last digit: a deviation of 2ε still passes, which nothing
    that was moved by wrong figures does.
    """
    before, after = result["before"], result["after"]
    found = []
    for name, deviation in before["worst_deviation"].items():
        now, peak = after["worst_deviation"][name], after["peak_usage"][name]
        uneven = deviation > EPSILON or before["peak_usage"][name] > THETA
        if uneven and after["sigma"][name] >= before["sigma"][name]:
            found.append((name, f"σ of {name} rose from {before['sigma'][name]} to {after['sigma'][name]}"))
        elif now > 2 * EPSILON or peak > THETA:
            found.append((name, f"{name} deviates by {now:.0%}, {deviation:.0%} before, peak {peak:.0%}"))
    return found


def read_result(out: Path, picture: str = "heatmap") -> tuple[dict[str, Any], dict[str, Any]]:
    """The result and the plan of a demo, which leaves a picture in two forms beside them and nothing else."""
    files = [f"{picture}.png", f"{picture}.svg", *FILES]
    assert sorted(path.name for path in out.iterdir()) == files
    return json.loads((out / "result.json").read_text()), json.loads((out / "plan.json").read_text())
