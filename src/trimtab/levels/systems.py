"""The systems that levels stand on."""

from __future__ import annotations

from pathlib import Path

from trimtab.levels.level import Option, Part, System

KAFKA = System(
    name="kafka",
    title="Kafka",
    address=Option(
        "--bootstrap",
        "Brokers to begin with, as host:port,host:port; goes before kafka.bootstrap.",
        setting="kafka.bootstrap",
    ),
    options=(),
    connection=Part("trimtab.connect.kafka.settings:kafka_connection"),
    collecting=Part("trimtab.observe.collect.kafka.collector:COLLECTING"),
    checking=Part("trimtab.observe.collect.kafka.check:check"),
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
    connection=Part("trimtab.connect.pulsar.settings:pulsar_connection"),
    collecting=Part("trimtab.observe.collect.pulsar.collector:COLLECTING"),
    checking=Part("trimtab.observe.collect.pulsar.check:check"),
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
    connection=Part("trimtab.connect.redis.settings:redis_connection"),
    collecting=Part("trimtab.observe.collect.redis.collector:COLLECTING"),
    checking=Part("trimtab.observe.collect.redis.check:check"),
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
    connection=Part("trimtab.connect.paxos.settings:paxos_connection"),
    collecting=Part("trimtab.observe.collect.paxos.collector:COLLECTING"),
    checking=Part("trimtab.observe.collect.paxos.check:check"),
)
