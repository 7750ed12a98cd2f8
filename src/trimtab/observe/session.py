"""The Spark session, with the traps of a laptop taken out."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.jars.java import find_java
from trimtab.model.errors import ObserveError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""Half the start-up time, but compiled code stays slow: right for tests and short runs, wrong for heavy jobs.
The code cache must be given: its default in this mode is 48 MB, which a few minutes of Spark fill up."""

_LEAST_COMPILING = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Compiling a query costs about half a second, more than running it over a few ticks of a small cluster."""


@dataclass(frozen=True)
class SessionSettings:
    """Settings that Spark is started with.

    Attributes
    ----------
    master
        Spark's master; `local[*]` runs inside this process' own JVM.
    cores
        Shuffle partitions; 0 is the number of cores here.
    memory
        Heap of the local driver.
    short
        Prefer a fast start over fast long jobs.
    jars
        Further jars, such as Spark's Kafka connector.
    """

    master: str = "local[*]"
    cores: int = 0
    memory: str = "2g"
    short: bool = False
    jars: tuple[Path, ...] = ()


def spark_session(
    settings: SessionSettings | None = None,
    scratch: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> SparkSession:
    """The one Spark session of this process.

    Parameters
    ----------
    settings
        How to start it, if it is not running yet.
    scratch
        Folder for Spark's spill and warehouse; by default Spark's own choice.
    say
        Told that Spark is about to start, for that takes seconds.

    Returns
    -------
    SparkSession
        With UTC as its time zone and nothing listening beyond this machine.

    Raises
    ------
    JarsError
        If Java is missing or too old.
    ObserveError
        If Spark does not start.
    """
    chosen = settings or SessionSettings()
    find_java("Spark")
    from pyspark.sql import SparkSession

    say("starting Spark")

    # Python workers must be this interpreter, not whatever `python3` happens to be on PATH.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if chosen.master.startswith("local"):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(chosen.master).appName("trimtab")
    for key, value in session_options(chosen, scratch).items():
        builder = builder.config(key, value)
    with _quiet_start():
        try:
            session = builder.getOrCreate()
        except Exception as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ObserveError(
                f"Spark with master {chosen.master} did not start: {reason}; "
                "see that Java works (`java -version`) and that enough memory is free"
            ) from error
    session.sparkContext.setLogLevel("ERROR")
    # PySpark repeats every failed query as JSON on the terminal, stack trace and all.
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    # Its bridge does the same with the call that Ctrl-C interrupts.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    return session


def session_options(settings: SessionSettings, scratch: Path | None = None) -> dict[str, str]:
    """Everything that is set on a session that this process starts."""
    return {**_start_options(settings, scratch), **_query_options(settings)}


def _start_options(settings: SessionSettings, scratch: Path | None) -> dict[str, str]:
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": settings.memory,
        "spark.driver.extraJavaOptions": _FAST_START if settings.short else "-XX:+UseParallelGC",
        "spark.sql.catalogImplementation": "in-memory",
        # PySpark asks the JVM three times per column function, only to name our line in an error message.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    if settings.master.startswith("local"):
        options |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if scratch is not None:
        options |= {"spark.local.dir": str(scratch), "spark.sql.warehouse.dir": str(scratch / "warehouse")}
    if settings.jars:
        options["spark.jars"] = ",".join(str(jar) for jar in settings.jars)
    return options


def _query_options(settings: SessionSettings) -> dict[str, str]:
    return {
        **(_LEAST_COMPILING if settings.short else {}),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(settings.cores or os.cpu_count() or 1),
        # Dirty values are flagged and counted by our own rules; a failed cast must not end the stream.
        "spark.sql.ansi.enabled": "false",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.autoBroadcastJoinThreshold": "64m",
        # Inferring what holds in every column of sixty grows with the square of them and finds nothing here.
        "spark.sql.constraintPropagation.enabled": "false",
        # A source that is one file a tick should not become one task a tick.
        "spark.sql.files.openCostInBytes": "65536",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.minBatchesToRetain": "20",
    }


class _quiet_start:
    """Keeps the banner and warnings of a starting JVM off the terminal, and shows them if the start fails."""

    def __enter__(self) -> None:
        self._log = os.memfd_create("spark-start")
        sys.stderr.flush()
        self._stderr = os.dup(2)
        os.dup2(self._log, 2)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        os.dup2(self._stderr, 2)
        os.close(self._stderr)
        if kind is not None:
            os.lseek(self._log, 0, os.SEEK_SET)
            os.write(2, os.read(self._log, 65536))
        os.close(self._log)
