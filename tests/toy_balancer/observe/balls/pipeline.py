"""The pipeline of the balancer `balls`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trimtab.model.balls.snapshot import RESOURCES
from trimtab.observe.balls.raw import FORM
from trimtab.observe.lake.balancer_pipeline import BalancerPipeline, PipelineSettings


@dataclass(frozen=True)
class BallsPipelineSettings(PipelineSettings):
    """The settings of this balancer's figures."""

    PLACE: ClassVar[str] = "balls"


BOXES = (
    ("cluster", "string"),
    ("tick", "timestamp"),
    ("broker", "string"),
    ("broker_state", "string"),
    ("weight_load", "double"),
    ("weight_capacity", "double"),
    ("balls", "array<struct<name:string,weight:double>>"),
)

PIPELINE = BalancerPipeline(
    name="balls",
    resources=RESOURCES,
    settings=BallsPipelineSettings,
    raw=FORM,
    own_tables={"brokers": BOXES},
    transformations="trimtab.observe.balls.stages:STAGES",
    snapshots="trimtab.observe.balls.snapshot:write_newest_snapshots",
)
