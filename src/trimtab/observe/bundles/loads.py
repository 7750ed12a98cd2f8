"""Load of each bundle and topic on its broker: bandwidth and messages as counted, CPU by a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F

from trimtab.model.bundles.reports import TRAFFIC
from trimtab.observe.bundles.schemas import ATTRIBUTED, CPU_MODEL, LOAD
from trimtab.observe.cpu_model import fitted, with_costs
from trimtab.observe.spark_columns import conform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from trimtab.model.load import FloatArray
    from trimtab.observe.settings import PipelineSettings

_RATES = np.array([name.startswith("msg_rate") for name in TRAFFIC])


def by_messages(total: FloatArray) -> FloatArray:
    """The costs where a fit is impossible: every message costs the same, in or out; bytes cost nothing."""
    return np.where(_RATES, total, 0.0)


def cpu_model(windows: DataFrame, settings: PipelineSettings) -> DataFrame:
    """Cores per message and per byte, each way, for every cluster and window."""
    return fitted(windows, {name: F.col(name) for name in TRAFFIC}, CPU_MODEL, settings, by_messages)


def attributed(windows: DataFrame, cpu_model: DataFrame) -> DataFrame:
    """Load of every bundle and topic per window; CPU is null where a window has no model.

    What a broker takes beyond its bundles' loads (an idle broker's CPU, replication to bookies) is its base:
    no bundle carries it along.
    """
    carriers = windows.where("kind in ('bundle', 'topic')")
    joined = with_costs(carriers, cpu_model, TRAFFIC)
    cpu = F.lit(0.0)
    for name in TRAFFIC:
        cpu = cpu + F.col(f"_per_{name}") * F.col(name)
    load = F.struct(cpu, F.col("bandwidth_in.mean"), F.col("bandwidth_out.mean"), F.col("message_rate.mean"))
    known = F.col("message_rate").isNotNull()
    return conform(joined.withColumn("load", F.when(known, load.cast(LOAD))), ATTRIBUTED)
