"""Commands of a sandbox of a store: start, describe, load, kill, restart and move."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence
from typing import Final

from trimtab.jars import ProgressCallback
from trimtab.lab.sandbox.masters.clients import StoreClients, StoreViolation
from trimtab.lab.sandbox.masters.sandbox import MastersSandbox, MastersSandboxState
from trimtab.lab.sandbox.systems import SandboxSystem, command
from trimtab.model.errors import SandboxError
from trimtab_common.errors import ConnectError
from trimtab_store.clients.cluster import masters_of, query_group_status, voters_of

SECONDS_BETWEEN_PROGRESS: Final = 10.0
SETTLE_SECONDS: Final = 120.0


def describe(state: MastersSandboxState) -> str:
    """The nodes of the sandbox and the master of each group, as lines of text."""
    standings = asyncio.run(query_group_status(state.cluster))
    masters = masters_of(standings, state.groups)
    preferred, told = _preferred(state)
    lines = [
        f"cluster   {state.cluster_id}",
        f"engine    {state.engine}",
        f"lease     {state.lease_seconds:g} s",
        f"map       {told}",
        f"folder    {state.folder}",
        "",
        "node  address          pid      masterships",
    ]
    for node, address in enumerate(state.cluster.addresses):
        process = state.alive.get(node)
        pid, held = (process.pid, str(masters.count(node))) if process else ("-", "not running")
        if node in standings and node not in voters_of(standings):
            held += ", no vote yet"
        lines.append(f"{node:4}  {address:15}  {pid:<7}  {held}")
    for member, port in zip(state.members, state.etcd_ports[::2], strict=True):
        process = state.alive.get(member.id)
        pid, what = (process.pid, "member of etcd") if process else ("-", "not running")
        address = f"127.0.0.1:{port}"
        lines.append(f"{member.id:4}  {address:15}  {pid:<7}  {what}")
    lines += ["", "group  master  preferred  messages"]
    for group, (master, wanted) in enumerate(zip(masters, preferred, strict=True)):
        messages = max((there[group].messages for there in standings.values() if group in there), default=0)
        shown = ["none" if master < 0 else str(master), "any" if wanted < 0 else str(wanted)]
        lines.append(f"{group:5}  {shown[0]:>6}  {shown[1]:>5}  {messages:,}")
    return "\n".join(lines)


def _preferred(state: MastersSandboxState) -> tuple[tuple[int, ...], str]:
    """The preferred map, and where it is; with -1 for all groups where it is in the store and no node
    answers.
    """
    try:
        version, preferred = MastersSandbox(state).paxos.preferred_map()
    except ConnectError as error:
        if not state.map_in_store:
            raise
        return (-1,) * state.groups, f"in the store, not known: {error}"
    return preferred, f"{'in the store' if state.map_in_store else state.map}, version {version}"


def kill(state: MastersSandboxState, node: int) -> str:
    """Kill a node with -9; the consequences in one line."""
    sandbox = MastersSandbox(state)
    sandbox.kill(node)
    member = node >= len(state.ports)
    killed = f"member {node} of etcd is killed" if member else f"node {node} is killed"
    lacking = _lacking(sandbox.state)
    if lacking:
        return f"{killed}; {lacking}. Acknowledged messages stay in their logs"
    if member:
        return f"{killed}; the others go on, after an election if it led them"
    within = 1.25 * state.lease_seconds
    return (
        f"{killed}; its groups get other masters within about {within:g} s, and no acknowledged "
        "message is lost"
    )


def restart(state: MastersSandboxState, node: int) -> str:
    """Restart a killed node; the consequences in one line."""
    sandbox = MastersSandbox(state)
    sandbox.restart(node)
    lacking = _lacking(sandbox.state)
    if node >= len(state.ports):
        return f"member {node} of etcd is started on its data" + (f"; {lacking}" if lacking else "")
    its = "what etcd holds" if state.members else "its log"
    if lacking:
        return f"node {node} is started on {its}; {lacking}"
    return (
        f"node {node} is started on {its}; it takes over no group for "
        f"{state.lease_seconds:g} s, and then the groups that the map gives it"
    )


def _lacking(state: MastersSandboxState) -> str:
    """Why no group can have a master, and the remedy; empty if enough processes run."""
    kinds = [("members of etcd", state.members, len(state.members) // 2 + 1)] if state.members else []
    kinds.append(("nodes", state.nodes, 1 if state.members else len(state.nodes) // 2 + 1))
    for what, declared, needed in kinds:
        stopped = [one.id for one in declared if one.id not in state.alive]
        if len(declared) - len(stopped) < needed:
            again = command(state.system, state.folder.name, f"restart {stopped[0]}")
            return (
                f"{len(declared) - len(stopped)} of {len(declared)} {what} run, and a group can have a "
                f"master only while {needed} or more do: start it again with {again}"
            )
    return ""


def move(state: MastersSandboxState, group: int, node: int) -> str:
    """Publish a map that gives a group to another node; the result in one line.

    Raises
    ------
    SandboxError
        If there is no such group or node.
    """
    if not 0 <= group < state.groups or not 0 <= node < len(state.ports):
        raise SandboxError(
            f"group {group} cannot be given to node {node}: groups are 0 to {state.groups - 1}, nodes 0 to "
            f"{len(state.ports) - 1}"
        )

    def change(before: Sequence[int]) -> Sequence[int]:
        return [*before[:group], node, *before[group + 1 :]]

    version = MastersSandbox(state).change_map(change)
    return f"version {version} of the map gives group {group} to node {node}, which takes it over soon"


def load(
    state: MastersSandboxState,
    seed: int,
    rate: float,
    seconds: float | None,
    size: int,
    print_progress: ProgressCallback,
) -> tuple[str, bool]:
    """Send to a topic of every group and read it until time is up or Ctrl-C; then compare.

    Parameters
    ----------
    rate
        Messages a second, over all topics.
    size
        Bytes of a message.

    Returns
    -------
    tuple[str, bool]
        A line on what came of it, and whether all held.
    """
    clients = StoreClients(state.cluster, seed, size=size)
    print_progress(f"{rate:g} messages a second to {state.groups} topics, one a group; Ctrl-C stops")
    begun = time.monotonic()
    try:
        asyncio.run(_load(clients, rate / state.groups, seconds, print_progress))
        for ledger in clients.ledgers.values():
            ledger.audit()
    except StoreViolation as error:
        return f"broken: {error}", False
    waits = sorted(clients.waits)
    if not waits:
        return "no message was acknowledged: check that the groups have masters", False
    median, most = waits[len(waits) // 2] * 1000, waits[len(waits) * 99 // 100] * 1000
    return (
        f"{len(waits):,} messages sent in {time.monotonic() - begun:.0f} s, all of them acknowledged, and "
        f"read back once and in each producer's order; acknowledged in {median:.1f} ms in the median, 99 % "
        f"within {most:.0f} ms, all within {waits[-1]:.2f} s"
    ), True


async def _load(
    clients: StoreClients, rate: float, seconds: float | None, print_progress: ProgressCallback
) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, clients.stopping.set)
    if seconds is not None:
        loop.call_later(seconds, clients.stopping.set)
    begun = shown = loop.time()

    def summary() -> None:
        nonlocal shown
        if loop.time() >= shown + SECONDS_BETWEEN_PROGRESS:
            shown = loop.time()
            print_progress(f"{shown - begun:.0f} s: {len(clients.waits):,} messages acknowledged")

    try:
        async with asyncio.TaskGroup() as tasks:
            for topic in clients.ledgers:
                tasks.create_task(clients.produce(topic, rate, summary))
                tasks.create_task(clients.consume(topic, 30.0))
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    for topic in clients.ledgers:
        await clients.read_all(topic, SETTLE_SECONDS)


MASTERS: Final = SandboxSystem(
    state=MastersSandboxState,
    start=lambda **options: MastersSandbox.start(detached=True, **options).state,
    describe=describe,
    steps=(
        ("load", "send to every group and read it back, until Ctrl-C"),
        ("kill 1", "kill a node while that goes on"),
        ("move 0 2", "give the mastership of group 0 to node 2"),
    ),
    verbs={"load": load, "kill": kill, "restart": restart, "move": move},
)
