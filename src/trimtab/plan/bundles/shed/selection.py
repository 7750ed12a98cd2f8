"""Choosing bundles of one broker by traffic: what several shedders have in common."""

from collections.abc import Iterable

from trimtab.plan.bundles.view import LoadView


def busiest_until(view: LoadView, bundles: Iterable[str], need: float) -> tuple[tuple[str, ...], float]:
    """Bundles by short-term throughput, highest first, while what is taken is less than needed.

    At least one is taken if there is any. Bundles of equal throughput keep the order of the view: Pulsar
    sorts stably what it finds in a hash map (`ThresholdShedder.filterAndSelectBundle`, `OverloadShedder`).

    Parameters
    ----------
    view
        Gives the throughput, and which of them may be chosen.
    bundles
        Those of the broker.
    need
        Bytes per second to take.

    Returns
    -------
    tuple
        The bundles in the order of choice, and their sum in bytes per second.
    """
    throughput = view.bundles.short_throughput
    row = view.bundles.row
    ordered = sorted(view.movable(bundles), key=lambda bundle: -throughput[row[bundle]])
    chosen: list[str] = []
    taken = 0.0
    for bundle in ordered:
        if chosen and not taken < need:
            break
        chosen.append(bundle)
        taken += float(throughput[row[bundle]])
    return tuple(chosen), taken
