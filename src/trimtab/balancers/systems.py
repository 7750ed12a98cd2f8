"""The systems that balancers act on, and Spark: their options on command lines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trimtab.balancers.balancer import (
    AddressForm,
    LazyImport,
    Option,
    OptionValues,
    System,
    setting_overrides,
)
from trimtab_common import REDIS_SCHEMES

if TYPE_CHECKING:
    from trimtab.observe.spark.session import SessionSettings
    from trimtab_common.settings import Override, Settings


SPARK_MASTER: Final = Option(
    "--master", "Spark master (spark.master); default: local.", setting="spark.master"
)
LARGE_JOB: Final = Option(
    "--large-job",
    "Slower start, faster execution; default: by the number of samples (spark.large_job).",
    bool,
    False,
    setting="spark.large_job",
)


def spark_overrides(values: OptionValues) -> tuple[Override, ...]:
    """Those of `MASTER` and `HEAVY` that are given, as overrides of settings."""
    return setting_overrides((SPARK_MASTER, LARGE_JOB), values)


def spark_settings(settings: Settings, *, heavy: bool = False) -> SessionSettings:
    """The section `[spark]`; `heavy` where the work is long whatever it says."""
    from trimtab.observe.spark.session import SessionSettings

    found = settings.section("spark", SessionSettings)
    return replace(found, large_job=True) if heavy else found


def _after_scheme(address: str) -> str:
    return address.partition("://")[2].rstrip("/")


def _web_addresses(address: str) -> str:
    """`pulsar+https://a:8443,b:8443` as web addresses: `https://a:8443,https://b:8443`."""
    scheme = address.partition("://")[0].removeprefix("pulsar+")
    hosts = [host.strip() for host in _after_scheme(address).split(",")]
    return ",".join(host if "://" in host else f"{scheme}://{host}" for host in hosts)


KAFKA = System(
    name="kafka",
    title="Kafka",
    address=AddressForm(("kafka://",), "bootstrap", "kafka://host:9092,host:9092", _after_scheme),
    connection=LazyImport("trimtab.systems.kafka.settings:kafka_connection"),
    collecting=LazyImport("trimtab.systems.kafka.collector:COLLECTING"),
    checking=LazyImport("trimtab.systems.kafka.status:cluster_findings"),
)

PULSAR = System(
    name="pulsar",
    title="Pulsar",
    address=AddressForm(
        ("pulsar+http://", "pulsar+https://"), "admin", "pulsar+http://host:8080", _web_addresses
    ),
    connection=LazyImport("trimtab.systems.pulsar.connection:pulsar_connection"),
    collecting=LazyImport("trimtab.systems.pulsar.collector:COLLECTING"),
    checking=LazyImport("trimtab.systems.pulsar.status:cluster_findings"),
)

REDIS = System(
    name="redis",
    title="Redis",
    address=AddressForm(REDIS_SCHEMES, "url", "redis://host:6379/0", lambda address: address),
    connection=LazyImport("trimtab.systems.redis.client:redis_connection"),
    collecting=LazyImport("trimtab.systems.redis.collector:COLLECTING"),
    checking=LazyImport("trimtab.systems.redis.port:server_findings"),
)

PAXOS = System(
    name="paxos",
    title="Paxos",
    address=AddressForm(
        ("paxos:",), "node", "paxos:node.json", lambda address: address.removeprefix("paxos:")
    ),
    connection=LazyImport("trimtab.systems.paxos.client:paxos_connection"),
    collecting=LazyImport("trimtab.systems.paxos.collector:COLLECTING"),
    checking=LazyImport("trimtab.systems.paxos.port:store_findings"),
)
