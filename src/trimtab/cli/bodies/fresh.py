"""Fresh samples of a cluster for one look at it: taken now, worked through Spark, and gone again."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from trimtab.balancers import Balancer
from trimtab.balancers.settings import pipeline_table
from trimtab.balancers.spark import spark_settings
from trimtab.cli.bodies.collect import print_tick
from trimtab.cli.bodies.context import CommandContext
from trimtab.cli.bodies.watch import stop_on_signals
from trimtab.observe.collect import sampler
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.observe.lake.balancer_pipeline import settings_of
from trimtab.observe.lake.lake import Lake
from trimtab.observe.spark.session import spark_session
from trimtab.observe.steps.batch import run_batch
from trimtab.report.formats import print_progress
from trimtab_common.errors import SettingsError

SAMPLES = 6
"""Intervals that the time is cut into, where the settings do not ask for shorter ones."""
MIN_SECONDS = 2.0 * SAMPLES


@contextmanager
def fresh_lake(balancer: Balancer, context: CommandContext, seconds: float) -> Iterator[Path]:
    """A lake with nothing but samples that were taken for so long, of one balancer, and its tables.

    A line is said of each tick. The lake is a folder of its own, and gone in the end.

    Raises
    ------
    SettingsError
        If no cluster of the balancer's system is named, or the time is too short.
    TrimtabError
        If the cluster cannot be reached, or Spark does not start.
    """
    system = balancer.system
    if seconds < MIN_SECONDS:
        raise SettingsError(
            f"--duration is {seconds:g} s, and {MIN_SECONDS:g} s or more are needed: give 60s"
        )
    found = context.read()
    how = found.section("collect", CollectSettings)
    how = replace(how, interval_seconds=min(how.interval_seconds, float(seconds // SAMPLES)))
    capacity = found.section("capacity", CapacitySettings)
    pipelines = [balancer.pipeline()]
    settings = settings_of(found.section("pipeline", pipeline_table()), pipelines)[balancer.name]
    ticks = round(seconds // how.interval_seconds) + 1
    stop, collecting = stop_on_signals(), system.collecting()
    with tempfile.TemporaryDirectory(prefix="trimtab-") as folder:
        lake = Lake(Path(folder), balancer.pipeline())
        with (
            collecting.open(context.connection(system, found), how, capacity) as collector,
            sampler.lake_sink(lake.raw, collecting.columns) as below,
            collecting.recording(below, None) as landing,
        ):
            print_progress(f"{ticks} samples, one every {how.interval_seconds:g} s")
            known: frozenset[str] = frozenset()
            for outcome in sampler.collect(collector, landing, how.interval_seconds, stop, ticks):
                known = print_tick(outcome, known, balancer.target_kind)
        session = spark_session(spark_settings(found), print_progress=print_progress)
        try:
            run_batch(session, lake, settings, None, None, print_progress)
        finally:
            session.stop()
        yield Path(folder)
