"""Instant service consumption (ISC) of partitions: IPOOA's formula (2), as printed and as repaired."""

from __future__ import annotations

from trimtab_keys.core.load import PartitionLoadView


def repaired(rate: float, backlog: float, capacity: float, weight: float) -> float:
    """ISC of a partition, 0 to 1: λ1·min(1, rate / capacity) + λ2·min(1, backlog / (capacity · 1 s)).

    Parameters
    ----------
    rate
        Records a second that arrive.
    backlog
        Records that wait.
    capacity
        Records a second that the consumer can do.
    weight
        λ1; λ2 is the rest.
    """
    return weight * min(1.0, rate / capacity) + (1 - weight) * min(1.0, backlog / capacity)


def literal(view: PartitionLoadView, weight: float) -> list[float]:
    """ISC of every partition by the printed sum over its keys, λ1·Num(k)/N1 + λ2·Con(k)/N2.

    Num(k) are the memberships of consumer groups that read the key's partition, Con(k) the connections that
    fetch it, N1 and N2 what these come to over all keys. The sum over all partitions is 1, their mean one
    over their number: it is above a threshold of one half only where one partition holds half of everything.
    """
    num = [keys * one for keys, one in zip(view.keys, view.members, strict=True)]
    con = [keys * one for keys, one in zip(view.keys, view.connections, strict=True)]
    all_num, all_con = sum(num) or 1, sum(con) or 1
    return [
        weight * one / all_num + (1 - weight) * other / all_con for one, other in zip(num, con, strict=True)
    ]
