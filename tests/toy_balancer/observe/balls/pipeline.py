"""The pipeline of the balancer `balls`."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.model.balls.snapshot import RESOURCES
from trimtab.observe.balls.raw import FORM
from trimtab.observe.lake.balancer_pipeline import BalancerPipeline, PipelineSettings
from trimtab.observe.lake.columns import QUALITY, imbalance_columns


@dataclass(frozen=True)
class BallsPipelineSettings(PipelineSettings):
    """The settings of this balancer's figures."""


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
    place="balls",
    resources=RESOURCES,
    settings=BallsPipelineSettings,
    raw=FORM,
    tables={
        "cleaned": FORM.cleaned,
        "brokers": BOXES,
        "imbalance": imbalance_columns("string"),
        "quality": QUALITY,
    },
    transformations="trimtab.observe.balls.stages:STAGES",
    snapshots="trimtab.observe.balls.snapshot:write_newest_snapshots",
)
