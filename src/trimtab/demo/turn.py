"""The three callables of a turn on a sandbox: observe by Spark, plan, act."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.files.plan import plan_bytes
from trimtab.files.replicas_snapshot import read_snapshot
from trimtab.plan.planner import plan_replicas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from trimtab.act.replicas.settings import ExecutionSettings
    from trimtab.act.replicas.state import ExecutionState
    from trimtab.connect.settings import KafkaConnection
    from trimtab.demo.world import World
    from trimtab.model.plan import Plan
    from trimtab.model.receipt import ReplicasReceipt
    from trimtab.model.replicas import ReplicasSnapshot
    from trimtab.model.settings import ReplicasSettings
    from trimtab.observe.lake import Lake
    from trimtab.observe.pipeline import Run
    from trimtab.observe.settings import PipelineSettings


class Pipeline:
    """The Spark pipeline on one session, which begins to start at once, beside whatever else goes on.

    Parameters
    ----------
    scratch
        Folder for Spark's own files.
    settings
        What the tables depend on.
    """

    def __init__(self, scratch: Path, settings: PipelineSettings) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        self.settings = settings
        self._pool = ThreadPoolExecutor(1, "spark")
        self._session: Future[SparkSession] = self._pool.submit(self._start, scratch)

    @property
    def started(self) -> bool:
        """Whether Spark is there, or has failed to start."""
        return self._session.done()

    def run(self, lake: Lake, say: Callable[[str], None]) -> Run:
        """Build all tables and a snapshot from everything sampled so far."""
        from trimtab.observe.pipeline import run_batch

        return run_batch(self._session.result(), lake, self.settings, say=say)

    def close(self) -> None:
        """Stop Spark, if it has started."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._session.done() and not self._session.cancelled() and self._session.exception() is None:
            # A signal to the whole group has ended Spark's Java before us: then there is nothing to stop.
            with contextlib.suppress(Exception):
                self._session.result().stop()

    @staticmethod
    def _start(scratch: Path) -> SparkSession:
        from trimtab.observe.session import SessionSettings, spark_session

        return spark_session(SessionSettings(short=True), scratch)


def newest(world: World) -> ReplicasSnapshot:
    """The snapshot that the pipeline wrote last."""
    return read_snapshot(world.lake.newest_snapshot())


def decide(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> Plan:
    """The plan."""
    return plan_replicas(snapshot, settings)


def carry_out(
    connection: KafkaConnection,
    plan: Plan,
    snapshot: ReplicasSnapshot,
    folder: Path,
    settings: ExecutionSettings,
    watch: Callable[[ExecutionState], None] = lambda _: None,
) -> ReplicasReceipt:
    """Carry a plan out, journalled below `folder`.

    Parameters
    ----------
    snapshot
        What the plan was made from; between batches, moves that are no longer needed are dropped.
    watch
        Told the state after every event.
    """
    from trimtab.act.apply import apply_plan
    from trimtab.act.kafka.port import KafkaAdminPort
    from trimtab.act.office import Office
    from trimtab.act.replicas.sensing import LoadSense
    from trimtab.connect.kafka import admin_client

    admin = admin_client(connection)
    office = Office(folder, time.time, time.sleep, lambda: secrets.token_hex(8))
    try:
        port = KafkaAdminPort(admin, time.time)
        sense = LoadSense(plan, snapshot)
        return apply_plan(port, office, plan, plan_bytes(plan).decode(), settings, sense=sense, watch=watch)
    finally:
        office.close()
        admin.close()
