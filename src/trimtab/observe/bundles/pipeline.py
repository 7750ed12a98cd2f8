"""The pipeline of the level `bundles`: raw samples of Pulsar to tables of brokers, bundles and topics."""

from __future__ import annotations

from typing import Final

from trimtab.model.bundles.snapshot import RESOURCES
from trimtab.observe.bundles.schemas import TABLES
from trimtab.observe.bundles.settings import BundlesPipelineSettings
from trimtab.observe.collect.pulsar.raw import FORM
from trimtab.observe.level_pipeline import LevelPipeline

PIPELINE: Final = LevelPipeline(
    name="bundles",
    place="bundles",
    resources=RESOURCES,
    settings=BundlesPipelineSettings,
    raw=FORM,
    tables=TABLES,
    transformations="trimtab.observe.bundles.stages:STAGES",
    snapshots="trimtab.observe.bundles.snapshot:write_newest_snapshots",
)
