"""Fresh samples of a cluster for one look at it: taken now, worked through Spark, and gone again."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from trimtab.cli.bodies.collect import tell_tick
from trimtab.cli.bodies.watching import stop_on_signals
from trimtab.cli.bodies.where import Where
from trimtab.levels import Level
from trimtab.levels.settings import pipeline_table
from trimtab.levels.spark import spark_settings
from trimtab.model.errors import SettingsError
from trimtab.observe.collect import run
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.observe.lake import Lake
from trimtab.observe.level_pipeline import settings_of
from trimtab.observe.pipeline import run_batch
from trimtab.observe.session import spark_session
from trimtab.report.saying import say

SAMPLES = 6
"""Intervals that the time is cut into, where the settings do not ask for shorter ones."""
LEAST_SECONDS = 2.0 * SAMPLES


@contextmanager
def fresh_lake(level: Level, where: Where, seconds: float) -> Iterator[Path]:
    """A lake with nothing but samples that were taken for so long, of one level, and its tables.

    A line is said of each tick. The lake is a folder of its own, and gone in the end.

    Raises
    ------
    SettingsError
        If no cluster of the level's system is named, or the time is too short.
    TrimtabError
        If the cluster cannot be reached, or Spark does not start.
    """
    system, addressed = level.system, where.addressed()
    if addressed not in (None, system):
        raise SettingsError(
            f"the execution is of a {system.title} cluster: name it with {system.address.flag}"
        )
    if seconds < LEAST_SECONDS:
        raise SettingsError(f"--for is {seconds:g} s, and {LEAST_SECONDS:g} s or more are needed: give 60s")
    found = where.read()
    how = found.section("collect", CollectSettings)
    how = replace(how, interval_seconds=min(how.interval_seconds, float(seconds // SAMPLES)))
    capacity = found.section("capacity", CapacitySettings)
    pipelines = [level.pipeline()]
    settings = settings_of(found.section("pipeline", pipeline_table()), pipelines)[level.name]
    ticks = round(seconds // how.interval_seconds) + 1
    stop, collecting = stop_on_signals(), system.collecting()
    with tempfile.TemporaryDirectory(prefix="trimtab-") as folder:
        lake = Lake(Path(folder), level.pipeline())
        with (
            collecting.open(where.connection(system, found), how, capacity) as collector,
            run.lake_landing(lake.raw, collecting.columns) as below,
            collecting.recording(below, None) as landing,
        ):
            say(f"{ticks} samples, one every {how.interval_seconds:g} s")
            known: frozenset[str] = frozenset()
            for outcome in run.collect(collector, landing, how.interval_seconds, stop, ticks):
                known = tell_tick(outcome, known, level.carrier)
        session = spark_session(spark_settings(found), say=say)
        try:
            run_batch(session, lake, settings, None, None, say)
        finally:
            session.stop()
        yield Path(folder)
