"""What differs from level to level in the pipeline; everything else is one mechanism for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from trimtab.observe.clean import RawForm
    from trimtab.observe.lake import Lake
    from trimtab.observe.manifest import Manifest
    from trimtab.observe.schemas import Columns
    from trimtab.observe.settings import PipelineSettings
    from trimtab.observe.stage import Stage

_MODULES: Final = {
    "replicas": "trimtab.observe.replicas_pipeline",
    "bundles": "trimtab.observe.bundles.pipeline",
}


@dataclass(frozen=True)
class LevelPipeline:
    """One level's part of the pipeline.

    Attributes
    ----------
    raw
        What its raw rows look like.
    tables
        Columns of each of its tables.
    stages
        How all of them but `cleaned` are made.
    write_snapshots
        The newest tables to a snapshot folder per cluster.
    """

    raw: RawForm
    tables: Mapping[str, Columns]
    stages: tuple[Stage, ...]
    write_snapshots: Callable[[Lake, Manifest, PipelineSettings], list[Path]]


def pipeline_of(level: str) -> LevelPipeline:
    """The pipeline of a level; imported when asked for, so that a lake without it costs nothing."""
    found: LevelPipeline = import_module(_MODULES[level]).PIPELINE
    return found
