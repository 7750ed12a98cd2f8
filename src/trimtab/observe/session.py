"""The Spark session, here or on a cluster, with the traps of a laptop taken out: section `[spark]`."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.jars.fetch import find_java
from trimtab.model.errors import ObserveError
from trimtab.observe.spark_archive import start_options
from trimtab.observe.spark_connect import SCHEME, connect_session, is_connected
from trimtab_common.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""Half the start-up time, but compiled code stays slow: right for tests and short runs, wrong for heavy jobs.
The code cache must be given: its default in this mode is 48 MB, which a few minutes of Spark fill up."""

_MIN_COMPILER_THREADS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Compiling a query costs about half a second, more than running it over a few ticks of a small cluster."""


_LOCAL = re.compile(r"local(?:\[(\d+|\*)|$)")
_SIZE = re.compile(r"[1-9][0-9]*[kmgt]b?", re.IGNORECASE)


@dataclass(frozen=True)
class SessionSettings:
    """Settings of Spark for pipelines and replays.

    Attributes
    ----------
    master
        Spark master, such as `spark://host:7077` or `yarn`, or a Spark Connect server, `sc://host:15002` (not
        for streams). Default: that of `spark-submit` if it started this process, else `local[*]`, Spark in
        this process's JVM.
    cores
        Maximum number of cores; 0: all.
    memory
        Heap of the driver, such as `4g`. Without a cluster it is the heap of all of Spark.
    executor_memory
        Heap of each executor of a cluster; default: Spark's.
    large_job
        True: slower start, faster execution, for hours of many partitions. Always true on a cluster.
    packages
        Maven coordinates of further JVM packages, which Spark downloads for driver and executors.
    conf
        Further settings of Spark, by name; they override the settings above.
    """

    master: str | None = None
    cores: int = 0
    memory: str = "2g"
    executor_memory: str | None = None
    large_job: bool = False
    packages: tuple[str, ...] = ()
    conf: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.cores < 0:
            raise SettingsError(f"spark.cores is {self.cores}: give 1 or more, or 0 for all that there are")
        for name in ("memory", "executor_memory"):
            size = getattr(self, name)
            if size is not None and not _SIZE.fullmatch(size):
                raise SettingsError(f"spark.{name} is {size!r}: write a size as Spark does, like 512m or 4g")
        for package in self.packages:
            if package.count(":") != 2:
                raise SettingsError(
                    f"spark.packages: {package!r} is no Maven coordinate; write group:name:version"
                )

    @property
    def address(self) -> str | None:
        """The master to ask for; None where `spark-submit` has chosen one."""
        if self.master is None:
            return None if _submitted() else f"local[{self.cores or '*'}]"
        return f"local[{self.cores}]" if self.cores and self.master == "local[*]" else self.master

    @property
    def local_cores(self) -> int | None:
        """Cores of a Spark inside this process; None where it is a cluster's."""
        found = _LOCAL.match(self.address or "")
        if found is None:
            return None
        return int(found[1]) if (found[1] or "*").isdigit() else os.cpu_count() or 1


def spark_session(
    settings: SessionSettings | None = None,
    scratch: Path | None = None,
    print_progress: Callable[[str], None] = lambda line: None,
    jars: Sequence[Path] = (),
) -> SparkSession:
    """The one Spark session of this process.

    Parameters
    ----------
    settings
        How to start it, if it is not running yet.
    scratch
        Folder for Spark's spill and warehouse; by default Spark's own choice.
    print_progress
        Told that Spark is about to start, for that takes seconds.
    jars
        Further jars, such as Spark's Kafka connector.

    Returns
    -------
    SparkSession
        With UTC as its time zone and, where it runs here, nothing listening beyond this machine.

    Raises
    ------
    JarsError
        If Java is missing or too old.
    ObserveError
        If Spark does not start.
    """
    chosen = settings or SessionSettings()
    if (chosen.address or "").startswith(SCHEME):
        return connect_session(str(chosen.address), _query_options(chosen), _flat(chosen.conf))
    find_java("Spark")
    from pyspark.sql import SparkSession

    from trimtab.observe.spark_columns import remember_functions

    print_progress(
        "starting Spark" if chosen.local_cores else f"starting Spark ({chosen.address or 'as submitted'})"
    )

    # Python workers must be this interpreter, not whatever `python3` happens to be on PATH; on the machines
    # of a cluster it may lie elsewhere.
    python = _flat(chosen.conf).get("spark.pyspark.python", sys.executable)
    if chosen.local_cores:
        os.environ["PYSPARK_PYTHON"] = python
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    else:
        os.environ.setdefault("PYSPARK_PYTHON", python)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("trimtab")
    if chosen.address is not None:
        builder = builder.master(chosen.address)
    for key, value in session_options(chosen, scratch, jars).items():
        builder = builder.config(key, value)
    with _SuppressStartupOutput():
        try:
            session = builder.getOrCreate()
        except Exception as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ObserveError(
                f"Spark with master {chosen.address or 'of spark-submit'} did not start: {reason}; "
                "see that Java works (`java -version`), that the master can be reached and that enough "
                "memory is free"
            ) from error
    if _submitted():
        _load_in_driver(session, jars)
        if chosen.packages:
            print_progress(
                f"spark-submit fetches spark.packages: give it --packages {','.join(chosen.packages)}"
            )
    session.sparkContext.setLogLevel("ERROR")
    remember_functions(session)
    # PySpark repeats every failed query as JSON on the terminal, stack trace and all.
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    # Its bridge does the same with the call that Ctrl-C interrupts.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    return session


def session_options(
    settings: SessionSettings, scratch: Path | None = None, jars: Sequence[Path] = ()
) -> dict[str, str]:
    """Everything that is set on a session that this process starts; arguments as of `spark_session`."""
    return {
        **_start_options(settings, scratch, jars),
        **_query_options(settings),
        **_flat(settings.conf),
    }


def executors_elsewhere(session: SparkSession) -> list[str]:
    """Host and port of the executors of a session that are not this process itself, as far as it tells."""
    if is_connected(session):
        return []
    known = session.sparkContext._jsc.sc().statusStore().executorList(True)
    every = [known.apply(at) for at in range(known.size())]
    return [str(one.hostPort()) for one in every if one.id() != "driver"]


def _submitted() -> bool:
    """True if `spark-submit` started this process, and so has chosen master and memory."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _load_in_driver(session: SparkSession, jars: Sequence[Path]) -> None:
    """Let a driver whose JVM runs already find classes of jars that Spark hands to executors alone."""
    jvm: Any = session.sparkContext._jvm
    loader = jvm.Thread.currentThread().getContextClassLoader()
    for jar in jars:
        loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())


def _start_options(settings: SessionSettings, scratch: Path | None, jars: Sequence[Path]) -> dict[str, str]:
    local = settings.local_cores is not None
    fast = local and not settings.large_job
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        # PySpark asks the JVM three times per column function, only to name our line in an error message.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    if not _submitted():
        options["spark.driver.memory"] = settings.memory
        java = _FAST_START if fast else "-XX:+UseParallelGC"
        options["spark.driver.extraJavaOptions"] = java + start_options()
    if local:
        options |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    else:
        if settings.cores:
            options["spark.cores.max"] = str(settings.cores)
        if settings.executor_memory is not None:
            options["spark.executor.memory"] = settings.executor_memory
    if scratch is not None:
        options |= {"spark.local.dir": str(scratch), "spark.sql.warehouse.dir": str(scratch / "warehouse")}
    if jars:
        options["spark.jars"] = ",".join(str(jar) for jar in jars)
    if settings.packages:
        options["spark.jars.packages"] = ",".join(settings.packages)
    return options


def _query_options(settings: SessionSettings) -> dict[str, str]:
    local = settings.local_cores
    return {
        **({} if settings.large_job or local is None else _MIN_COMPILER_THREADS),
        "spark.sql.session.timeZone": "UTC",
        # A task less is a task saved here. On a cluster, whose executors come and go, Spark cuts finely and
        # joins again by the data it finds.
        "spark.sql.shuffle.partitions": str(local or max(200, 3 * settings.cores)),
        # Dirty values are flagged and counted by our own rules; a failed cast must not end the stream.
        "spark.sql.ansi.enabled": "false",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.autoBroadcastJoinThreshold": "64m",
        # A balancer's tables take some hundred compiled classes; at Spark's default of 100 every step would
        # compile them again, and run them cold.
        "spark.sql.codegen.cache.maxEntries": "2000",
        # The JVM never compiles longer methods; Spark then takes its shorter ones, three times as fast.
        "spark.sql.codegen.hugeMethodLimit": "8000",
        # Inferring what holds in every column of sixty grows with the square of them and finds nothing here.
        "spark.sql.constraintPropagation.enabled": "false",
        # A source that is one file a tick should not become one task a tick.
        "spark.sql.files.openCostInBytes": "65536",
        "spark.sql.streaming.metricsEnabled": "false",
        # Every query, and every plan anew between its stages, is described to the web page: with all that
        # can be told of sixty columns that is an eighth of what planning takes.
        "spark.sql.ui.explainMode": "simple",
        "spark.sql.debug.maxToStringFields": "2",
        "spark.sql.streaming.minBatchesToRetain": "20",
    }


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Settings by their dotted names, which TOML takes for tables in tables, as Spark wants them."""
    found: dict[str, str] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{name}.")
        elif isinstance(value, bool):
            found[prefix + name] = str(value).lower()
        else:
            found[prefix + name] = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return found


class _SuppressStartupOutput:
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
