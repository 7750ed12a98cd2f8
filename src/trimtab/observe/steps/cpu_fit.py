"""The cost in cores of what a broker carries: a non-negative regression over brokers and windows.

The regression itself needs no Spark; `fitted` and `with_costs` make and join the table `cpu_model`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from trimtab.model.load import FloatArray
from trimtab.observe.lake.columns import Row, ddl

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow
    from pyspark.sql import Column, DataFrame

    from trimtab.observe.lake.balancer_pipeline import PipelineSettings
    from trimtab.observe.lake.columns import Columns
    from trimtab.observe.lake.snapshots import SnapshotInputs


MEASURED, SHARES = "measured", "shares"

Divide = Callable[[FloatArray], FloatArray]
"""The part of the CPU that each cause is given where nothing better is known, by how much of it was carried
in all, shape (causes,)."""


def by_fixed_shares(shares: Sequence[float]) -> Divide:
    """Fixed shares of the causes; that of a cause that is absent goes to the others."""
    return lambda total: np.where(total > 0, np.array(shares), 0.0)


_LEAST_R2 = 0.5
"""A fit that explains less than half of what varies is no model of it."""
_ROWS_PER_CAUSE = 3
"""A fit with fewer rows than this for each unknown would describe noise."""


@dataclass(frozen=True)
class CpuFit:
    """Cores per unit of each cause, and what an idle broker takes.

    Attributes
    ----------
    method
        `measured` (fitted) or `shares` (fixed shares of the whole CPU, no idle part).
    cost
        Shape (causes,), cores per byte (or message) per second, not negative.
    idle_cores
        The intercept: what every broker takes without any load.
    r2
        Share of the variance that the fit explains; NaN for `shares`.
    rows
        How many (broker, window) rows were used.
    """

    method: str
    cost: FloatArray
    idle_cores: float
    r2: float
    rows: int


def fit_cpu(cores: FloatArray, carried: FloatArray, divide: Divide) -> CpuFit:
    """Fit CPU to load; fall back to fixed shares where the rows cannot tell, or the fit explains too little.

    Every subset of causes is solved by least squares and the best one without a negative coefficient is
    taken: with three causes that is exact non-negative least squares in eight small solutions, with four in
    sixteen.

    Parameters
    ----------
    cores
        Shape (rows,), CPU of one broker in one window.
    carried
        Shape (rows, causes), per second.
    divide
        The shares to fall back to.

    Returns
    -------
    CpuFit
        Rows with a value missing are left out.
    """
    whole = np.isfinite(cores) & np.isfinite(carried).all(axis=1)
    y, x = cores[whole], carried[whole]
    causes = x.shape[1]
    scale = x.max(axis=0, initial=0.0)
    if len(y) < _ROWS_PER_CAUSE * (causes + 1) or not (scale > 0).any():
        return by_shares(y, x, divide)
    scaled = x / np.where(scale > 0, scale, 1.0)
    varied = [cause for cause in range(causes) if np.ptp(scaled[:, cause]) > 1e-3]
    best, best_error = None, np.inf
    for size in range(len(varied), -1, -1):
        for chosen in combinations(varied, size):
            design = np.column_stack([np.ones(len(y)), scaled[:, list(chosen)]])
            solution = np.linalg.lstsq(design, y, rcond=None)[0]
            if (solution < 0).any():
                continue
            error = float(((y - design @ solution) ** 2).sum())
            if error < best_error:
                best, best_error = (chosen, solution), error
    if best is None or not best[0]:
        return by_shares(y, x, divide)
    chosen, solution = best
    cost = np.zeros(causes)
    cost[list(chosen)] = solution[1:] / scale[list(chosen)]
    spread = float(((y - y.mean()) ** 2).sum())
    r2 = 1.0 - best_error / spread if spread > 0 else 0.0
    if not (cost > 0).any() or r2 < _LEAST_R2:
        return by_shares(y, x, divide)
    return CpuFit(MEASURED, cost, float(solution[0]), r2, len(y))


def by_shares(cores: FloatArray, carried: FloatArray, divide: Divide) -> CpuFit:
    """The whole CPU divided over the causes by fixed shares; arguments as of `fit_cpu`, without gaps."""
    total = carried.sum(axis=0)
    share = divide(total)
    whole = share.sum()
    if whole == 0:
        return CpuFit(SHARES, np.zeros(len(total)), 0.0, float("nan"), len(cores))
    cost = share / whole * cores.sum() / np.where(total > 0, total, 1.0)
    return CpuFit(SHARES, cost, 0.0, float("nan"), len(cores))


def base_cores(fit: CpuFit, cores: FloatArray, carried: FloatArray) -> float:
    """Cores, not negative, that one broker takes beyond what its load explains by the cluster's fit.

    Idle cost and its own (a controller's work): the broker's mean CPU is this plus the cost of its mean load.
    `cores` and `carried` are its rows, as in `fit_cpu`.
    """
    if fit.method != MEASURED:
        return 0.0
    whole = np.isfinite(cores) & np.isfinite(carried).all(axis=1)
    if not whole.any():
        return fit.idle_cores
    return max(0.0, float((cores[whole] - carried[whole] @ fit.cost).mean()))


def fits_of(
    text: pyarrow.Table, causes: Sequence[str], reach: int, divide: Divide
) -> list[tuple[object, ...]]:
    """The fit of every cluster and window, over the brokers and windows of its reach.

    Parameters
    ----------
    text
        `cluster`, `end` (microseconds), `broker`, `cores`, `counted`, and each of `causes`, in that order of
        the first three. Where some rows of a fit are `counted`, the others, made of estimates, are left out.
    causes
        Names of columns.
    reach
        How far a fit looks back, microseconds.
    divide
        The shares to fall back to.

    Returns
    -------
    list of tuple
        Cluster, end, method, cost of each cause, idle cores, R² (None where there is none), rows, and every
        broker's base.
    """
    cluster = np.asarray(text["cluster"].to_pylist(), dtype=object)
    end = text["end"].to_numpy()
    # Names may be text: numbers are what is compared, row by row.
    names, broker = np.unique(text["broker"].to_numpy(), return_inverse=True)
    name_of = names.tolist()
    cores = text["cores"].to_numpy().astype(float)
    counted = text["counted"].to_numpy().astype(bool)
    carried = (
        np.column_stack([text[cause].to_numpy().astype(float) for cause in causes])
        if len(text)
        else np.zeros((0, len(causes)))
    )
    rows: list[tuple[object, ...]] = []
    for name in dict.fromkeys(cluster):
        of_cluster = np.flatnonzero(cluster == name)
        ends = end[of_cluster]
        for at in np.unique(ends):
            low, high = np.searchsorted(ends, [at - reach + 1, at + 1])
            near = of_cluster[low:high]
            near = near[counted[near]] if counted[near].any() else near
            fit = fit_cpu(cores[near], carried[near], divide)
            base = []
            for one in np.unique(broker[near]):
                its = near[broker[near] == one]
                base.append((name_of[one], base_cores(fit, cores[its], carried[its])))
            r2 = None if np.isnan(fit.r2) else fit.r2
            rows.append(
                (name, int(at), fit.method, *map(float, fit.cost), fit.idle_cores, r2, fit.rows, base)
            )
    return rows


def newest_cpu_fit(inputs: SnapshotInputs[PipelineSettings]) -> Row:
    """The CPU model of the newest closed window, without Spark.

    Returns
    -------
    dict
        `model` (empty without CPU), and `base`: idle cores by broker.
    """
    rows, ends = inputs.windows("cpu_model", inputs.settings.cpu_fit_windows)
    if not len(ends):
        return {"base": {}, "model": {}}
    closed = ends[ends <= inputs.tick]
    newest = (closed if len(closed) else ends).max()
    row = rows.slice(int(np.flatnonzero(ends == newest)[-1]), 1).to_pylist()[0]
    # The causes differ from level to level.
    apart = ("cluster", "window_end", "base")
    model = {name: value for name, value in row.items() if name not in apart and value is not None}
    return {"base": {one["broker"]: one["cores"] for one in row["base"]}, "model": model}


def fitted(
    windows: DataFrame,
    causes: Mapping[str, Column],
    columns: Columns,
    settings: PipelineSettings,
    divide: Divide,
) -> DataFrame:
    """The cost in cores of each cause, for every cluster and window, fitted over its brokers and windows.

    The only place where the pipeline leaves Spark: a fit has a few hundred rows of a few numbers.

    Parameters
    ----------
    windows
        With `cluster`, `window_end`, `kind`, `broker` and `cpu`, reaching `cpu_fit_windows` further back than
        the windows wanted; and `counted`, where a balancer tells counters from estimates.
    causes
        What brokers carry, per second, by the name of its column in the table made.
    columns
        Of the table made. It has no row for windows in whose reach no broker tells its CPU.
    divide
        As in `fits_of`.
    """
    from pyspark.sql import functions as F

    from trimtab.observe.spark.expressions import conform, frame_of

    told = windows.where("kind = 'broker' and cpu is not null").select(
        "cluster",
        F.unix_micros("window_end").alias("end"),
        "broker",
        F.col("cpu.mean").alias("cores"),
        (F.col("counted") if "counted" in windows.columns else F.lit(True)).alias("counted"),
        *(carried.alias(name) for name, carried in causes.items()),
    )
    order = [(name, "ascending") for name in ("cluster", "end", "broker")]
    reach = settings.cpu_fit_windows * settings.slide
    fits = fits_of(told.toArrow().sort_by(order), tuple(causes), reach, divide)
    by_number = ddl(columns).replace("`window_end` timestamp", "`end` bigint")
    frame = frame_of(told.sparkSession, fits, by_number)
    return conform(frame.withColumn("window_end", F.timestamp_micros("end")), columns)


def with_costs(rows: DataFrame, model: DataFrame, causes: Iterable[str]) -> DataFrame:
    """Rows of windows with their window's model: `cpu_method`, and the cost `_per_<cause>` of each cause.

    Where a window has no model, the method is `absent` and costs are null.
    """
    from pyspark.sql import functions as F

    costs = model.select(
        "cluster",
        "window_end",
        F.col("method").alias("cpu_method"),
        *(F.col(cause).alias(f"_per_{cause}") for cause in causes),
    )
    joined = rows.join(F.broadcast(costs), on=["cluster", "window_end"], how="left")
    return joined.withColumn("cpu_method", F.coalesce("cpu_method", F.lit("absent")))
