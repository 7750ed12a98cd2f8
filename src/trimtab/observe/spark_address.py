"""Places of a lake as Spark knows them: addresses, and the settings by which it reaches them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.jars.fetch import spark_s3_jars
from trimtab.observe.session import spark_session
from trimtab.observe.spark_connect import SCHEME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from trimtab.files.store import Location
    from trimtab.observe.session import SessionSettings


def spark_address(place: Location) -> str:
    """The address of a place; Hadoop's name for S3 is `s3a`."""
    if isinstance(place, Path):
        return str(place)
    return str(place).replace("s3://", "s3a://", 1)


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
