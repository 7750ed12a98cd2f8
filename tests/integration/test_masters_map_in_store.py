"""Real node processes on a real etcd that share no file: their preferred map is published in the store
itself.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trimtab.lab.sandbox.masters.sandbox import MastersSandbox, etcd_program
from trimtab.model.errors import SandboxError
from trimtab.systems.paxos.client import PaxosConnection, PaxosNodes
from trimtab_common.errors import ConnectError
from trimtab_store.core.messages import MapChanged
from trimtab_store.core.node import ETCD

PATIENCE_SECONDS = 60.0
ROUNDS = 3


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[MastersSandbox]:
    """Three nodes with two groups, each node with a folder of its own, on three members of etcd."""
    try:
        etcd_program()
    except SandboxError as error:
        pytest.skip(f"no etcd can be had: {error}")
    with MastersSandbox.start(
        3, 2, lease_seconds=4.0, engine=ETCD.name, map_in_store=True, folder=tmp_path / "store"
    ) as running:
        yield running


def until(so: Callable[[], bool], what: str) -> None:
    """Wait for something."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not so():
        assert time.monotonic() < end, f"{what} within {PATIENCE_SECONDS:g} s"
        time.sleep(0.1)


def versions(nodes: PaxosNodes) -> dict[int, int]:
    """The version of the map that each node that answers goes by."""
    return {node: groups[0].map_version for node, groups in nodes.reports().items()}


def on_machine(sandbox: MastersSandbox, node: int, folder: Path, timeout_seconds: float = 5.0) -> PaxosNodes:
    """The store as a program sees it that has the configuration of one node, and nothing else."""
    folder.mkdir(exist_ok=True)
    mine = shutil.copy(sandbox.state.configuration(node), folder / f"node-{node}.json")
    return PaxosNodes(PaxosConnection(Path(mine), timeout_seconds))


def test_machines_share_a_map_without_sharing_a_file(sandbox: MastersSandbox, tmp_path: Path) -> None:
    """Published, followed by a transfer, published again; by two at once; with a node down, and with etcd
    down.
    """
    state = sandbox.state
    first, second = (on_machine(sandbox, node, tmp_path / "machines") for node in (0, 1))
    assert not state.map.exists()
    assert json.loads(state.configuration(0).read_text())["map"] == "store"
    assert first.preferred_map() == MapChanged(1, (0, 1))

    # Published, and published anew: the nodes take over by each.
    for version, preferred in ((2, (1, 2)), (3, (0, 1))):
        assert first.publish(version - 1, preferred) == version
        until(lambda preferred=preferred: sandbox.masters() == list(preferred), f"{preferred} are masters")  # type: ignore[misc]
    assert second.preferred_map() == MapChanged(3, (0, 1))
    assert first.publish(2, (0, 0)) is None and second.preferred_map().version == 3

    # Two at once, each over what it has read: one of them, and the other is told.
    with ThreadPoolExecutor(2) as pool:
        for base in range(3, 3 + ROUNDS):
            wanted = [(node, base % 2) for node in range(2)]
            tries = zip((first, second), wanted, strict=True)
            answers = [
                one.result() for one in [pool.submit(by.publish, base, preferred) for by, preferred in tries]
            ]
            won = [
                preferred for preferred, version in zip(wanted, answers, strict=True) if version is not None
            ]
            assert sorted(answers, key=bool) == [None, base + 1]
            assert first.preferred_map() == second.preferred_map() == MapChanged(base + 1, won[0])
        list(pool.map(lambda one: one[0].change_claims([one[1]], []), ((first, "one"), (second, "two"))))
    assert first.claims() == second.claims() == {"one", "two"}
    second.change_claims(["three"], ["one", "two"])
    assert first.claims() == {"three"}

    # A node that is master of nothing is away while a map is published, and goes by it when it is back.
    base = first.preferred_map().version
    sandbox.kill(2)
    assert first.publish(base, (1, 0)) == base + 1
    until(lambda: sandbox.masters() == [1, 0], "the living go by the map")
    sandbox.restart(2)
    until(lambda: versions(first) == {0: base + 1, 1: base + 1, 2: base + 1}, "the node learns the map")

    # etcd is away: nothing is published, the nodes know what they knew, and all of it comes back.
    base, members = base + 1, [one.id for one in state.members[:2]]
    for member in members:
        sandbox.kill(member)
    with pytest.raises(
        ConnectError,
        match=r"was not changed within 1 s by any node \(.*: it answers, and nothing was chosen.*\): a "
        r"majority of the members of etcd must run, and nodes must reach them; the change may still come",
    ):
        on_machine(sandbox, 0, tmp_path / "machines", 1.0).publish(base, (2, 2))
    assert first.preferred_map() == second.preferred_map() == MapChanged(base, (1, 0))
    logs = [state.node_folder(node) / "out.log" for node in range(3)]
    until(lambda: all("a majority of its members must run" in log.read_text() for log in logs), "all say so")
    for member in members:
        sandbox.restart(member)

    def published() -> bool:
        """Whether a map was published, by us or by what was asked for while etcd was away."""
        try:
            return first.publish(first.preferred_map().version, (2, 2)) is not None
        except ConnectError:
            return False

    until(published, "a map is published")
    # What was asked for while etcd was away may have come first.
    assert first.preferred_map() in (MapChanged(base + 1, (2, 2)), MapChanged(base + 2, (2, 2)))
    until(lambda: sandbox.masters() == [2, 2], "the nodes go by it")
