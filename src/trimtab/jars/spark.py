"""Spark's Kafka connector."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from trimtab.jars.fetch import Jar, Say, cached, fetch, read_lock, say_nothing
from trimtab.model.errors import JarsError

EXACT = "spark-kafka-4.3.0"
# Where a repository lacks the exact connector: mixed versions, tried in batch, streaming and restart.
FALLBACK = "spark-kafka-4.2.0"


def spark_kafka_jars(say: Say = say_nothing) -> list[Path]:
    """Spark's Kafka connector for `spark.jars`: the exact version, or the fallback where it is not to be had.

    The set that was fetched once is taken from the cache from then on.
    """
    for name in (EXACT, FALLBACK):
        if found := cached(name, connector_jars(name)):
            return found
    try:
        return fetch(EXACT, connector_jars(EXACT), say)
    except JarsError:
        say("the Kafka connector of this Spark is not to be had, trying the one before it")
        return fetch(FALLBACK, connector_jars(FALLBACK), say)


def connector_jars(name: str) -> tuple[Jar, ...]:
    """The jars of one of the two lists."""
    return read_lock(files("trimtab.jars").joinpath(f"{name}.txt").read_text(encoding="utf-8"))
