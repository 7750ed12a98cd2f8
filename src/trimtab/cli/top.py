"""`trimtab top`: busiest brokers, largest partitions and topics, of a service, a lake or a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from trimtab.balancers import Balancer
from trimtab.balancers.planning import snapshot_of
from trimtab.cli.context import CommandContext
from trimtab.cli.status import StatusSource
from trimtab.cli.via import cluster_of
from trimtab.model.load import resource_name
from trimtab.report.formats import figure_text, load_text, signed_text
from trimtab.report.tables import table_lines
from trimtab.serve.client import ServiceClient, path_of
from trimtab.serve.documents import BrokerStatus, LargestPart, TargetDetail
from trimtab.serve.observing import Observation, largest_parts, observed
from trimtab_common.errors import InputError

Kind = Literal["brokers", "partitions", "topics"]
NUMBERS = tuple(name for name, kind in BrokerStatus.__annotations__.items() if kind == "int")
"""Whole numbers of brokers, which are columns too."""


def of_service(
    client: ServiceClient, balancer: Balancer, cluster: str | None, kind: Kind, sort: str, count: int
) -> StatusSource:
    """The rows of a service, which holds the newest snapshot already."""
    target = path_of("clusters", cluster_of(client, balancer.name, cluster), balancer.name)

    def brokers() -> tuple[Sequence[str], Sequence[BrokerStatus]]:
        found = client.get(target, TargetDetail)
        return [one.resource for one in found.status.resources], found.brokers

    def parts() -> Sequence[LargestPart]:
        return client.get(f"{target}/largest", list[LargestPart], of=kind, sort=sort, count=count)

    return _source(kind, brokers, parts, sort, count)


def of_snapshot(
    context: CommandContext, balancer: Balancer, path: Path | None, kind: Kind, sort: str, count: int
) -> StatusSource:
    """The rows of a snapshot file, or of the newest snapshot of the lake."""
    if balancer.observed is None:
        raise InputError(f"--balancer {balancer.name} has no brokers to list: choose another balancer")
    settings = context.read().of(balancer.settings())
    cluster = context.lake_cluster()

    def observation() -> Observation:
        found = snapshot_of(balancer, path, context.lake, cluster)
        return observed(balancer, found, path or Path(), settings)

    def brokers() -> tuple[Sequence[str], Sequence[BrokerStatus]]:
        found = observation()
        return [one.resource for one in found.resources], found.brokers

    return _source(kind, brokers, lambda: largest_parts(observation(), kind, sort, count), sort, count)


def _source(
    kind: Kind,
    brokers: Callable[[], tuple[Sequence[str], Sequence[BrokerStatus]]],
    parts: Callable[[], Sequence[LargestPart]],
    sort: str,
    count: int,
) -> StatusSource:
    def rows() -> tuple[Sequence[object], list[str]]:
        if kind == "brokers":
            resources, found = brokers()
            chosen = _sorted(resources, found, sort)[:count]
            return msgspec.to_builtins(chosen), _broker_lines(resources, chosen)
        largest = parts()
        return msgspec.to_builtins(largest), _part_lines(kind, largest)

    return rows


def _sorted(resources: Sequence[str], brokers: Sequence[BrokerStatus], sort: str) -> list[BrokerStatus]:
    """Brokers by a column, or by their largest utilization; largest first, offline ones last."""
    if sort and sort not in (*resources, *NUMBERS):
        raise InputError(f"--sort {sort[:40]}: use {', '.join((*resources, *NUMBERS))}")

    def figure(one: BrokerStatus) -> float:
        if sort in NUMBERS:
            return float(getattr(one, sort))
        usage = dict(zip(resources, one.usage, strict=True))
        known = [share for name, share in usage.items() if share is not None and sort in ("", name)]
        return max(known, default=-1.0)

    return sorted(brokers, key=lambda one: -figure(one))


def _broker_lines(resources: Sequence[str], brokers: Sequence[BrokerStatus]) -> list[str]:
    cells = [("broker", "rack", *NUMBERS, *map(resource_name, resources))]
    for one in brokers:
        figures = zip(resources, one.load or (None,) * len(resources), one.usage, one.deviation, strict=True)
        cells.append(
            (
                one.name if one.is_online else f"{one.name} (offline)",
                one.rack,
                *(f"{getattr(one, name):,}" for name in NUMBERS),
                *(
                    f"{load_text(load, name)} {figure_text(usage, '.0%'):>4} "
                    f"{'–' if deviation is None else signed_text(deviation):>5}"
                    for name, load, usage, deviation in figures
                ),
            )
        )
    return table_lines(cells, "ll" + "r" * (2 + len(resources)), indent="")


def _part_lines(kind: Kind, parts: Sequence[LargestPart]) -> list[str]:
    if not parts:
        return [f"no {kind}"]
    resources = list(parts[0].load)
    is_topic = kind == "topics"
    heading = "partitions" if is_topic else "leader"
    cells = [(kind.removesuffix("s"), *map(resource_name, resources), heading, "brokers")]
    for one in parts:
        figures = (load_text(one.load.get(name), name) for name in resources)
        held = ", ".join(one.brokers) if len(one.brokers) <= 12 else f"{len(one.brokers)} brokers"
        cells.append((one.name, *figures, f"{one.partitions:,}" if is_topic else one.leader or "–", held))
    return table_lines(cells, "l" + "r" * (len(resources) + 1) + "l", indent="")
