"""The systems that levels stand on."""

from __future__ import annotations

from pathlib import Path

from trimtab.balancers.balancer import LazyImport, Option, System

KAFKA = System(
    name="kafka",
    title="Kafka",
    address=Option(
        "--bootstrap",
        "Bootstrap brokers (host:port,...). Overrides kafka.bootstrap.",
        setting="kafka.bootstrap",
    ),
    options=(),
    connection=LazyImport("trimtab.systems.kafka.settings:kafka_connection"),
    collecting=LazyImport("trimtab.systems.kafka.collector:COLLECTING"),
    checking=LazyImport("trimtab.systems.kafka.check:check"),
)

PULSAR = System(
    name="pulsar",
    title="Pulsar",
    address=Option(
        "--pulsar-admin",
        "Web addresses of Pulsar brokers (http://host:8080,...). Overrides pulsar.admin.",
        setting="pulsar.admin",
    ),
    options=(
        Option(
            "--token-file",
            "File with the Pulsar token. Overrides pulsar.token_file.",
            Path | None,
        ),
    ),
    connection=LazyImport("trimtab.systems.pulsar.settings:pulsar_connection"),
    collecting=LazyImport("trimtab.systems.pulsar.collector:COLLECTING"),
    checking=LazyImport("trimtab.systems.pulsar.check:check"),
)

REDIS = System(
    name="redis",
    title="Redis",
    address=Option(
        "--queues",
        "Redis or Valkey server (redis://host:port/database), or cluster nodes "
        "(redis+cluster://host:port,host:port). Overrides redis.url.",
        setting="redis.url",
    ),
    options=(),
    connection=LazyImport("trimtab.systems.redis.settings:redis_connection"),
    collecting=LazyImport("trimtab.systems.redis.collector:COLLECTING"),
    checking=LazyImport("trimtab.systems.redis.check:check"),
)

PAXOS = System(
    name="paxos",
    title="a store of Paxos groups",
    address=Option(
        "--paxos",
        "Configuration of any node of the store (node.json). Overrides paxos.node.",
        setting="paxos.node",
    ),
    options=(),
    connection=LazyImport("trimtab.systems.paxos.settings:paxos_connection"),
    collecting=LazyImport("trimtab.systems.paxos.collector:COLLECTING"),
    checking=LazyImport("trimtab.systems.paxos.check:check"),
)
