"""A replicated message store: groups of nodes, each group with a master that holds a lease.

The names of `__all__` are the public API. They are imported when first used. `trimtab-store node --config
FILE` runs a node.
"""

from typing import TYPE_CHECKING

from trimtab_common import lazy_names

if TYPE_CHECKING:
    from trimtab_store.clients.cluster import StoreConfig, masters_of, query_group_status, voters_of
    from trimtab_store.clients.consumer import Consumer, StoredMessage
    from trimtab_store.clients.producer import Producer
    from trimtab_store.core.settings import StoreSettings
    from trimtab_store.format.configuration import NodeConfiguration
    from trimtab_store.node.process import run_node

__all__ = [
    "Consumer",
    "NodeConfiguration",
    "Producer",
    "StoreConfig",
    "StoreSettings",
    "StoredMessage",
    "masters_of",
    "query_group_status",
    "run_node",
    "voters_of",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Consumer": "clients.consumer",
        "NodeConfiguration": "format.configuration",
        "Producer": "clients.producer",
        "StoreConfig": "clients.cluster",
        "StoreSettings": "core.settings",
        "StoredMessage": "clients.consumer",
        "masters_of": "clients.cluster",
        "query_group_status": "clients.cluster",
        "run_node": "node.process",
        "voters_of": "clients.cluster",
    },
)
