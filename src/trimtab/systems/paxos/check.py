"""Findings on a store of Paxos groups before it is sampled: its nodes, its lease, its map."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trimtab.model.finding import Finding, broken, fine, missing
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.systems.paxos.collector import map_problems
from trimtab.systems.paxos.nodes import PaxosNodes
from trimtab.systems.paxos.settings import PaxosConnection
from trimtab_common.errors import ConnectError
from trimtab_store.format.configuration import STORE

PART: Final = "Paxos groups"


def check(
    connection: PaxosConnection, settings: CollectSettings, capacity: CapacitySettings
) -> Iterator[Finding]:
    """Findings on a store; changes nothing."""
    try:
        nodes = PaxosNodes(connection)
        reports = nodes.reports()
    except ConnectError as error:
        yield broken(PART, str(connection.node), str(error))
        return
    addresses = nodes.configuration.addresses
    for node, address in enumerate(addresses):
        if node in reports:
            yield fine(PART, address, f"node {node} answers, with {len(reports[node])} groups")
        else:
            yield missing(PART, address, f"node {node} does not answer", "start it, or see why it ended")
    if 2 * len(reports) <= len(addresses):
        told = f"{len(reports)} of {len(addresses)} nodes answer: no majority, nothing is stored"
        yield broken(PART, nodes.cluster, told, "start the others")
    for problem in map_problems(reports):
        yield missing(PART, "map", problem)
    path = nodes.configuration.map
    if not path:
        told = "no map is watched: plans can be made, and not applied"
        remedy = f'set "map" in each node.json to "{STORE}", or to a file that all nodes see'
        yield missing(PART, "map", told, remedy)
    elif nodes.configuration.map_in_store:
        yield _map_in_store(nodes)
    elif not os.access(Path(path).parent, os.W_OK):
        yield missing(PART, path, "cannot be written from here", "run apply where the map's folder is")
    else:
        yield fine(PART, path, f"version {nodes.preferred_map().version} of the preferred map")


def _map_in_store(nodes: PaxosNodes) -> Finding:
    """The map where it is published in the store itself."""
    try:
        version = nodes.preferred_map().version
    except ConnectError as error:
        return broken(PART, "map", str(error))
    if version:
        return fine(PART, "map", f"version {version} of the preferred map, in the store")
    return missing(PART, "map", "none is published in the store", "publish one: `trimtab masters publish`")
