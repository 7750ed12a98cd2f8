"""Options that only the level `balls` has."""

from __future__ import annotations

from pathlib import Path

from trimtab.levels.system import Option

REPLAY = (Option("snapshots", "--snapshots", "A folder of snapshots.", Path),)
