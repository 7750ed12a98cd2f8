"""The systems that levels stand on."""

from __future__ import annotations

from pathlib import Path

from trimtab.levels.part import Part
from trimtab.levels.system import Option, System

KAFKA = System(
    name="kafka",
    title="Kafka",
    address=Option(
        "bootstrap",
        "--bootstrap",
        "Brokers to begin with, as host:port,host:port; goes before kafka.bootstrap.",
    ),
    options=(),
    connection=Part("trimtab.connect.kafka.settings:kafka_connection"),
    collecting=Part("trimtab.observe.collect.kafka.collector:COLLECTING"),
)

PULSAR = System(
    name="pulsar",
    title="Pulsar",
    address=Option(
        "admin",
        "--pulsar-admin",
        "Web addresses of Pulsar's brokers to begin with, as http://host:8080; goes before pulsar.admin.",
    ),
    options=(
        Option(
            "token_file",
            "--token-file",
            "A file with the token to show to Pulsar; goes before pulsar.token_file.",
            Path | None,
        ),
    ),
    connection=Part("trimtab.connect.pulsar.settings:pulsar_connection"),
    collecting=Part("trimtab.observe.collect.pulsar.collector:COLLECTING"),
)
