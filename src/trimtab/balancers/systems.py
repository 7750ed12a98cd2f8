"""The systems that levels stand on."""

from __future__ import annotations

from pathlib import Path

from trimtab.balancers.balancer import LazyImport, Option, System

KAFKA = System(
    name="kafka",
    title="Kafka",
    address=Option(
        "--bootstrap",
        "Brokers to begin with, as host:port,host:port; goes before kafka.bootstrap.",
        setting="kafka.bootstrap",
    ),
    options=(),
    connection=LazyImport("trimtab.connect.kafka.settings:kafka_connection"),
    collecting=LazyImport("trimtab.observe.collect.kafka.collector:COLLECTING"),
    checking=LazyImport("trimtab.observe.collect.kafka.check:check"),
)

PULSAR = System(
    name="pulsar",
    title="Pulsar",
    address=Option(
        "--pulsar-admin",
        "Web addresses of Pulsar's brokers to begin with, as http://host:8080; goes before pulsar.admin.",
        setting="pulsar.admin",
    ),
    options=(
        Option(
            "--token-file",
            "A file with the token to show to Pulsar; goes before pulsar.token_file.",
            Path | None,
        ),
    ),
    connection=LazyImport("trimtab.connect.pulsar.settings:pulsar_connection"),
    collecting=LazyImport("trimtab.observe.collect.pulsar.collector:COLLECTING"),
    checking=LazyImport("trimtab.observe.collect.pulsar.check:check"),
)

REDIS = System(
    name="redis",
    title="Redis",
    address=Option(
        "--queues",
        "Server of queues, Redis or Valkey, as redis://host:port/database, or nodes of a cluster, as "
        "redis+cluster://host:port,host:port; goes before redis.url.",
        setting="redis.url",
    ),
    options=(),
    connection=LazyImport("trimtab.connect.redis.settings:redis_connection"),
    collecting=LazyImport("trimtab.observe.collect.redis.collector:COLLECTING"),
    checking=LazyImport("trimtab.observe.collect.redis.check:check"),
)

PAXOS = System(
    name="paxos",
    title="a store of Paxos groups",
    address=Option(
        "--paxos",
        "Store of Paxos groups, by the configuration of any of its nodes (node.json); goes before "
        "paxos.node.",
        setting="paxos.node",
    ),
    options=(),
    connection=LazyImport("trimtab.connect.paxos.settings:paxos_connection"),
    collecting=LazyImport("trimtab.observe.collect.paxos.collector:COLLECTING"),
    checking=LazyImport("trimtab.observe.collect.paxos.check:check"),
)
