"""Queues balanced by work: a broker for taskiq, in one process or on Redis or Valkey.

The names of `__all__` are the public API. They are imported when first used: taskiq takes a quarter of a
second.
"""

from typing import TYPE_CHECKING

from trimtab_common import lazy_names

if TYPE_CHECKING:
    from trimtab_queues.broker.backend import QueuesFullError, retry_after_seconds
    from trimtab_queues.broker.broker import BalancedBroker
    from trimtab_queues.core.catalogue import DispatchInputs, policy_named
    from trimtab_queues.core.ledger import QueueLedger
    from trimtab_queues.core.policies import DispatchPolicy
    from trimtab_queues.core.scheduling import SchedulingSettings

__all__ = [
    "BalancedBroker",
    "DispatchInputs",
    "DispatchPolicy",
    "QueueLedger",
    "QueuesFullError",
    "SchedulingSettings",
    "policy_named",
    "retry_after_seconds",
]

__getattr__ = lazy_names(
    __name__,
    {
        "BalancedBroker": "broker.broker",
        "DispatchInputs": "core.catalogue",
        "DispatchPolicy": "core.policies",
        "QueueLedger": "core.ledger",
        "QueuesFullError": "broker.backend",
        "SchedulingSettings": "core.scheduling",
        "policy_named": "core.catalogue",
        "retry_after_seconds": "broker.backend",
    },
)
