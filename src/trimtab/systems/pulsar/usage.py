"""Sources of brokers' usage: their own reports, or message traffic over declared capacities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from trimtab.model.bundles.policies import host_of
from trimtab.systems.pulsar.rows import CAPACITY

ALIKE_POINTS: Final = 10.0
"""CPU of brokers that differs by less, in points of percent, may be one and the same host's."""
APART_SECONDS: Final = 150.0
"""Brokers look at their host once a minute, each at its own second: figures of one host differ for so long
after its load has changed, and no longer."""

MEASURED, DECLARED = "measured", "declared"


@dataclass
class UsageSource:
    """Decides for every host, and keeps to it.

    Attributes
    ----------
    mode
        `auto`, `measured` or `declared`.
    """

    mode: str
    _source: dict[str, str] = field(default_factory=dict)
    _apart_since: dict[str, float] = field(default_factory=dict)

    def of(self, cpu: Mapping[str, tuple[float, float] | None], at: float) -> dict[str, str]:
        """`measured` or `declared` of every broker.

        With `auto`, brokers of one host that report the same limit of CPU are taken to report their host's
        figures: `declared`, until their usage has been apart for longer than samples of one host can be.
        Brokers that were started together, or whose load has just begun, differ without having any of their
        own.

        Parameters
        ----------
        cpu
            Usage and limit of each broker, where it told them.
        at
            Seconds, on any clock that does not go back.
        """
        if self.mode != "auto":
            return dict.fromkeys(cpu, self.mode)
        by_host: dict[str, list[str]] = {}
        for broker in cpu:
            by_host.setdefault(host_of(broker), []).append(broker)
        for host, brokers in by_host.items():
            self._choose_source(host, [told for broker in brokers if (told := cpu[broker]) is not None], at)
        return {broker: self._source.get(host_of(broker), MEASURED) for broker in cpu}

    def _choose_source(self, host: str, text: list[tuple[float, float]], at: float) -> None:
        if len(text) < 2:
            return
        if len({limit for _, limit in text}) > 1:
            self._source[host] = MEASURED
        elif self._source.setdefault(host, DECLARED) == DECLARED:
            if _alike(text):
                self._apart_since.pop(host, None)
            elif at - self._apart_since.setdefault(host, at) > APART_SECONDS:
                self._source[host] = MEASURED

    def warning(self) -> str | None:
        """A sentence on what this means, where usage is not what brokers measure."""
        if self.mode == DECLARED:
            return (
                "usage is message traffic over declared capacities (collect.pulsar.usage); CPU does not count"
            )
        hosts = sorted(host for host, source in self._source.items() if source == DECLARED)
        if self.mode != "auto" or not hosts:
            return None
        return (
            f"the brokers on {', '.join(hosts)} report one and the same host's CPU and network: message "
            "traffic over declared capacities is their usage instead, and CPU does not count; "
            'collect.pulsar.usage = "measured" takes their reports as they are'
        )


def undeclared(brokers: Mapping[str, Mapping[str, object]]) -> str | None:
    """A sentence on capacities that brokers of declared usage lack, by their `rows.capacity_columns`."""
    missing = [
        f"capacity.{key}"
        for column, key in CAPACITY.items()
        if key != "cpu_cores" and any(declared[column] is None for declared in brokers.values())
    ]
    if not missing:
        return None
    return (
        f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not declared: limits that brokers "
        "report stand in for it, and what has none is not balanced"
    )


def _alike(text: list[tuple[float, float]]) -> bool:
    percents = [100 * usage / limit for usage, limit in text]
    return max(percents) - min(percents) < ALIKE_POINTS
