"""Traffic of bundles out of the statistics of a broker's topics."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from trimtab.act.bundles.port import BundleTraffic

FIGURES: Final = ("msgThroughputIn", "msgThroughputOut", "msgRateIn", "msgRateOut")


def bundle_traffic(stats: Mapping[str, Any]) -> dict[str, BundleTraffic]:
    """Traffic by bundle; of a bundle of which any figure cannot be read there is none.

    Parameters
    ----------
    stats
        By namespace, range, `persistent` or not, and topic, as `/admin/v2/broker-stats/topics` has it.
    """
    found = {}
    for namespace, ranges in _members(stats):
        for limits, domains in _members(ranges):
            values = [
                [_number(topic, name) for name in FIGURES]
                for _, topics in _members(domains)
                for _, topic in _members(topics)
            ]
            bytes_in, bytes_out, rate_in, rate_out = (
                map(sum, zip(*values, strict=True)) if values else [0.0] * 4
            )
            if math.isfinite(bytes_in + bytes_out + rate_in + rate_out):
                found[f"{namespace}/{limits}"] = BundleTraffic(bytes_in, bytes_out, rate_in + rate_out)
    return found


def _members(value: object) -> Iterator[tuple[str, Any]]:
    return iter(value.items()) if isinstance(value, Mapping) else iter(())


def _number(topic: object, name: str) -> float:
    value = topic.get(name) if isinstance(topic, Mapping) else None
    return float(value) if isinstance(value, int | float) and value >= 0 else math.nan
