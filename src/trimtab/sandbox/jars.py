"""Which JVM parts are needed, by Maven coordinates; `maven` fetches them into the cache.

Versions were tried together with Kafka 4.3.1 and PySpark 4.3.0. `kafka_2.13` brings slf4j 1.7, hence
log4j-slf4j-impl and not its successor.
"""

from __future__ import annotations

from pathlib import Path

from trimtab.model.errors import SandboxError
from trimtab.sandbox.maven import Coordinate, JarSet, Say, fetch, say_nothing

KAFKA_VERSION = "4.3.1"
SPARK_VERSION = "4.3.0"

KAFKA_SERVER = JarSet(
    "kafka-server",
    (
        Coordinate("org.apache.kafka", "kafka_2.13", KAFKA_VERSION, transitive=True),
        Coordinate("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
    ),
)
PROMETHEUS_AGENT = JarSet(
    "prometheus-agent", (Coordinate("io.prometheus.jmx", "jmx_prometheus_javaagent", "1.0.1"),)
)
SPARK_KAFKA_EXACT = JarSet(
    "spark-kafka-exact",
    (
        Coordinate("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_VERSION),
        Coordinate("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", SPARK_VERSION),
        Coordinate("org.apache.kafka", "kafka-clients", KAFKA_VERSION),
        Coordinate("org.apache.commons", "commons-pool2", "2.12.0"),
    ),
)
# Where a registry lacks the exact connector: mixed versions, tried in batch, streaming and restart.
SPARK_KAFKA_FALLBACK = JarSet(
    "spark-kafka-fallback",
    (
        Coordinate("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
        Coordinate("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
        Coordinate("org.apache.kafka", "kafka-clients", KAFKA_VERSION),
        Coordinate("org.apache.commons", "commons-pool2", "2.12.0"),
    ),
)


def kafka_server_jars(say: Say = say_nothing) -> list[Path]:
    """Everything a broker's class path needs, sorted by name."""
    return fetch(KAFKA_SERVER, say)


def prometheus_agent_jar(say: Say = say_nothing) -> Path:
    """The JMX exporter agent that gives a broker its Prometheus endpoint."""
    return fetch(PROMETHEUS_AGENT, say)[0]


def spark_kafka_jars(say: Say = say_nothing) -> list[Path]:
    """Spark's Kafka connector for `spark.jars`: the exact version, or the fallback where it is unresolvable.

    Whichever set was fetched once is taken from the cache ever after.
    """
    for known in (SPARK_KAFKA_EXACT, SPARK_KAFKA_FALLBACK):
        if jars := known.cached():
            return jars
    try:
        return fetch(SPARK_KAFKA_EXACT, say)
    except SandboxError:
        say(f"the Kafka connector of Spark {SPARK_VERSION} is not to be had, trying the one before it")
        return fetch(SPARK_KAFKA_FALLBACK, say)
