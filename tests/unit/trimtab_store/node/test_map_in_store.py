"""A real node in this process with its preferred map in the store, and programs that publish there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from support.masters_nodes import free_addresses, node_configuration, nodes_running, with_log
from trimtab.act.lease import Lease
from trimtab.cli.masters import app
from trimtab.model.errors import ActError
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.systems.paxos.client import PaxosConnection, PaxosNodes
from trimtab.systems.paxos.port import PaxosPort, store_findings
from trimtab_common.errors import ConnectError, InputError
from trimtab_store.core.messages import CLAIM_BYTES, MapChanged
from trimtab_store.format.configuration import STORE, NodeConfiguration, write_map


def written(folder: Path, given: NodeConfiguration) -> PaxosConnection:
    """A connection by a configuration."""
    path = folder / "node.json"
    path.write_bytes(msgspec.json.encode(asdict(given)))
    return PaxosConnection(path, timeout_seconds=1.0)


def beside(
    folder: Path, story: Callable[[NodeConfiguration], Coroutine[Any, Any, None]], nodes: int = 1, **more: Any
) -> None:
    """Run a story beside the first node of a cluster whose other nodes are away."""
    addresses = free_addresses(nodes)
    given = with_log(node_configuration(folder, 0, addresses, lease_seconds=1.0, **{"map": STORE, **more}))

    async def both() -> None:
        async with nodes_running([given]):
            await asyncio.sleep(0.1)
            await story(given)

    asyncio.run(both())


def test_a_first_map_is_missed_and_published_by_a_command(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The node reports after a lease that there is none, and so does `check`; an old version is rejected."""

    async def story(given: NodeConfiguration) -> None:
        connection = written(tmp_path, given)
        nodes = PaxosNodes(connection)

        def found() -> str:
            findings = store_findings(connection, CollectSettings(), CapacitySettings())
            return " ".join(one.text for one in findings)

        def typed(version: int, *preferred: int) -> str:
            write_map(tmp_path / "map.json", MapChanged(version, preferred))
            done = CliRunner().invoke(
                app, ["publish", str(tmp_path / "map.json"), "--cluster", f"paxos:{connection.node}"]
            )
            return done.output if done.exception is None else str(done.exception)

        told = ""
        async with asyncio.timeout(30.0):
            while "node 0 finds no preferred map in the store" not in told:
                await asyncio.sleep(0.1)
                told += capfd.readouterr().err
        assert "publish a map with `trimtab apply` or `trimtab masters publish`" in told
        assert "none is published in the store" in await asyncio.to_thread(found)
        assert "version 7 of the map of store c is published" in await asyncio.to_thread(typed, 7, -1)
        assert await asyncio.to_thread(nodes.preferred_map) == MapChanged(7, (-1,))
        assert "version 7 of the preferred map, in the store" in await asyncio.to_thread(found)
        assert await asyncio.to_thread(typed, 7, 0) == (
            f"{tmp_path / 'map.json'} has version 7, and version 7 is published in store c: build on that "
            "one, and give the new map version 8 or higher"
        )
        assert await asyncio.to_thread(nodes.preferred_map) == MapChanged(7, (-1,))

    beside(tmp_path, story)


def test_a_map_in_a_file_is_published_over_its_version_too(tmp_path: Path) -> None:
    """By the same calls, without a node; and the claims are stored with it."""
    given = node_configuration(
        tmp_path, 0, ["127.0.0.1:1"], map=str(tmp_path / "watched.json"), preferred_nodes=[0]
    )
    nodes = PaxosNodes(written(tmp_path, given))
    assert nodes.preferred_map() == MapChanged(1, (0,))
    assert nodes.publish(0, (-1,)) is None and nodes.publish(1, (-1,)) == 2
    write_map(tmp_path / "map.json", MapChanged(9, (0,)))
    assert nodes.publish_file(tmp_path / "map.json") == 9 and nodes.preferred_map() == MapChanged(9, (0,))
    with pytest.raises(InputError, match="has version 9, and version 9 is published in store c: build on"):
        nodes.publish_file(tmp_path / "map.json")
    nodes.change_claims(["one", "two"], [])
    nodes.change_claims([], ["one"])
    assert nodes.claims() == {"two"}


def test_nodes_that_do_not_read_the_map_from_the_store_are_named(tmp_path: Path) -> None:
    """Before anything is published: a node with another `map`, or with another number of groups."""

    async def elsewhere(given: NodeConfiguration) -> None:
        nodes = PaxosNodes(written(tmp_path, replace(given, map=STORE)))
        for call in (nodes.preferred_map, nodes.claims, lambda: nodes.publish(0, (0,))):
            with pytest.raises(
                ConnectError, match=r"node 0 of store c does not read its map in the store and"
            ):
                await asyncio.to_thread(call)

    async def other_groups(given: NodeConfiguration) -> None:
        nodes = PaxosNodes(written(tmp_path, replace(given, groups=2)))
        with pytest.raises(
            ConnectError,
            match=r'has 1 groups, expected "map": "store" and 2 groups as in .*node.json: give all',
        ):
            await asyncio.to_thread(nodes.publish, 0, (0, 0))

    beside(tmp_path / "elsewhere", elsewhere, map="")
    beside(tmp_path / "groups", other_groups)


def test_without_a_majority_a_publisher_learns_which_nodes_must_run(tmp_path: Path) -> None:
    """And that the request may still succeed; the node still reports the map of its configuration."""

    async def story(given: NodeConfiguration) -> None:
        nodes = PaxosNodes(written(tmp_path, given))
        with pytest.raises(
            ConnectError,
            match=r"the map of store c was not changed within 1 s by any node \(127.0.0.1:\d+: it answers, "
            r"and nothing was chosen\): a majority of the 2 nodes must run and reach one another; the change",
        ):
            await asyncio.to_thread(nodes.publish, 1, (1,))
        assert await asyncio.to_thread(nodes.preferred_map) == MapChanged(1, (0,))
        assert await asyncio.to_thread(nodes.publish, 0, (1,)) is None

    beside(tmp_path, story, nodes=2, preferred_nodes=[0])


def test_an_execution_keeps_others_out_by_its_claim_in_the_store(tmp_path: Path) -> None:
    """From another state folder, as from another machine; once it has ended, the next one may act."""

    async def story(given: NodeConfiguration) -> None:
        port = PaxosPort(PaxosNodes(written(tmp_path, given)))
        one, other = (
            Lease(port, tmp_path / name, "c", 60.0, time.time, time.sleep, name) for name in ("one", "other")
        )
        assert await asyncio.to_thread(one.acquire) == []
        with pytest.raises(ActError, match=r"is acting on cluster c: wait until it is through"):
            await asyncio.to_thread(other.acquire)
        await asyncio.to_thread(one.release)
        assert await asyncio.to_thread(port.read_claims) == frozenset()
        assert await asyncio.to_thread(other.acquire) == []
        await asyncio.to_thread(other.release)

    beside(tmp_path, story)


def test_a_publisher_over_an_outdated_version_gets_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another map was published between its observation and its proposal: that one stays, and
    this one fails.
    """

    async def story(given: NodeConfiguration) -> None:
        nodes = PaxosNodes(written(tmp_path, given))
        looked_at = await asyncio.to_thread(nodes._published)
        assert await asyncio.to_thread(nodes.publish, 0, (-1,)) == 1
        monkeypatch.setattr(nodes, "_published", lambda: looked_at)
        assert await asyncio.to_thread(nodes.publish, 0, (0,)) is None
        assert await asyncio.to_thread(nodes.publish, 0, (0,), 7) is None
        monkeypatch.undo()
        assert await asyncio.to_thread(nodes.preferred_map) == MapChanged(1, (-1,))

    beside(tmp_path, story)


def test_claims_are_stored_with_the_map_and_have_a_limit(tmp_path: Path) -> None:
    """One that would be too large is refused with both sizes, and nothing is changed."""

    async def story(given: NodeConfiguration) -> None:
        nodes = PaxosNodes(written(tmp_path, given))
        change = nodes.change_claims
        await asyncio.to_thread(change, ["one", "two"], [])
        await asyncio.to_thread(change, ["three", "four"], ["one", "four"])
        assert await asyncio.to_thread(nodes.claims) == {"two", "three"}
        with pytest.raises(ConnectError, match=r"of store c would take 65,\d+ bytes \(limit 65,536\): wait"):
            await asyncio.to_thread(change, ["x" * CLAIM_BYTES], [])
        assert await asyncio.to_thread(nodes.claims) == {"two", "three"}

    beside(tmp_path, story)
