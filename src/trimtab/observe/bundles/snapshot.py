"""The newest tables to snapshots of the level `bundles`, by pyarrow and numpy alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from trimtab.observe.lake import Lake
    from trimtab.observe.manifest import Manifest
    from trimtab.observe.settings import PipelineSettings


def write_newest_snapshots(lake: Lake, manifest: Manifest, settings: PipelineSettings) -> list[Path]:
    return []
