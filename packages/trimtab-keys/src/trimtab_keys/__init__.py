"""Records by key on Kafka: producers and consumers that follow routing tables and keep each key's order.

The public API: the names of `__all__`, `Producer` and `Consumer` of the modules `clients.kafka_python`,
`clients.aiokafka` and `clients.confluent`, and `clients.kafka_python.Partitioner`.
"""

from typing import TYPE_CHECKING

from trimtab_common import lazy_names

if TYPE_CHECKING:
    from trimtab_keys.clients.checkpoints import (
        CheckpointStore,
        InMemoryCheckpointStore,
        PostgresCheckpointStore,
        SqliteCheckpointStore,
    )
    from trimtab_keys.clients.live_load import LiveLoad
    from trimtab_keys.clients.partitioners import PolicyPartitioner
    from trimtab_keys.clients.settings import LoadConfig, RoutingConfig
    from trimtab_keys.core.order import OrderingConfig
    from trimtab_keys.core.policies import KeyPolicyInputs, policy_named

__all__ = [
    "CheckpointStore",
    "InMemoryCheckpointStore",
    "KeyPolicyInputs",
    "LiveLoad",
    "LoadConfig",
    "OrderingConfig",
    "PolicyPartitioner",
    "PostgresCheckpointStore",
    "RoutingConfig",
    "SqliteCheckpointStore",
    "policy_named",
]

__getattr__ = lazy_names(
    __name__,
    {
        "CheckpointStore": "clients.checkpoints",
        "InMemoryCheckpointStore": "clients.checkpoints",
        "KeyPolicyInputs": "core.policies",
        "LiveLoad": "clients.live_load",
        "LoadConfig": "clients.settings",
        "OrderingConfig": "core.order",
        "PolicyPartitioner": "clients.partitioners",
        "PostgresCheckpointStore": "clients.checkpoints",
        "RoutingConfig": "clients.settings",
        "SqliteCheckpointStore": "clients.checkpoints",
        "policy_named": "core.policies",
    },
)
