"""The pipeline of the balancer `queues`: raw samples, tables, and settings; importing this needs no Spark.

A raw sample is one wide row per (cluster, tick, entity), as the collector writes it. Totals are counters
since a process or a server began; transformations make rates and times per message of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from trimtab.model.queues import RESOURCES
from trimtab.observe.lake.balancer_pipeline import BalancerPipeline, PipelineSettings, UpToAYear
from trimtab.observe.lake.columns import (
    SECOND,
    Columns,
    RawSchema,
    columns,
    numbers,
    of_raw,
)
from trimtab_common.documents import Positive

KINDS: Final = ("queue", "queue_process", "queue_class", "queue_server")
"""The kinds of entity that a row describes, and the columns it fills by that:

- `queue`: queue, capacity, messages, work and what of it is held, arrived and served totals, paused, alive;
- `queue_process`: process, queue (of a worker), version, policy, scheduling, default_weight;
- `queue_class`: process, queue, message_class, weight, and the totals of this process and class;
- `queue_server`: version, published (weights as JSON), and what the server tells of itself.
"""

KEYS: Final = ("cluster", "tick", "kind", "queue", "process", "message_class")
"""Two rows that agree in all of these are the same sample (null equals null)."""

COLUMNS: Final = (
    ("cluster", "string"),
    ("tick", "timestamp"),  # the aligned instant this sample belongs to
    ("kind", "string"),
    ("queue", "int"),
    ("process", "string"),
    ("message_class", "string"),
    ("sampled_at", "timestamp"),  # of a report when it was made, else when the server was read
    ("received_at", "timestamp"),  # when the row was landed
    ("capacity", "long"),  # messages
    ("messages", "long"),
    ("work_seconds", "double"),
    ("held_messages", "long"),
    ("held_work_seconds", "double"),
    ("arrived_seconds_total", "double"),  # counter
    ("served_seconds_total", "double"),  # counter
    ("paused", "boolean"),
    ("alive", "boolean"),
    ("version", "long"),
    ("policy", "string"),
    ("scheduling", "string"),  # JSON
    ("default_weight", "double"),
    ("weight", "double"),
    ("processed_total", "long"),  # counter
    ("busy_seconds_total", "double"),  # counter
    ("busy_squares_total", "double"),  # counter
    ("waited_seconds_total", "double"),  # counter
    ("waits", "longs"),  # counters
    ("accepted_total", "long"),  # counter
    ("refused_total", "long"),  # counter
    ("published", "string"),  # JSON
    ("memory_bytes", "long"),
)

_COLUMNS: Final[Columns] = of_raw(COLUMNS)

FORM: Final = RawSchema(_COLUMNS, KEYS, KINDS, negative=numbers(_COLUMNS, "bigint", "double"))
"""No figure of a queue is ever below zero."""


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

    horizon_seconds: UpToAYear = 10.0
    weight_windows: Positive = 10
    weight_samples: Positive = 100

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
    resources=RESOURCES,
    settings=QueuesPipelineSettings,
    raw=FORM,
    own_tables={
        "brokers": BROKERS,
        "classes": CLASSES,
        "windows": WINDOWS,
        "weights": WEIGHTS,
        "speeds": SPEEDS,
        "forecast_errors": FORECAST_ERRORS,
    },
    transformations="trimtab.observe.queues.stages:STAGES",
    snapshots="trimtab.observe.queues.stages:write_newest_snapshots",
)
