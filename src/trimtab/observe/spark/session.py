"""Spark sessions: local, on a cluster or by Spark Connect, and the archive that shortens their start."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import unquote, urlsplit

from trimtab.files.machine import cache_folder
from trimtab.jars import (
    ProgressCallback,
    exclusive_lock,
    find_java,
    ignore_progress,
    scratch_sibling,
    spark_comet_jars,
    spark_s3_jars,
)
from trimtab.model.errors import JarsError, ObserveError
from trimtab_common.documents import Count, one_of
from trimtab_common.errors import SettingsError
from trimtab_common.settings import check_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from trimtab.files.store import Location


RECORDED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ArchiveClassesAtExit="
LIMIT_SECONDS = 600.0


def archive() -> Path:
    """Where it lies or would lie, by the Spark and the Java of this machine.

    Raises
    ------
    JarsError
        If there is no Java.
    """
    import pyspark

    # The jars are checked by path and time: another environment's are others.
    home = Path(pyspark.__file__).parent
    parts = find_java("Spark").version, version("pyspark"), str(home), str(home.stat().st_mtime_ns)
    return cache_folder() / f"spark-{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}.jsa"


def start_options() -> str:
    """Options for a JVM of Spark's that is to start from it; empty where there is none."""
    path = archive()
    # Spark cuts its options at spaces. One that does not fit is told on standard output, unless it is not.
    if not path.exists() or " " in str(path):
        return ""
    return f" -XX:SharedArchiveFile={path} -Xshare:auto -Xlog:cds*=off"


def make_archive(print_progress: ProgressCallback = ignore_progress) -> Path:
    """The archive, made now unless it is there.

    Raises
    ------
    ObserveError
        If Spark does not start, or does not leave one.
    """
    path = archive()
    if path.exists():
        return path
    with exclusive_lock(path.with_suffix(".lock")), scratch_sibling(path) as scratch:
        if not path.exists():
            print_progress("preparing Spark for fast starts (once)")
            made = scratch / path.name
            command = [sys.executable, "-m", "trimtab.observe.spark.session", str(made)]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS
                )
            except subprocess.TimeoutExpired:
                raise ObserveError(f"Spark left no archive of its classes in {LIMIT_SECONDS:g} s") from None
            if not made.exists():
                raise ObserveError(f"Spark left no archive of its classes: {done.stderr[-600:]}")
            made.replace(path)
    return path


def _record(path: Path) -> None:
    """Let a Spark of its own do a little of everything, and leave the archive as it ends."""
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with tempfile.TemporaryDirectory() as folder:
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.driver.extraJavaOptions", f"{RECORDED}{path}")
        session = builder.config("spark.local.dir", folder).getOrCreate()
        gateway: Any = session.sparkContext._gateway
        _work(session, Path(folder))
        session.stop()
        gateway.proc.stdin.close()
        gateway.proc.wait()


def _work(session: SparkSession, folder: Path) -> None:
    """What pipelines do: files read and written, windows, aggregates, joins, a stream in micro-batches."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    raw, batches = str(folder / "raw"), str(folder / "batches")
    numbers = F.col("id")
    session.range(1000).select(
        (numbers % 7).cast("string").alias("key"),
        F.timestamp_seconds(numbers).alias("at"),
        numbers.cast("double").alias("value"),
    ).write.parquet(raw)

    def summed(rows: DataFrame) -> DataFrame:
        own = Window.partitionBy("key").orderBy("at")
        changes = rows.withColumn("before", F.lag("value").over(own))
        means = changes.groupBy("key").agg(
            F.mean("before").alias("mean"),
            F.percentile("value", 0.5).alias("middle"),
            F.collect_list("value").alias("values"),
            F.max_by("value", "at").alias("newest"),
        )
        return changes.dropDuplicates(["key", "at"]).join(means, "key")

    read = session.read.parquet(raw)
    summed(read).toArrow()
    stream = session.readStream.schema(read.schema).parquet(raw).writeStream
    query = (
        stream.foreachBatch(lambda rows, _: summed(rows).write.mode("append").parquet(batches))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _record(Path(sys.argv[1]))
    else:
        print(make_archive(print))


def spark_reason(error: BaseException) -> str:
    """What an error of Spark's says, in a line, without the stacks of two languages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Spark 4.1 repeats where an error was first thrown, as one that is suppressed.
    told = [line for line in lines if re.search("(Error|Exception): ", line) and "Suppressed:" not in line]
    return (told or lines or [type(error).__name__])[-1 if told else 0].removeprefix("Caused by: ")[:500]


@contextmanager
def translate_spark_errors(what: str) -> Iterator[None]:
    """An error of Spark's inside becomes an `ObserveError` of one line: `what`, and the reason."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise ObserveError(f"{what}: {spark_reason(error)}") from None


SCHEME: Final = "sc://"
PORT: Final = 15002
"""Of a server whose address names none."""

_TABLE_PARALLELISM: Final = 4
"""Tables that are made at the same time on a server, which does not tell its cores."""


def is_connected(session: SparkSession) -> bool:
    """True if a session is that of a client of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def connect_session(address: str, options: Mapping[str, str], request: Mapping[str, str]) -> SparkSession:
    """The session of a server.

    Parameters
    ----------
    address
        Of the server, as `sc://host:15002`.
    options
        Settings of queries; those that only a server can set, when it starts, are left as it has them.
    request
        Settings that its user asks for. What is Hadoop's goes by Hadoop's own names.

    Raises
    ------
    ObserveError
        If the server cannot be reached, the client's packages are missing, or it refuses what was asked for.
    """
    from pyspark.errors import AnalysisException, PySparkException
    from pyspark.sql import SparkSession

    place = urlsplit(address)
    try:
        # Its client would try again for ten minutes.
        socket.create_connection((place.hostname or "", place.port or PORT), timeout=10).close()
        session = SparkSession.builder.remote(address).getOrCreate()
        changeable = {name: value for name, value in options.items() if session.conf.isModifiable(name)}
    except (OSError, ImportError, ValueError, PySparkException) as error:
        raise ObserveError(
            f"Spark Connect at {address} does not answer: {str(error).splitlines()[0]}; see that the server "
            "runs, is of this version of Spark, and that its client is installed here: pip install "
            "'pyspark[connect]'"
        ) from None
    for name, value in {**changeable, **request}.items():
        try:
            session.conf.set(name.removeprefix("spark.hadoop."), value)
        except AnalysisException:
            raise ObserveError(
                f"spark.conf {name} cannot be set over Spark Connect: set it where the server is started"
            ) from None
    return session


def is_local(session: SparkSession) -> bool:
    """True if all of Spark runs in one JVM beside this process."""
    return not is_connected(session) and bool(_LOCAL.match(str(session.sparkContext.master)))


def table_parallelism(session: SparkSession) -> int:
    """How many tables to make at the same time."""
    return _TABLE_PARALLELISM if is_connected(session) else session.sparkContext.defaultParallelism


def require_classic_spark(session: SparkSession) -> None:
    """Refuse a stream over Spark Connect.

    Raises
    ------
    ObserveError
        With what to do instead.
    """
    if is_connected(session):
        raise ObserveError(
            f"a stream cannot run over Spark Connect ({SCHEME}...): the server would go on with it when this "
            "process is gone; run `trimtab pipeline stream` by spark-submit, or with --master of the cluster"
        )


_FAST_COMPILER: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""The code cache must be given: its default in this mode is 48 MB, which a few minutes of Spark fill up."""
_SMALL_HEAP = (
    "-XX:+UseSerialGC "
    # The heap follows what is in use: of 2 GiB allowed, ticks of 2,000 partitions take 400 MiB less.
    "-Xms64m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20"
)
_MEDIUM_HEAP = "-XX:+UseSerialGC -Xms64m -XX:NewRatio=1 -XX:MinHeapFreeRatio=30 -XX:MaxHeapFreeRatio=50"
"""A heap that is kept close to what ticks of 100,000 samples hold is collected whole nine times a tick."""
_FAST_START = f"{_FAST_COMPILER} {_SMALL_HEAP}"
"""Half the start-up time, but compiled code stays slow: right for tests and short runs, wrong for heavy
jobs."""

_LARGE_START = "-XX:+UseParallelGC"

_MIN_COMPILER_THREADS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Compiling a query costs about half a second, more than running it over a few ticks of a small cluster."""


COMET, AUTO = "comet", "auto"

_COMET: Final = {
    "spark.plugins": "org.apache.spark.CometPlugin",
    "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager",
    "spark.memory.offHeap.enabled": "true",
    # Its authors leave it off while files differ from Spark's. Rows read back are equal to the bit.
    "spark.comet.write.parquet.enabled": "true",
    "spark.comet.operator.WriteFilesExec.allowIncompatible": "true",
    # `growth` joins by a struct of keys, which Comet would shuffle row by row in the JVM.
    "spark.comet.shuffle.native.partitioning.hash.nested.enabled": "true",
}

_HEAP_WITH_COMET: Final = "1536m"
"""With 2 GiB of heap and 1 GiB outside it, a day of 29 million samples took 3.0 GiB of memory."""

_OF_STREAM: Final = {
    # Its queries are the same in every micro-batch: compiled once, they take less than half of the time.
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    # Plans are small and known; planning them again between their stages costs more than it saves.
    "spark.sql.adaptive.enabled": "false",
    # What Spark remembers of earlier queries for a page that nobody opens.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.ui.dagGraph.retainedRootRDDs": "5",
}

_HEAPS: Final = ((20_000, "512m", 1, _FAST_START), (150_000, "1200m", 2, _MEDIUM_HEAP))
"""Samples of a tick up to which a stream takes so much heap, cuts its shuffles in so many parts, and has
these options of the JVM. A partition with three replicas has five samples. Ticks of 100,000 samples take a
third less with the full compiler, from the tenth on; those of 10,000 take longer with it for ten minutes."""
_LARGE_HEAP: Final = "3g"
_UNKNOWN_HEAP: Final = "2g"
"""Of a stream whose lake has no samples yet, or that reads a topic: its ticks may be large."""

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
        Heap of the driver, such as `4g`. Without a cluster it is the heap of all of Spark. Default: `2g`,
        `1536m` with Comet; a stream chooses it by the samples of a tick.
    executor_memory
        Heap of each executor of a cluster; default: Spark's.
    large_job
        True: slower start, faster execution. Default: true for a batch of more than 50,000 samples and for a
        stream of ticks of more than 150,000. Always true on a cluster.
    accelerator
        Native execution of queries by Apache DataFusion Comet. `comet`: always; `none`: never; `auto`: for a
        large batch and a stream of large ticks on one machine, if Comet has a build for the installed Spark
        and it can be downloaded (99 MB, once). Not with `spark-submit` or Spark Connect, which have started
        Spark already.
    off_heap_memory
        Memory of Comet outside the heap, of the driver and of each executor.
    packages
        Maven coordinates of further JVM packages, which Spark downloads for driver and executors.
    conf
        Further settings of Spark, by name; they override the settings above.
    """

    master: str | None = None
    cores: Count = 0
    memory: str | None = None
    executor_memory: str | None = None
    large_job: bool | None = None
    accelerator: Annotated[str, one_of(AUTO, COMET, "none")] = AUTO
    off_heap_memory: str = "1g"
    packages: tuple[str, ...] = ()
    conf: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_values(self, lambda name: f"spark.{name}")
        for name in ("memory", "executor_memory", "off_heap_memory"):
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


def stream_settings(settings: SessionSettings, samples: int) -> SessionSettings:
    """Settings of a session that a stream keeps: heap, parallelism and compiling by the samples of a tick.

    Parameters
    ----------
    settings
        Those of the user, which have precedence; on a cluster only the accelerator is chosen.
    samples
        Of the newest tick; 0 where it is not known.
    """
    fitting = next((row for row in _HEAPS if samples <= row[0]), None)
    if settings.accelerator == AUTO and fitting is not None:
        # Comet takes longer to plan a query than small ticks take.
        settings = replace(settings, accelerator="none")
    if settings.local_cores is None:
        return settings
    heap, java, own = _LARGE_HEAP, _LARGE_START, dict[str, str]()
    if fitting is not None and not settings.large_job:
        _, heap, parts, java = fitting
        heap = heap if samples else _UNKNOWN_HEAP
        own = {**_OF_STREAM, "spark.sql.shuffle.partitions": str(min(parts, settings.local_cores))}
    if not _submitted():
        own["spark.driver.extraJavaOptions"] = java + start_options()
    return replace(
        settings,
        memory=settings.memory or (None if settings.large_job else heap),
        large_job=fitting is None if settings.large_job is None else settings.large_job,
        conf={**own, **_flat(settings.conf)},
    )


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

    from trimtab.observe.spark.expressions import remember_functions

    # glibc lets some two hundred threads of the JVM fill eight heaps a core.
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
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
    comet = comet_jars(chosen, print_progress)
    for key, value in session_options(chosen, scratch, jars, comet).items():
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


def comet_jars(settings: SessionSettings, print_progress: ProgressCallback = ignore_progress) -> list[Path]:
    """The jars of the accelerator that settings choose; empty for none.

    Raises
    ------
    ObserveError
        If `comet` is chosen and there is no build for the installed Spark, or `spark-submit` started Spark.
    JarsError
        If `comet` is chosen and cannot be downloaded.
    """
    chosen = settings.accelerator
    # Executors elsewhere load Comet from their own class path only, where nobody may have put it.
    is_large = settings.large_job and settings.local_cores is not None
    if chosen == "none" or (chosen == AUTO and (_submitted() or not is_large)):
        return []
    if _submitted():
        raise ObserveError(
            "spark.accelerator = comet: spark-submit has started Spark without Comet. "
            "Set spark.accelerator = none"
        )
    try:
        found = spark_comet_jars(print_progress)
    except JarsError as error:
        if chosen == COMET:
            raise
        print_progress(f"Spark runs without Comet: {error}")
        return []
    if chosen == COMET and not found:
        raise ObserveError(
            f"spark.accelerator = comet: Comet has no build for pyspark {version('pyspark')} on this system. "
            "Install pyspark 4.1 on Linux or set spark.accelerator = none"
        )
    return found


def session_options(
    settings: SessionSettings,
    scratch: Path | None = None,
    jars: Sequence[Path] = (),
    comet: Sequence[Path] = (),
) -> dict[str, str]:
    """Everything that is set on a session that this process starts; arguments as of `spark_session`.

    `comet` are the jars of the accelerator.
    """
    conf = _flat(settings.conf)
    options = _start_options(settings, scratch, jars) | _query_options(settings)
    if comet:
        options |= _COMET | {"spark.memory.offHeap.size": settings.off_heap_memory}
        if settings.memory is None and "spark.driver.memory" in options:
            options["spark.driver.memory"] = _HEAP_WITH_COMET
        if settings.large_job and "spark.driver.extraJavaOptions" in options:
            # This JVM still plans queries: for one batch the full compiler takes longer than it saves.
            options["spark.driver.extraJavaOptions"] += f" {_FAST_COMPILER}"
        # Comet has classes in Spark's packages, which `spark.jars` would put into another class loader.
        for own in ("spark.driver.extraClassPath", "spark.executor.extraClassPath"):
            options[own] = conf[own] = ":".join(filter(None, (*map(str, comet), conf.get(own))))
    return {**options, **conf}


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
        options["spark.driver.memory"] = settings.memory or "2g"
        java = _FAST_START if fast else _LARGE_START
        options["spark.driver.extraJavaOptions"] = java + start_options()
    if local:
        options |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    else:
        if not _submitted():
            # Java's own choice for a small executor collects beside its tasks, on a core that they need.
            options["spark.executor.extraJavaOptions"] = _LARGE_START
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
        # Parts are as many as cores. Where kinds are put together again, Spark would make one of them.
        **(
            {"spark.sql.adaptive.coalescePartitions.enabled": "false"} if settings.large_job and local else {}
        ),
        "spark.sql.session.timeZone": "UTC",
        # A task less is a task saved here. On a cluster, whose executors come and go, Spark cuts finely and
        # joins again by the data it finds; 200 parts for two cores cost a third of what tasks take.
        "spark.sql.shuffle.partitions": str(local or 3 * settings.cores or 200),
        # Dirty values are flagged and counted by our own rules; a failed cast must not end the stream.
        "spark.sql.ansi.enabled": "false",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.compression.codec": "zstd",
        # A reader decodes whole row groups, of which Spark would write one of millions of rows.
        "spark.hadoop.parquet.block.row.count.limit": "250000",
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


def _flat(table: Mapping[str, object], prefix: str = "") -> dict[str, str]:
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


def spark_address(place: Location) -> str:
    """The address of a place; Hadoop's name for S3 is `s3a`."""
    if isinstance(place, Path):
        return str(place)
    return str(place).replace("s3://", "s3a://", 1)


def place_of_address(address: str, folder: Location) -> Location:
    """The place of a file below a folder, by the address that Spark writes down: with escapes, as a URI."""
    address = unquote(address)
    if isinstance(folder, Path):
        return Path(urlsplit(address, allow_fragments=False).path)
    return folder / address.removeprefix(spark_address(folder)).lstrip("/")


def store_options(place: Location, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Settings of Spark's for the store that a lake lies in, out of the variables that its other readers use.

    Executors on other machines have them too that way. What the environment does not say is left to Hadoop:
    profiles, roles of a machine, or `[spark.conf]`.
    """
    if isinstance(place, Path) or not place.root.startswith("s3://"):
        return {}
    bucket = place.root.removeprefix("s3://")
    found = {
        "endpoint": environment.get("AWS_ENDPOINT_URL"),
        "endpoint.region": environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"),
        "access.key": environment.get("AWS_ACCESS_KEY_ID"),
        "secret.key": environment.get("AWS_SECRET_ACCESS_KEY"),
        "session.token": environment.get("AWS_SESSION_TOKEN"),
    }
    if found["endpoint"]:
        # Servers other than Amazon's rarely have a name of its own for each bucket.
        found["path.style.access"] = "true"
    options = {f"spark.hadoop.fs.s3a.bucket.{bucket}.{key}": value for key, value in found.items() if value}
    # A file is renamed by copying it: once, when its task is done, instead of twice. What a task that died
    # left beside it would be found, since rows are counted.
    options["spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version"] = "2"
    return options


def lake_session(
    settings: SessionSettings,
    place: Location,
    print_progress: Callable[[str], None],
    jars: Sequence[Path] = (),
) -> SparkSession:
    """Spark, able to reach a lake.

    Parameters
    ----------
    settings
        Where they name a package `hadoop-aws`, that is taken instead of ours; their `conf` wins over what the
        environment says of the store.
    place
        The lake.
    print_progress, jars
        As for `spark_session`, as are errors.
    """
    options = store_options(place)
    if not options:
        return spark_session(settings, print_progress=print_progress, jars=jars)
    # A server of Spark Connect has the jars that it was started with.
    connected = (settings.address or "").startswith(SCHEME)
    own = connected or any(":hadoop-aws:" in package for package in settings.packages)
    further = [] if own else spark_s3_jars(print_progress)
    return spark_session(
        replace(settings, conf={**options, **settings.conf}),
        print_progress=print_progress,
        jars=[*jars, *further],
    )
