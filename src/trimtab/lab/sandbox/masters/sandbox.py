"""A sandbox of trimtab's store: nodes as processes of this machine, and etcd where their logs are there."""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import ClassVar, Final
from uuid import uuid4

import msgspec

from trimtab.extras import require
from trimtab.files.machine import cache_folder
from trimtab.jars import ProgressCallback, exclusive_lock, ignore_progress, scratch_sibling
from trimtab.lab.sandbox.cluster import Sandbox, place_for
from trimtab.lab.sandbox.processes import free_ports, require_free, this_process
from trimtab.lab.sandbox.state import SandboxState
from trimtab.model.errors import SandboxError
from trimtab.systems.paxos.client import PaxosConnection, PaxosNodes
from trimtab_common.files import write_atomically
from trimtab_store.clients.cluster import StoreConfig, masters_of, query_group_status, voters_of
from trimtab_store.core.node import EMBEDDED, ENGINES, ETCD
from trimtab_store.core.settings import StoreSettings, TransferScheme
from trimtab_store.format.configuration import (
    CONFIGURATION_FORMAT,
    STORE,
    NodeConfiguration,
    TransportSecurity,
)

MEMBERS: Final = 3
MEMORY_PER_MEMBER_MB: Final = 200
"""Measured: 27 MB at the start, 160 to 195 after 34,000 messages of 512 bytes."""
PACKAGE: Final = "etcd-server"
LOSING: Final = ((3, 5, 0), (3, 5, 1), (3, 5, 2))
"""Versions in which members that are killed under load may lack what was committed (etcd-io/etcd#13766)."""
OLDEST: Final = (3, 4, 0)
DOWNLOAD_SECONDS: Final = 120


def etcd_program(print_progress: ProgressCallback = ignore_progress) -> str:
    """The path of an etcd that may be killed: that on PATH, else Debian's, kept in the cache without root.

    Raises
    ------
    SandboxError
        If there is none, or the one on PATH may lose what was committed.
    """
    found = shutil.which("etcd")
    if found is not None:
        require_healthy(found)
        return found
    kept = cache_folder() / "etcd" / "debian"
    program = kept / "usr" / "bin" / "etcd"
    if not program.exists():
        with exclusive_lock(kept.parent / "lock"):
            if not program.exists():
                print_progress(f"fetching Debian's package {PACKAGE}, once")
                _unpack(kept)
    require_healthy(str(program))
    return str(program)


def _unpack(retained: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise SandboxError(
            "no etcd is installed, and there is no apt-get that could fetch one: install etcd 3.4.22 or "
            "later, or 3.5.6 or later, so that `etcd` is on PATH"
        )
    with scratch_sibling(retained) as scratch:
        made = scratch / "made"
        made.mkdir()
        _run(["apt-get", "download", PACKAGE], scratch)
        (package,) = scratch.glob("*.deb")
        _run(["dpkg", "-x", package.name, "made"], scratch)
        made.rename(retained)


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SandboxError(
            f"`{' '.join(command)}` was not done in {DOWNLOAD_SECONDS} s: install etcd yourself"
        ) from error
    if done.returncode != 0:
        raise SandboxError(
            f"`{' '.join(command)}` failed ({done.stderr.strip()[-300:]}): have `apt-get update` run "
            "first, or install etcd 3.4.22 or later, so that `etcd` is on PATH"
        )


def require_healthy(program: str) -> None:
    """Refuse versions that lose what they have committed when they are killed: here members are.

    Raises
    ------
    SandboxError
        If it is one of them, or older than what is spoken here, or tells no version.
    """
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError as error:
        raise SandboxError(f"{program} cannot be run ({error}): install etcd anew") from error
    found = re.search(r"etcd Version: (\d+)\.(\d+)\.(\d+)", said)
    if found is None:
        raise SandboxError(f"{program} tells no version of etcd ({said[:80]!r}): install etcd anew")
    version = tuple(map(int, found.groups()))
    if version in LOSING:
        raise SandboxError(
            f"{program} is etcd {'.'.join(found.groups())}, expected none of 3.5.0 to 3.5.2: "
            "those lose committed writes when they are killed under load (etcd-io/etcd#13766), and "
            "here they are; install 3.4.22 or later, or 3.5.6 or later"
        )
    if version < OLDEST:
        raise SandboxError(
            f"{program} is etcd {'.'.join(found.groups())}, expected 3.4 or later: install a later one"
        )


def member_command(
    program: str, member: int, ports: Sequence[int], folder: Path, election_seconds: float
) -> list[str]:
    """The command line of a member on 127.0.0.1.

    Parameters
    ----------
    ports
        Two a member: for clients, and for the others.
    """
    clients, peers = ports[::2], ports[1::2]
    cluster = ",".join(f"m{number}=http://127.0.0.1:{port}" for number, port in enumerate(peers))
    client, peer = f"http://127.0.0.1:{clients[member]}", f"http://127.0.0.1:{peers[member]}"
    election = round(1000 * election_seconds)
    # Changes of keys are kept for five minutes, for watches that begin again.
    return [
        program, "--name", f"m{member}", "--data-dir", str(folder / "data"),
        "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
        "--initial-cluster", cluster, "--initial-cluster-state", "new",
        "--election-timeout", str(election), "--heartbeat-interval", str(election // 5),
        "--auto-compaction-mode", "periodic", "--auto-compaction-retention", "5m",
    ]  # fmt: skip


def healthy(port: int) -> bool:
    """Whether a member answers, with a leader."""
    connection = HTTPConnection("127.0.0.1", port, timeout=1.0)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def wait_until_healthy(ports: Sequence[int], seconds: float, poll: Callable[[], None]) -> None:
    """Wait until all members answer.

    Parameters
    ----------
    poll
        Called between; raises if one has ended.

    Raises
    ------
    SandboxError
        If they do not in time.
    """
    until = time.monotonic() + seconds
    while missing := [port for port in ports if not healthy(port)]:
        poll()
        if time.monotonic() > until:
            raise SandboxError(
                f"members of etcd on ports {missing} are not healthy after {seconds:g} s: close what else "
                "keeps the processors busy"
            )
        time.sleep(0.1)


@dataclass(frozen=True)
class StoreNodeProcess:
    """One declared process.

    Parameters
    ----------
    id
        Its number, from 0; members of etcd come behind the nodes.
    role
        `node`, which may be master, or `etcd`.
    """

    id: int
    role: str = "node"


@dataclass(frozen=True, kw_only=True)
class MastersSandboxState(SandboxState):
    """A sandbox of groups and masters.

    Parameters
    ----------
    ports
        Of the nodes, on 127.0.0.1.
    groups
        How many.
    lease_seconds
        The lease of a mastership.
    secret
        Whether nodes and clients have one.
    map_in_store
        Whether the preferred map is published in the store itself, not in a file.
    etcd_program, etcd_ports
        What the members of etcd are started with, and two ports each: for clients, and for one another; none
        if the nodes choose themselves.
    """

    system: ClassVar[str] = "masters"
    restarts: ClassVar[bool] = True

    ports: tuple[int, ...]
    groups: int
    lease_seconds: float
    secret: bool = False
    map_in_store: bool = False
    etcd_program: str = ""
    etcd_ports: tuple[int, ...] = ()

    @property
    def nodes(self) -> tuple[StoreNodeProcess, ...]:
        """All nodes of the store."""
        return tuple(map(StoreNodeProcess, range(len(self.ports))))

    @property
    def members(self) -> tuple[StoreNodeProcess, ...]:
        """All members of the etcd cluster; empty without etcd."""
        first = len(self.ports)
        return tuple(StoreNodeProcess(first + number, "etcd") for number in range(len(self.etcd_ports) // 2))

    @property
    def election_seconds(self) -> float:
        """Of etcd: its own default, or as much shorter as a short lease asks for."""
        return min(1.0, self.lease_seconds / 8)

    @property
    def engine(self) -> str:
        """The engine that elects masters: `embedded` or `etcd`."""
        return "etcd" if self.etcd_ports else "embedded"

    @property
    def cluster(self) -> StoreConfig:
        """As its clients know it."""
        addresses = tuple(f"127.0.0.1:{port}" for port in self.ports)
        secret_file = str(self.secret_file) if self.secret else ""
        return StoreConfig(
            self.cluster_id, addresses, self.groups, TransportSecurity(secret_file=secret_file)
        )

    @property
    def secret_file(self) -> Path:
        """The secret of nodes and clients, if there is one."""
        return self.folder / "secret"

    @property
    def map(self) -> Path:
        """The file of the preferred map, watched by all nodes, unless it is in the store."""
        return self.folder / "map.json"

    def configuration(self, node: int) -> Path:
        """The configuration of a node, as `trimtab masters node --config` takes it."""
        return self.node_folder(node) / "node.json"


MEMORY_PER_NODE_MB = 50
MAX_GROUPS = 200
MAX_NODES = 20


def settings_for(lease_seconds: float, scheme: TransferScheme = TransferScheme.EXPIRE) -> StoreSettings:
    """Settings by a lease, in the proportions of the source: four renewals a lease.

    Raises
    ------
    SettingsError
        If the lease is out of range.
    """
    quarter = lease_seconds / 4
    return StoreSettings(
        lease_seconds=lease_seconds,
        renewal_seconds=quarter,
        failover_seconds=min(1.0, quarter),
        propose_seconds=min(1.0, quarter),
        cycle_seconds=2 * lease_seconds,
        backoff_seconds=1.5 * lease_seconds,
        rest_seconds=1.5 * lease_seconds,
        upload_seconds=min(1.0, quarter),
        scheme=scheme,
    )


class MastersSandbox(Sandbox[MastersSandboxState, StoreNodeProcess, int]):
    """Running nodes; they go by their numbers, from 0."""

    noun, ready_seconds, remedy = "node", 120.0, ""

    @classmethod
    def start(
        cls,
        nodes: int = 3,
        groups: int = 12,
        *,
        lease_seconds: float = 10.0,
        scheme: TransferScheme = TransferScheme.EXPIRE,
        engine: str = EMBEDDED.name,
        first_port: int | None = None,
        secret: bool = False,
        map_in_store: bool = False,
        folder: Path | None = None,
        detached: bool = False,
        print_progress: ProgressCallback = ignore_progress,
    ) -> MastersSandbox:
        """Start nodes, and wait until every group has a master.

        Parameters
        ----------
        nodes, groups
            How many.
        lease_seconds, scheme
            See `StoreSettings`.
        engine
            What chooses: `embedded`, or `etcd`, of which three members are started too.
        first_port
            Of the first node, the others follow, and two for each member of etcd; any free ones if None.
        secret
            Whether nodes and clients have to know one, drawn here.
        map_in_store
            Whether the preferred map is published in the store itself; otherwise it is a file that nodes
            watch.
        folder, detached, print_progress
            As in `Sandbox`.

        Raises
        ------
        SandboxError
            If memory, disk or ports are lacking, or a process ends before it is ready.
        """
        if engine not in ENGINES:
            raise SandboxError(f"engine {engine!r} is not known: choose {' or '.join(sorted(ENGINES))}")
        most = ENGINES[engine].max_nodes or MAX_NODES
        if not 1 <= nodes <= most or not 1 <= groups <= MAX_GROUPS:
            raise SandboxError(
                f"{nodes} nodes with {groups} groups cannot be started on engine {engine}: choose 1 to "
                f"{most} nodes and 1 to {MAX_GROUPS} groups"
            )
        settings, members, program = settings_for(lease_seconds, scheme), 0, ""
        if engine == ETCD.name:
            require("masters-etcd")
            members, program = MEMBERS, etcd_program(print_progress)
        memory = nodes * MEMORY_PER_NODE_MB + members * MEMORY_PER_MEMBER_MB
        folder = place_for(f"{nodes} nodes and {members} members of etcd", memory, folder)
        count = nodes + 2 * members
        ports = free_ports(count) if first_port is None else list(range(first_port, first_port + count))
        for port in ports:
            require_free(port)
        state = MastersSandboxState(
            folder=folder,
            cluster_id=uuid4().hex,
            owner=this_process(),
            ports=tuple(ports[:nodes]),
            groups=groups,
            lease_seconds=lease_seconds,
            secret=secret,
            map_in_store=map_in_store,
            etcd_program=program,
            etcd_ports=tuple(ports[nodes:]),
        )
        sandbox = cls(state)
        with sandbox._starting(detached=detached):
            for member in state.members:
                state.node_folder(member.id).mkdir()
                sandbox._spawn(member, outlive=detached)
            sandbox._connect()
            if members:
                print_progress(f"starting {members} members of etcd")
                wait_until_healthy(state.etcd_ports[::2], cls.ready_seconds, sandbox.require_running)
            print_progress(
                f"starting {nodes} nodes; the first masters come after a lease of {lease_seconds:g} s"
            )
            if secret:
                state.secret_file.touch(0o600)
                state.secret_file.write_text(secrets.token_hex(32))
            preferred = [group % nodes for group in range(groups)]
            for node in state.nodes:
                state.node_folder(node.id).mkdir()
                # In the store nothing can be published before its nodes run.
                sandbox._configure(node.id, settings, preferred if map_in_store else [])
            if not map_in_store:
                sandbox.publish(preferred)
            for node in state.nodes:
                sandbox._spawn(node, outlive=detached)
        return sandbox

    @property
    def paxos(self) -> PaxosNodes:
        """The nodes, as commands reach them."""
        return PaxosNodes(PaxosConnection(self.state.configuration(0)))

    def publish(self, preferred: Sequence[int]) -> int:
        """Publish the next version of the preferred map; nodes see it within a second. Its number."""
        return self.change_map(lambda before: preferred)

    def change_map(self, change: Callable[[Sequence[int]], Sequence[int]]) -> int:
        """Publish what a function makes of the newest map; the number of the new version.

        Raises
        ------
        ConnectError
            If the map is in the store, and no majority of it runs.
        """
        nodes, version = self.paxos, None
        while version is None:
            before = nodes.preferred_map()
            version = nodes.publish(before.version, tuple(change(before.preferred)))
        return version

    def masters(self) -> list[int]:
        """The node that counts itself as master of each group; -1 where none does."""
        return masters_of(asyncio.run(query_group_status(self.state.cluster)), self.state.groups)

    def wait_until_serving(self, timeout_seconds: float | None = None) -> None:
        """Wait until every group has a master.

        Raises
        ------
        SandboxError
            If a node ends instead, or time is up.
        """

        def missing() -> str:
            statuses = asyncio.run(query_group_status(self.state.cluster))
            lacking = masters_of(statuses, self.state.groups).count(-1)
            if not lacking:
                return ""
            without_vote = ", ".join(map(str, sorted(statuses.keys() - voters_of(statuses))))
            cause = f" (node {without_vote} has no vote, and waits for all others)" if without_vote else ""
            return f"{lacking} groups have no master{cause}"

        self._wait(missing, timeout_seconds)

    def _connect(self) -> None:
        """Set the network between the processes up, before the nodes start."""

    def _address(self, node: int, other: int, port: int) -> str:
        """The address at which a node finds another process, which listens on this port."""
        return f"127.0.0.1:{port}"

    def _configure(self, node: int, settings: StoreSettings, preferred: list[int]) -> None:
        state = self.state
        document = NodeConfiguration(
            format=CONFIGURATION_FORMAT,
            cluster=state.cluster_id,
            node=node,
            addresses=[self._address(node, other, port) for other, port in enumerate(state.ports)],
            folder=str(state.node_folder(node)),
            groups=state.groups,
            preferred_nodes=preferred,
            map=STORE if state.map_in_store else str(state.map),
            settings=settings,
            secret_file=state.cluster.guard.secret_file,
            engine="etcd" if state.etcd_ports else "embedded",
            etcd=[
                self._address(node, member.id, port)
                for member, port in zip(state.members, state.etcd_ports[::2], strict=True)
            ],
            etcd_election_seconds=state.election_seconds,
        )
        data = msgspec.json.format(msgspec.json.encode(asdict(document)), indent=1)
        write_atomically(state.configuration(node), data)

    @property
    def _declared(self) -> dict[int, StoreNodeProcess]:
        return {node.id: node for node in (*self.state.nodes, *self.state.members)}

    def _title(self, node: StoreNodeProcess) -> str:
        return f"node {node.id}" if node.role == "node" else f"member {node.id} of etcd"

    def _command(self, node: StoreNodeProcess) -> list[str]:
        state = self.state
        if node.role == "etcd":
            member = node.id - len(state.ports)
            return member_command(
                state.etcd_program,
                member,
                state.etcd_ports,
                state.node_folder(node.id),
                state.election_seconds,
            )
        configuration = str(state.configuration(node.id))
        return [sys.executable, "-m", "trimtab", "masters", "node", "--config", configuration]
