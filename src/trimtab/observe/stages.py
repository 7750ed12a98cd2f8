"""The order of the transformations, and how far each looks back: what makes stream and batch the same.

A step takes samples, works out which instants of which table they can change, computes exactly those from
what is stored and what is new, and publishes all of it in one rename. Batch over history is one step over
everything; a micro-batch of the stream is a step over a few ticks. Every row is a pure function of the
samples within its reach, so both end in the same tables whatever came late, twice or out of order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trimtab.observe.attribute import attributed, cpu_model
from trimtab.observe.brokers import brokers, clients
from trimtab.observe.clean import deduplicated
from trimtab.observe.imbalance import imbalance
from trimtab.observe.quality import quality
from trimtab.observe.ranges import backward, forward, merged
from trimtab.observe.rates import rates
from trimtab.observe.tables import Written, read_table, within, write_table
from trimtab.observe.traffic import growth, traffic
from trimtab.observe.windows import windows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from trimtab.observe.lake import Lake
    from trimtab.observe.manifest import Manifest
    from trimtab.observe.ranges import Ranges
    from trimtab.observe.settings import PipelineSettings


@dataclass(frozen=True)
class Stage:
    """One table made from others.

    Attributes
    ----------
    table
        What it makes.
    reach
        For every table it reads, how far before a row's own time (microseconds) rows of that table matter
        to it.
    build
        The tables read, by name, and the settings, to the table made.
    """

    table: str
    reach: Mapping[str, Callable[[PipelineSettings], int]]
    build: Callable[[Mapping[str, DataFrame], PipelineSettings], DataFrame]


def _here(_: PipelineSettings) -> int:
    return 0


STAGES = (
    Stage("rates", {"cleaned": lambda s: s.gap}, lambda t, s: rates(t["cleaned"], s)),
    Stage("growth", {"rates": _here}, lambda t, s: growth(t["rates"])),
    Stage(
        "traffic",
        {"growth": lambda s: s.learning, "rates": _here},
        lambda t, s: traffic(t["growth"], t["rates"], s),
    ),
    Stage("brokers", {"rates": _here, "traffic": _here}, lambda t, s: brokers(t["rates"], t["traffic"])),
    Stage("clients", {"rates": lambda s: s.collapse}, lambda t, s: clients(t["rates"], s)),
    Stage(
        "imbalance",
        {"brokers": _here, "clients": _here},
        lambda t, s: imbalance(t["brokers"], t["clients"], s),
    ),
    Stage(
        "windows",
        {"traffic": lambda s: s.window, "brokers": lambda s: s.window},
        lambda t, s: windows(t["traffic"], t["brokers"], s),
    ),
    Stage(
        "cpu_model", {"windows": lambda s: s.fit_windows * s.slide}, lambda t, s: cpu_model(t["windows"], s)
    ),
    Stage(
        "attributed",
        {"windows": _here, "cpu_model": _here},
        lambda t, s: attributed(t["windows"], t["cpu_model"]),
    ),
    Stage(
        "quality",
        {"cleaned": _here, "rates": _here, "traffic": _here},
        lambda t, s: quality(t["cleaned"], t["rates"], t["traffic"]),
    ),
)


@dataclass(frozen=True)
class Step:
    """What one step did.

    Attributes
    ----------
    manifest
        To be published.
    rows
        Rows written per table.
    ranges
        Ticks that got samples.
    """

    manifest: Manifest
    rows: dict[str, int]
    ranges: Ranges


def step(
    session: SparkSession,
    lake: Lake,
    manifest: Manifest,
    samples: DataFrame,
    ranges: Ranges,
    settings: PipelineSettings,
    add: bool,
) -> Step:
    """Bring every table up to date with some samples; nothing is published yet.

    Parameters
    ----------
    session, lake, manifest
        The tables as they are.
    samples
        Columns of `schemas.CLEANED`, one row per raw row (`clean.typed`).
    ranges
        Covers the ticks of `samples`.
    settings
        What the figures depend on.
    add
        True: `samples` come on top of those already in the tables (a micro-batch). False: they are all
        there is for these ticks (a batch over history).

    Returns
    -------
    Step
        With the manifest to publish.
    """
    if add:
        samples = read_table(session, lake, manifest, "cleaned", ranges).unionByName(samples)
    cleaned = deduplicated(within(samples, "cleaned", ranges))
    rows: dict[str, int] = {}
    files = write_table(cleaned, lake, "cleaned")
    manifest = manifest.replaced("cleaned", ranges, files.path, files.span)
    rows["cleaned"] = files.rows
    changed = {"cleaned": ranges}
    waiting = list(STAGES)
    # Tables that do not need one another are made at the same time: small ones are bound by planning.
    with ThreadPoolExecutor(session.sparkContext.defaultParallelism) as workers:
        running: set[Future[tuple[str, Ranges, Written]]] = set()
        while waiting or running:
            for stage in [one for one in waiting if all(name in changed for name in one.reach)]:
                waiting.remove(stage)
                running.add(workers.submit(_make, session, lake, manifest, stage, dict(changed), settings))
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                table, made, files = future.result()
                manifest = manifest.replaced(table, made, files.path, files.span)
                rows[table], changed[table] = files.rows, made
    return Step(replace(manifest, settings=settings.of_tables()), rows, ranges)


def _make(
    session: SparkSession,
    lake: Lake,
    manifest: Manifest,
    stage: Stage,
    changed: Mapping[str, Ranges],
    settings: PipelineSettings,
) -> tuple[str, Ranges, Written]:
    """Compute everything of one table that changes in others can reach, and write it."""
    made = merged(
        piece for name, reach in stage.reach.items() for piece in forward(changed[name], reach(settings))
    )
    inputs = {
        name: read_table(session, lake, manifest, name, backward(made, reach(settings)))
        for name, reach in stage.reach.items()
    }
    frame = within(stage.build(inputs, settings), stage.table, made)
    return stage.table, made, write_table(frame, lake, stage.table)


def ticks_of(samples: DataFrame) -> dict[str, Any]:
    """The distinct ticks of samples (microseconds) and when the last one was received.

    Parameters
    ----------
    samples
        Columns of `schemas.CLEANED`.

    Returns
    -------
    dict
        `ticks` ascending, `received` (0 where nothing says when), `rows`, `late`.
    """
    from pyspark.sql import functions as F

    found = (
        samples.groupBy(F.unix_micros("tick").alias("tick"))
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.sum("late_copies").alias("late"),
            F.max(F.unix_micros("received_at")).alias("received"),
        )
        .collect()
    )
    return {
        "ticks": sorted(row["tick"] for row in found),
        "received": max((row["received"] or 0 for row in found), default=0),
        "rows": sum(row["rows"] for row in found),
        "late": sum(row["late"] for row in found),
    }
