"""A loaded Pulsar sandbox that is sampled tick after tick into a lake of its own."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from trimtab.lab.demo.sampling import SampledSandbox, sampled
from trimtab.lab.sandbox.pulsar.workload import NamespaceLoad, PulsarTopicLoad, PulsarWorkload, skewed
from trimtab.observe.collect.run import lake_sink
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings, PulsarCollectSettings
from trimtab.observe.lake import Lake
from trimtab.systems.pulsar.collector import COLLECTING

if TYPE_CHECKING:
    from trimtab.lab.sandbox.load import SandboxLoad
    from trimtab.lab.sandbox.pulsar.cluster import PulsarSandbox

CLUSTER: Final = "sandbox"
HOT_NAMESPACE: Final = "trimtab/orders"
HOT_TOPICS: Final = 12
HOT_SHARE: Final = 0.45
"""Of all messages: no broker of three can carry that and be balanced."""
HOT_MESSAGE_BYTES: Final = 2_000


def uneven(seed: int, messages_per_second: float) -> PulsarWorkload:
    """Two namespaces with uneven topics in many bundles, and one whose only bundle is hot.

    Parameters
    ----------
    seed
        Draws names and rates.
    messages_per_second
        Of all producers together.
    """
    draw = random.Random(seed)
    others = skewed(seed, messages_per_second * (1 - HOT_SHARE))
    names = [f"order-{number:05x}" for number in draw.sample(range(16**5), HOT_TOPICS)]
    weights = [draw.uniform(0.6, 1.4) for _ in names]
    scale = messages_per_second * HOT_SHARE / sum(weights)
    hot = tuple(
        PulsarTopicLoad(name, weight * scale, HOT_MESSAGE_BYTES, 1)
        for name, weight in zip(names, weights, strict=True)
    )
    return PulsarWorkload((*others.namespaces, NamespaceLoad(HOT_NAMESPACE, 1, hot)), seed=seed)


def balanced_capacity(workload: PulsarWorkload, brokers: int, cpu_cores: float) -> CapacitySettings:
    """Capacities under which this load fills a balancer cluster to about half.

    All brokers share one machine, so that what each can carry is declared, not found.

    Parameters
    ----------
    workload
        Its rates.
    brokers
        Over how many it is spread.
    cpu_cores
        Of each broker.
    """
    handed_out = sum(topic.messages_per_second * topic.consumers for _, topic in workload.topics)
    return CapacitySettings(
        cpu_cores=cpu_cores,
        network_in_bytes_per_second=2 * workload.bytes_in_per_second / brokers,
        network_out_bytes_per_second=2 * workload.bytes_out_per_second / brokers,
        message_rate_per_second=2 * (workload.messages_per_second + handed_out) / brokers,
    )


def watched(
    sandbox: PulsarSandbox,
    load: SandboxLoad,
    lake: Lake,
    interval_seconds: float,
    capacity: CapacitySettings,
) -> AbstractContextManager[SampledSandbox[PulsarSandbox]]:
    """Sample a loaded cluster in a thread until the block is left.

    Parameters
    ----------
    capacity
        What brokers can carry, declared.
    """
    settings = CollectSettings(
        interval_seconds=interval_seconds, cluster=CLUSTER, pulsar=PulsarCollectSettings()
    )
    return sampled(
        sandbox,
        load,
        lake,
        interval_seconds,
        lambda: COLLECTING.open(sandbox.connection, settings, capacity),
        lambda: lake_sink(lake.raw, COLLECTING.columns),
    )
