"""An archive of Spark's loaded classes (class-data sharing), from which its JVM starts in half the time.

`python -m trimtab.observe.spark.archive` makes it, once for each Spark and Java: about a minute and 180 MB of
the cache. Without it, or if it does not fit, Spark starts as ever.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.files.machine import cache_folder
from trimtab.jars.fetch import ProgressCallback, exclusive_lock, find_java, ignore_progress, scratch_sibling
from trimtab.model.errors import ObserveError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
            command = [sys.executable, "-m", "trimtab.observe.spark.archive", str(made)]
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
