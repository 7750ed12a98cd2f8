"""Options that only the level `balls` has."""

from __future__ import annotations

from pathlib import Path

from trimtab.balancers.balancer import Option

REPLAY = (Option("--snapshots", "A folder of snapshots.", Path),)
