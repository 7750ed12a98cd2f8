"""Nodes of a store of groups as real processes on this machine."""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

import msgspec

from trimtab.dataplane import masters
from trimtab.dataplane.masters.standings import ask_standings, masters_of
from trimtab.files.atomic import write_atomically
from trimtab.files.masters.configuration import FORMAT, NodeConfiguration
from trimtab.files.masters.map import read_map, write_map
from trimtab.jars.fetch import Say, say_nothing
from trimtab.lab.sandbox.cluster import Sandbox, place_for
from trimtab.lab.sandbox.masters.state import MastersState, Node
from trimtab.lab.sandbox.ports import free_ports, require_free
from trimtab.lab.sandbox.processes import this_process
from trimtab.model.errors import SandboxError
from trimtab.online.masters.messages import MapSeen
from trimtab.online.masters.settings import MOST_VOTERS, MasterSettings, Scheme

MEMORY_PER_NODE_MB = 50
MOST_GROUPS = 200


def settings_for(lease_seconds: float, scheme: Scheme = Scheme.EXPIRE) -> MasterSettings:
    """Settings by a lease, in the proportions of the source: four renewals a lease.

    Raises
    ------
    SettingsError
        If the lease is out of range.
    """
    quarter = lease_seconds / 4
    return MasterSettings(
        lease_seconds=lease_seconds,
        renewal_seconds=quarter,
        failover_seconds=min(1.0, quarter),
        propose_seconds=min(1.0, quarter),
        cycle_seconds=2 * lease_seconds,
        mute_seconds=1.5 * lease_seconds,
        upload_seconds=min(1.0, quarter),
        scheme=scheme,
    )


class MastersSandbox(Sandbox[MastersState, Node, int]):
    """Running nodes; they go by their numbers, from 0."""

    noun, ready_seconds = "node", 120.0

    @classmethod
    def start(
        cls,
        nodes: int = 3,
        groups: int = 12,
        *,
        lease_seconds: float = 10.0,
        scheme: Scheme = Scheme.EXPIRE,
        first_port: int | None = None,
        secret: bool = False,
        folder: Path | None = None,
        detached: bool = False,
        say: Say = say_nothing,
    ) -> MastersSandbox:
        """Start nodes, and wait until every group has a master.

        Parameters
        ----------
        nodes, groups
            How many.
        lease_seconds, scheme
            See `MasterSettings`.
        first_port
            Of the first node, the others follow; any free ones if None.
        secret
            Whether nodes and clients have to know one, drawn here.
        folder
            Where it lives; by default a new folder that no other sandbox uses.
        detached
            Whether it outlives this process.
        say
            Takes lines of progress.

        Raises
        ------
        SandboxError
            If memory, disk or ports are lacking, or a process ends before it is ready; nothing is left
            running then.
        """
        if not 1 <= nodes <= MOST_VOTERS or not 1 <= groups <= MOST_GROUPS:
            raise SandboxError(
                f"{nodes} nodes with {groups} groups cannot be started: choose 1 to {MOST_VOTERS} nodes and "
                f"1 to {MOST_GROUPS} groups"
            )
        settings = settings_for(lease_seconds, scheme)
        folder = place_for(f"{nodes} nodes", nodes * MEMORY_PER_NODE_MB, folder)
        ports = free_ports(nodes) if first_port is None else list(range(first_port, first_port + nodes))
        for port in ports:
            require_free(port)
        state = MastersState(
            folder=folder,
            cluster_id=uuid4().hex,
            owner=this_process(),
            ports=tuple(ports),
            groups=groups,
            lease_seconds=lease_seconds,
            secret=secret,
        )
        sandbox = cls(state)
        with sandbox._starting(detached=detached):
            say(f"starting {nodes} nodes; the first masters come after a lease of {lease_seconds:g} s")
            if secret:
                state.secret_file.touch(0o600)
                state.secret_file.write_text(secrets.token_hex(32))
            sandbox.publish([group % nodes for group in range(groups)])
            for node in state.nodes:
                state.home(node.id).mkdir()
                sandbox._configure(node.id, settings)
                sandbox._spawn(node, outlive=detached)
        return sandbox

    def publish(self, ideal: Sequence[int]) -> int:
        """Publish the next version of the ideal map; nodes see it within a second. Its number."""
        path, version = self.state.map, 1
        if path.exists():
            version = read_map(path, len(self.state.ports), self.state.groups).version + 1
        write_map(path, MapSeen(version, tuple(ideal)))
        return version

    def masters(self) -> list[int]:
        """The node that counts itself as master of each group; -1 where none does."""
        return masters_of(asyncio.run(ask_standings(self.state.cluster)), self.state.groups)

    def wait_until_serving(self, timeout_seconds: float | None = None) -> None:
        """Wait until every group has a master.

        Raises
        ------
        SandboxError
            If a node ends instead, or time is up.
        """
        patience = self.ready_seconds if timeout_seconds is None else timeout_seconds
        deadline = time.monotonic() + patience
        while -1 in (masters := self.masters()):
            self._require_running()
            if time.monotonic() > deadline:
                raise SandboxError(
                    f"{masters.count(-1)} groups have no master after {patience:g} s: close what else keeps "
                    "the processors busy"
                )
            time.sleep(0.2)

    def _configure(self, node: int, settings: MasterSettings) -> None:
        state = self.state
        document = NodeConfiguration(
            format=FORMAT,
            cluster=state.cluster_id,
            node=node,
            addresses=list(state.cluster.addresses),
            folder=str(state.home(node)),
            groups=state.groups,
            map=str(state.map),
            settings=settings,
            secret_file=state.cluster.guard.secret_file,
        )
        data = msgspec.json.format(msgspec.json.encode(asdict(document)), indent=1)
        write_atomically(state.configuration(node), data)

    @property
    def _declared(self) -> dict[int, Node]:
        return {node.id: node for node in self.state.nodes}

    def _nodes(self) -> Collection[Node]:
        return self.state.nodes

    def _title(self, node: Node) -> str:
        return f"node {node.id}"

    def _command(self, node: Node) -> list[str]:
        # What `trimtab masters node --config FILE` runs, without the time that the command line takes.
        return [sys.executable, "-m", masters.__name__, str(self.state.configuration(node.id))]
