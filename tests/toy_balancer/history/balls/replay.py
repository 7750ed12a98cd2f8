"""Recorded snapshots of the balancer `balls` through its planner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimtab.files.balls.snapshot import FORMAT
from trimtab.model.balls.plan import BallsSettings
from trimtab.plan.balls.trim import plan


def replayed(values: Mapping[str, Any]) -> int:
    """Plan every snapshot of a folder; the exit code."""
    for path in sorted(values["snapshots"].glob("*.json")):
        print(path.name, len(plan(FORMAT.read(path), BallsSettings()).moves))
    return 0
