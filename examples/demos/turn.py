"""Observing by Spark and acting on a sandbox, for any balancer."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from trimtab.act.execution.state import StateT
    from trimtab.act.executor import Executor, PlanT, PortT, SettingsT
    from trimtab.observe.lake.balancer_pipeline import PipelineSettings
    from trimtab.observe.lake.lake import Lake
    from trimtab.observe.steps.batch import PipelineRun


class DemoPipeline:
    """The Spark pipeline on one session, which begins to start at once, beside whatever else goes on.

    Parameters
    ----------
    scratch
        Folder for Spark's own files.
    settings
        What the tables depend on.
    jars
        That Spark needs besides, to read out of a system.
    """

    def __init__(self, scratch: Path, settings: PipelineSettings, jars: tuple[Path, ...] = ()) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        self.settings = settings
        self._pool = ThreadPoolExecutor(1, "spark")
        self._session: Future[SparkSession] = self._pool.submit(self._start, scratch, jars)

    @property
    def started(self) -> bool:
        """True when Spark is there, or has failed to start."""
        return self._session.done()

    @property
    def session(self) -> SparkSession:
        """The session, once it is there."""
        return self._session.result()

    def run(self, lake: Lake, print_progress: Callable[[str], None]) -> PipelineRun:
        """Build all tables and a snapshot from everything sampled so far."""
        from trimtab.observe.steps.batch import run_batch

        return run_batch(self.session, lake, self.settings, print_progress=print_progress)

    def close(self) -> None:
        """Stop Spark, if it has started."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._session.done() and not self._session.cancelled() and self._session.exception() is None:
            # A signal to the whole group has ended Spark's Java before us: then there is nothing to stop.
            with contextlib.suppress(Exception):
                self._session.result().stop()

    @staticmethod
    def _start(scratch: Path, jars: tuple[Path, ...]) -> SparkSession:
        from trimtab.observe.spark.session import SessionSettings, spark_session

        return spark_session(SessionSettings(), scratch, jars=jars)


def carry_out(
    acting: Executor[PortT, PlanT, SettingsT, StateT],
    port: PortT,
    plan: PlanT,
    plan_text: str,
    settings: SettingsT,
    folder: Path,
    watch: Callable[[StateT], None],
    sense: Any = None,
    preview: Callable[[Any], None] | None = None,
) -> Any:
    """Carry a plan out, journalled below `folder`; its receipt.

    Parameters
    ----------
    acting, port
        The balancer's way of acting, and the cluster.
    plan, plan_text
        The plan, and its file.
    watch
        Told the state after every event.
    sense
        The load that the plan was made from: between batches, moves that are no longer needed are dropped.
    preview
        Told the forecast before the first step; None makes none.
    """
    from trimtab.act import control
    from trimtab.act.executor import StateCodecs
    from trimtab.act.journal import ExecutionStore

    codecs = StateCodecs({acting.balancer: acting.codec}, acting.balancer)
    store = ExecutionStore(folder, codecs, time.time, time.sleep, lambda: secrets.token_hex(8))
    try:
        prepared = control.prepare(acting, port, plan)
        if preview is not None:
            preview(acting.forecast(prepared, settings, sense))
        return control.run_to_completion(
            acting,
            store,
            port,
            prepared,
            settings,
            plan_text,
            sense=sense,
            watch=watch,
        )
    finally:
        store.close()
