"""The pipeline of the balancer `queues`: raw samples to tables of queues, classes, weights and forecasts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from trimtab.model.queues.snapshot import RESOURCES
from trimtab.observe.balancer_pipeline import BalancerPipeline
from trimtab.observe.columns import QUALITY, SECOND, columns, imbalance_columns
from trimtab.observe.queues.raw import FORM
from trimtab.observe.settings import PipelineSettings
from trimtab_common.errors import SettingsError


@dataclass(frozen=True)
class QueuesPipelineSettings(PipelineSettings):
    """Settings of the pipeline of the balancer `queues`.

    Attributes
    ----------
    horizon_seconds
        Horizon of the forecast of a queue's work, which is compared with the measured work.
    weight_windows
        Maximum number of windows over which a class's processing time is averaged.
    weight_samples
        Number of messages of a class after which older windows are ignored. Weights of frequent classes
        follow within one window.
    """

    PLACE: ClassVar[str] = "queues"

    horizon_seconds: float = 10.0
    weight_windows: int = 10
    weight_samples: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_seconds("horizon_seconds")
        for name in ("weight_windows", "weight_samples"):
            if getattr(self, name) < 1:
                raise SettingsError(f"pipeline.queues.{name} is {getattr(self, name)}: give 1 or more")

    def needed(self, table: str) -> int:
        """As for every balancer, for forecasts and weights too."""
        return max(super().needed(table), self.horizon + self.gap, self.weight_windows * self.window)

    @property
    def horizon(self) -> int:
        """The horizon of forecasts, microseconds."""
        return round(self.horizon_seconds * SECOND)


BROKERS: Final = columns(
    "cluster string, tick timestamp, broker string, broker_state string, queue int, elapsed_us bigint, "
    "capacity bigint, messages bigint, work_load double, work_capacity double, held_messages bigint, "
    "held_work_seconds double, arrived_seconds_per_second double, served_seconds_per_second double, "
    "forecast_seconds double, paused boolean, alive boolean, mean_weight double, flags int"
)
"""Queues; the names of the first columns are those that all balancers have."""

CLASSES: Final = columns(
    "cluster string, tick timestamp, process string, queue int, message_class string, elapsed_us bigint, "
    "weight double, processed bigint, busy_seconds decimal(28,6), busy_squares decimal(28,9), "
    "waited_seconds decimal(28,6), waits array<bigint>, accepted bigint, refused bigint, flags int"
)

WINDOWS: Final = columns(
    "cluster string, window_end timestamp, message_class string, queue int, weight double, "
    "processed bigint, busy_seconds decimal(38,6), busy_squares decimal(38,9), mean_seconds double, "
    "wait_seconds double, wait_p50_seconds double, wait_p99_seconds double, accepted bigint, "
    "refused bigint, sent_per_second double, processed_per_second double, refused_per_second double"
)
"""Of each class over all queues, where `queue` is null, and in each."""

WEIGHTS: Final = columns(
    "cluster string, window_end timestamp, message_class string, weight double, samples bigint, "
    "mean_seconds double, standard_error_seconds double, windows int"
)

SPEEDS: Final = columns(
    "cluster string, window_end timestamp, queue int, speed double, standard_error double, samples bigint"
)

FORECAST_ERRORS: Final = columns(
    "cluster string, tick timestamp, broker string, made timestamp, actual double, error double, "
    "error_of_latest double"
)

PIPELINE: Final = BalancerPipeline(
    name="queues",
    place=QueuesPipelineSettings.PLACE,
    resources=RESOURCES,
    settings=QueuesPipelineSettings,
    raw=FORM,
    tables={
        "cleaned": FORM.cleaned,
        "brokers": BROKERS,
        "classes": CLASSES,
        "windows": WINDOWS,
        "weights": WEIGHTS,
        "speeds": SPEEDS,
        "forecast_errors": FORECAST_ERRORS,
        "imbalance": imbalance_columns("string"),
        "quality": QUALITY,
    },
    transformations="trimtab.observe.queues.stages:STAGES",
    snapshots="trimtab.observe.queues.snapshot:write_newest_snapshots",
)
