"""A broker for taskiq whose queues are balanced by work: `BalancedBroker`."""

from typing import TYPE_CHECKING, Any

from trimtab.extras import missing_extra_named

if TYPE_CHECKING:
    from trimtab.dataplane.queues.broker import BalancedBroker
    from trimtab.dataplane.queues.errors import QueuesFullError, retry_after_seconds

_PLACES = {
    "BalancedBroker": "broker",
    "QueuesFullError": "errors",
    "retry_after_seconds": "errors",
}

__all__ = ["BalancedBroker", "QueuesFullError", "retry_after_seconds"]


@missing_extra_named()
def __getattr__(name: str) -> Any:
    """Names of this package, imported when first asked for: taskiq takes a quarter of a second."""
    from importlib import import_module

    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
