"""The pipeline of the level `replicas`: raw samples of Kafka to tables of brokers and partitions."""

from __future__ import annotations

from typing import Final

from trimtab.model.replicas.resources import RESOURCES
from trimtab.observe.collect.kafka.raw import FORM
from trimtab.observe.level_pipeline import LevelPipeline
from trimtab.observe.replicas.schemas import TABLES
from trimtab.observe.replicas.settings import ReplicasPipelineSettings

PIPELINE: Final = LevelPipeline(
    name="replicas",
    # Lakes were there before a second level was: this one's samples and tables lie in the lake itself.
    place="",
    resources=RESOURCES,
    settings=ReplicasPipelineSettings,
    raw=FORM,
    tables=TABLES,
    transformations="trimtab.observe.replicas.stages:STAGES",
    snapshots="trimtab.observe.replicas.snapshot:write_newest_snapshots",
)
