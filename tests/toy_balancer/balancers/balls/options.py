"""Options that only the balancer `balls` has."""

from __future__ import annotations

from pathlib import Path

from trimtab.balancers.balancer import Option

REPLAY = (Option("--snapshots", "A folder of snapshots.", Path),)
