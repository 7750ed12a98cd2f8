"""One tick of a store of Paxos groups: what each node reports of each group, and the map."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from trimtab.observe.collect.sampler import RequestError, SystemSampler, TickSample
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.observe.collect.sinks import RowBatch, RowBatchBuilder
from trimtab.observe.masters.pipeline import COLUMNS
from trimtab.systems.paxos.client import PaxosConnection, PaxosNodes
from trimtab_common.errors import ConnectError
from trimtab_store.core.client_requests import COUNTERS
from trimtab_store.core.messages import GroupReport, MapChanged

STATUS_COLUMNS: Final = (
    "incarnation", "holds", "master", "version", "applied", "held_seconds", "messages", "votes",
)  # fmt: skip


class PaxosCollector:
    """Collects samples of one store."""

    def __init__(self, nodes: PaxosNodes, settings: CollectSettings) -> None:
        self._nodes, self._settings = nodes, settings

    def sample(self) -> TickSample:
        """Sample all nodes of the store once."""
        begun, at = time.perf_counter(), datetime.datetime.now(datetime.UTC)
        problems = []
        try:
            reports = self._nodes.reports()
        except ConnectError as error:
            raise RequestError(str(error)) from error
        addresses = self._nodes.configuration.addresses
        for node, address in enumerate(addresses):
            if node not in reports:
                problems.append(f"node {node} ({address}) does not answer")
        problems += store_problems(reports)
        batches = [node_batch(addresses, reports, at), group_batch(reports, at)]
        try:
            scheme = self._nodes.configuration.settings.scheme.name.lower()
            batches.append(map_batch(self._nodes.preferred_map(), scheme, at))
        except ConnectError as error:
            problems.append(str(error))
        return TickSample(
            cluster=self._settings.cluster or self._nodes.cluster,
            batches=tuple(batches),
            answered=len(reports),
            brokers=len(addresses),
            scraped=0,
            endpoints=0,
            dropped_values=0,
            problems=tuple(problems),
            seconds=time.perf_counter() - begun,
        )


def store_problems(reports: dict[int, dict[int, GroupReport]]) -> list[str]:
    """Nodes without a vote or with an older map than others, and groups that rest; in words."""
    problems = []
    for node, groups in sorted(reports.items()):
        lacking = sum(not one.votes for one in groups.values())
        if lacking:
            problems.append(
                f"node {node} started without its log and has no vote in {lacking} of {len(groups)} groups: "
                "stop no other node, and start those that are down; it votes once all have answered and it "
                "has caught up"
            )
    versions = {node: max(one.map_version for one in groups.values()) for node, groups in reports.items()}
    newest = max(versions.values())
    problems += [
        f"node {node} has version {version} of the map, others have {newest}: if that stays so, its groups "
        f'stay where they are; correct "map" in the configuration of node {node}'
        for node, version in sorted(versions.items())
        if version < newest
    ]
    rests: dict[int, float] = {}
    for node in sorted(reports):
        for group, report in reports[node].items():
            rests[group] = max(rests.get(group, 0.0), report.rest_seconds)
    problems += [
        f"group {group} is not given to its preferred node for {seconds:,.0f} s: that node lost it soon "
        "after a "
        "transfer; see why it stands still or ends, or name another node in the map"
        for group, seconds in sorted(rests.items())
        if seconds
    ]
    return problems


def node_batch(
    addresses: list[str], reports: dict[int, dict[int, GroupReport]], at: datetime.datetime
) -> RowBatch:
    """One row per node, whether it answers or not."""
    writer = RowBatchBuilder("paxos_node", "node", "address", "alive", sampled_at=at)
    for node, address in enumerate(addresses):
        writer.add(node, address, node in reports)
    return writer.batch()


def group_batch(reports: dict[int, dict[int, GroupReport]], at: datetime.datetime) -> RowBatch:
    """One row per node and group."""
    totals = [f"{name}_total" for name in COUNTERS]
    writer = RowBatchBuilder("paxos_group", "node", "group_number", *STATUS_COLUMNS, *totals, sampled_at=at)
    for node, groups in sorted(reports.items()):
        for group, report in sorted(groups.items()):
            writer.add(node, group, *(getattr(report, name) for name in (*STATUS_COLUMNS, *COUNTERS)))
    return writer.batch()


def map_batch(observation: MapChanged, scheme: str, at: datetime.datetime) -> RowBatch:
    """One row with the preferred map and its version."""
    writer = RowBatchBuilder("paxos_map", "version", "preferred", "scheme", sampled_at=at)
    writer.add(observation.version, list(observation.preferred), scheme)
    return writer.batch()


@contextmanager
def open_collector(
    connection: PaxosConnection, settings: CollectSettings, capacity: CapacitySettings
) -> Iterator[PaxosCollector]:
    """A collector, as `SystemSampler.open`; nodes have no capacities that anybody knows."""
    nodes = PaxosNodes(connection)
    nodes.reports()
    yield PaxosCollector(nodes, settings)


COLLECTING: Final = SystemSampler(COLUMNS, open_collector)
