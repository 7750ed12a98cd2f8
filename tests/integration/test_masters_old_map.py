"""Real node processes of which one does not see the map that the others go by."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from trimtab.lab.sandbox.masters.sandbox import MastersSandbox
from trimtab.systems.paxos.client import PaxosConnection, PaxosNodes
from trimtab.systems.paxos.collector import store_problems

LATE = 2
PATIENCE_SECONDS = 40.0


def until(so: Callable[[], bool], what: str) -> None:
    """Wait for something."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not so():
        assert time.monotonic() < end, f"{what} within {PATIENCE_SECONDS:g} s"
        time.sleep(0.2)


def test_a_node_with_an_old_missing_or_mistyped_map_delays_no_other_group(tmp_path: Path) -> None:
    """The groups behind its own are transferred, it is named, and it takes its group once it reads the map.
    Before, nothing moved in 45 s, without a message.
    """
    with MastersSandbox.start(3, 3, lease_seconds=2.0, folder=tmp_path / "store") as sandbox:
        state = sandbox.state
        configuration, log = state.configuration(LATE), state.node_folder(LATE) / "out.log"
        copy = state.folder / "copy-of-map.json"

        def started_with(path: Path) -> None:
            """Start the node anew, watching this file."""
            told = json.loads(configuration.read_text())
            configuration.write_text(json.dumps({**told, "map": str(path)}))
            if LATE in sandbox.state.alive:
                sandbox.kill(LATE)
            sandbox.restart(LATE)

        # Mistyped: the node ends with a sentence, and the others do not wait for it.
        started_with(state.folder / "mpa.json")
        until(lambda: "mpa.json is not there" in log.read_text(), "the node says that there is no map")
        sandbox.publish([LATE, 1, 1])
        until(lambda: sandbox.masters()[1:] == [1, 1], "groups 1 and 2 are taken over beside a dead node")
        # Old: a copy that nobody renews.
        shutil.copy(state.map, copy)
        started_with(copy)
        until(lambda: sandbox.masters() == [LATE, 1, 1], "the node takes its group over")
        version = sandbox.publish([1, LATE, 0])
        until(lambda: sandbox.masters()[::2] == [1, 0], "groups 0 and 2 are taken over beside an old map")
        assert sandbox.masters()[1] == 1
        others = [state.node_folder(node) / "out.log" for node in (0, 1)]
        told = f"node {LATE} stays at version {version - 1} of the map, node"
        until(lambda: f"node {LATE} stays at version {version - 1}" in log.read_text(), "it says so itself")
        until(lambda: all(told in other.read_text() for other in others), "the others say so")
        nodes = PaxosNodes(PaxosConnection(node=state.configuration(0)))
        problem = f"node {LATE} has version {version - 1} of the map, others have {version}: "
        assert store_problems(nodes.reports())[0].startswith(problem)
        shutil.copy(state.map, copy)
        until(lambda: sandbox.masters() == [1, LATE, 0], "the node takes its group over when it sees the map")
        assert store_problems(nodes.reports()) == []
