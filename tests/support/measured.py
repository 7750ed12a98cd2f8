"""Measured figures from the measures of single instants."""

import numpy as np

from trimtab.model.load import Imbalance
from trimtab.report.measured import MeasuredLoad


def from_imbalances(
    brokers: tuple[int, ...], hosts: tuple[str, ...], series: list[Imbalance]
) -> MeasuredLoad:
    """One figure an instant, over the same brokers."""
    return MeasuredLoad(
        brokers=brokers,
        hosts=hosts,
        usage=np.array([one.usage for one in series]),
        mean=np.array([one.mean for one in series]),
        deviation=np.array([one.deviation for one in series]),
        sigma=np.array([one.sigma for one in series]),
        resources=series[0].resources,
    )
