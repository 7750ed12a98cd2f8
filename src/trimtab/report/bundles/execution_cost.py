"""The price of an execution: what was split and moved, the clients that reconnected, how long it took."""

from __future__ import annotations

from trimtab.model.bundles.receipt import BundlesReceipt
from trimtab.report.formats import counted


def spent_text(receipt: BundlesReceipt | None) -> str:
    """Splits, moves, clients and seconds, in a sentence."""
    if receipt is None:
        return "nothing had to be done"
    splits = sum(outcome.kind == "split" for outcome in receipt.done)
    unloads = sum(outcome.kind == "unload" for outcome in receipt.done)
    return (
        f"{counted(splits, 'bundle')} split, {counted(unloads, 'bundle')} moved, "
        f"{receipt.sessions} clients reconnected, in {receipt.seconds:.1f} s"
    )
