"""Nodes of other settings, another version or the same number are refused, and both sides say so."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.masters_nodes import cluster_of, free_addresses, node_configuration, nodes_running, with_log
from trimtab.lab.sandbox.masters.sandbox import settings_for
from trimtab.lab.sandbox.processes import free_ports
from trimtab_common.errors import InputError
from trimtab_store.clients.cluster import StoreConfig, masters_of, query_group_status
from trimtab_store.clients.consumer import Consumer
from trimtab_store.clients.producer import Producer
from trimtab_store.connections import PeerIdentity, PeerRegistry, introduce, message
from trimtab_store.core.settings import TransferScheme
from trimtab_store.format.configuration import NodeConfiguration, TransportSecurity
from trimtab_store.format.peer_authentication import FORMAT as WIRE
from trimtab_store.format.peer_authentication import (
    HANDSHAKE_BYTES,
    NONCE_BYTES,
    agree,
    differences,
    rejection_frame,
)
from trimtab_store.format.wire import encoded

HOST = "127.0.0.1"
STORY_SECONDS = 30.0
OLD = ("trimtab/masters-wire/2", "c", "somebody", 0, b"n" * NONCE_BYTES)


def configurations(folder: Path, nodes: int = 3) -> list[NodeConfiguration]:
    """Of nodes on this machine."""
    addresses = free_addresses(nodes)
    return [node_configuration(folder, node, addresses) for node in range(nodes)]


@asynccontextmanager
async def running(*given: NodeConfiguration) -> AsyncIterator[StoreConfig]:
    """A process for each; the cluster as the first of them knows it."""
    async with asyncio.timeout(STORY_SECONDS), nodes_running(given):
        yield cluster_of(given[0])


async def told(capsys: pytest.CaptureFixture[str], *sentences: str) -> None:
    """Wait until all of them stand on standard error."""
    found = ""
    while not all(one in found for one in sentences):
        await asyncio.sleep(0.05)
        found += capsys.readouterr().err


def test_a_node_of_other_settings_takes_no_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would count other terms: it hears why, so do the others, and they have a majority."""

    async def story() -> None:
        given = configurations(tmp_path)
        given[1] = replace(given[1], settings=replace(settings_for(1.5), cycle_seconds=4.0))
        async with running(*map(with_log, given)) as cluster:
            async with Producer(cluster, "t") as producer:
                await producer.send(b"1")
            told_why = (
                "settings of node {} differ from those of node {} (lease_seconds {} instead of {}): use the"
            )
            await told(
                capsys,
                "a connection is closed: " + told_why.format(1, 0, 1.5, 2),
                "a connection is closed: " + told_why.format(0, 1, 2, 1.5),
                "take part everywhere: node 0 refuses: " + told_why.format(1, 0, 1.5, 2),
                "take part everywhere: node 1 refuses: " + told_why.format(2, 1, 2, 1.5),
            )
            standings = await query_group_status(cluster)
            assert [standings[node][0].applied > 0 for node in range(3)] == [True, False, True]

    asyncio.run(story())


def test_a_node_without_a_log_names_the_nodes_it_waits_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new cluster needs all of its nodes once; then each has its vote, and reports it if it had to wait."""

    async def story() -> None:
        given = configurations(tmp_path)
        async with running(given[0]):
            why = "and has no vote there until all other nodes have answered and it has caught up"
            await told(capsys, f"node 0 started without 2 logs, {why}: node 1 has not answered")
            async with running(*given[1:]) as cluster:
                await told(capsys, "node 0 votes in all groups")
                async with Producer(cluster, "t") as producer:
                    await producer.send(b"1")

    asyncio.run(story())


def test_a_follower_whose_folder_was_emptied_may_be_needed_for_the_next_majority(tmp_path: Path) -> None:
    """It starts empty, learns its entries, votes again and reports it: then the master may end."""

    async def story() -> None:
        given = [replace(one, preferred_nodes=[0]) for one in configurations(tmp_path)]
        file, said = tmp_path / "node.json", tmp_path / "said.txt"
        file.write_bytes(msgspec.json.encode(asdict(given[1])))

        @asynccontextmanager
        async def follower() -> AsyncIterator[None]:
            """In a process of its own, whose connections end with it."""
            said.write_text("")
            command = sys.executable, "-m", "trimtab", "masters", "node", "--config", str(file)
            with said.open("a") as output:
                process = await asyncio.create_subprocess_exec(*command, stderr=output)
            try:
                while "node 1 votes in all groups" not in said.read_text():
                    await asyncio.sleep(0.1)
                yield
            finally:
                process.kill()
                await process.wait()

        async with asyncio.timeout(STORY_SECONDS), nodes_running([given[0], given[2]]) as tasks:
            cluster = cluster_of(given[0])
            async with follower(), Producer(cluster, "t") as producer:
                await producer.send(b"1")
                assert masters_of(await query_group_status(cluster), 1) == [0]
            shutil.rmtree(given[1].folder)
            async with follower():
                tasks[0].cancel()
                async with Producer(cluster, "t") as producer, Consumer(cluster, "t", "reader") as consumer:
                    await producer.send(b"2")
                    assert [(await consumer.receive()).payload for _ in range(2)] == [b"1", b"2"]

    asyncio.run(story())


def test_differing_settings_are_named(tmp_path: Path) -> None:
    """Each with both values; texts of a stranger are shortened and escaped."""
    one = configurations(tmp_path)[0]
    other = replace(
        one, groups=7, addresses=[*one.addresses, "h:1"], settings=settings_for(2.0, TransferScheme.INSTATE)
    )
    theirs, ours = dict(other.shared), dict(one.shared)
    assert differences(theirs, ours) == "nodes 4 instead of 3, groups 7 instead of 1, scheme 4 instead of 3"
    assert differences({}, {"drift": 0.005}) == "drift none instead of 0.005"
    assert differences({"\x1b[31m" + "x" * 100: "\n"}, {}) == "[31m" + "x" * 27 + "  instead of none"
    hello: tuple[Any, ...] = (WIRE, "c", 1, 0, b"", 7, one.shared)
    agree(hello, one.shared, 0)
    odds: tuple[Any, ...] = (((1,),), (([], 1),), (7,))
    for odd in odds:
        with pytest.raises(InputError, match=f"did not begin as {WIRE} does: refused"):
            agree((*hello[:6], odd), one.shared, 0)


@pytest.mark.parametrize("secret", [b"", b"correct horse battery"])
def test_an_older_version_hears_why_it_is_refused(tmp_path: Path, secret: bytes) -> None:
    """It takes any such answer for another version; a stranger to a secret hears of nothing else."""

    async def story() -> None:
        (tmp_path / "secret").write_bytes(secret)
        given = replace(
            configurations(tmp_path, 1)[0], secret_file=str(tmp_path / "secret") if secret else ""
        )
        async with running(given) as cluster:
            while not await query_group_status(replace(cluster, guard=given.guard)):
                await asyncio.sleep(0.05)

            async def answered(hello: tuple[Any, ...]) -> Any:
                host, _, port = cluster.addresses[0].rpartition(":")
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(encoded(hello))
                try:
                    return await message(reader, HANDSHAKE_BYTES)
                except asyncio.IncompleteReadError:
                    return None
                finally:
                    writer.close()

            form, why = await answered(OLD)
            assert form == WIRE
            assert why.startswith(
                "a connection began in trimtab/masters-wire/2, expected trimtab/masters-wire/5"
            )
            other = await answered((WIRE, "other", *OLD[2:]))
            assert other == (
                None if secret else (WIRE, "client 'somebody' is of cluster 'other', expected 'c': refused")
            )
            assert await answered(("http", *OLD[1:])) is None

    asyncio.run(story())


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (
            b"",
            "node 2 closed the connection without an answer: probably another version of trimtab runs there",
        ),
        (encoded((OLD[0], b"n" * NONCE_BYTES)), f"node 2 does not speak {WIRE}: run the same version"),
        (encoded(("trimtab/masters-wire/6", "no\x1b[31m")), r"node 2 refuses: no\[31m$"),
        (rejection_frame("é" * 2000), "node 2 refuses: éé"),
    ],
)
def test_a_caller_reports_the_version_that_answers(answer: bytes, sentence: str) -> None:
    """Also of those that close without a word, as older ones do."""

    async def story() -> None:
        async def node(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await message(reader, HANDSHAKE_BYTES)
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(node, HOST, 0)
        reader, writer = await asyncio.open_connection(HOST, server.sockets[0].getsockname()[1])
        with pytest.raises(InputError, match=sentence):
            await introduce(reader, writer, PeerIdentity("c", "client", TransportSecurity().opened()), 2)
        writer.close()
        server.close()

    asyncio.run(story())


def test_a_second_process_of_a_node_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would vote twice: the existing one stays, and both sides report the error."""

    async def story() -> None:
        given = configurations(tmp_path)
        addresses = [given[0].addresses[0], f"{HOST}:{free_ports(1)[0]}", given[0].addresses[2]]
        twin = replace(given[1], addresses=addresses, folder=str(tmp_path / "twin"))
        async with running(*given) as cluster:
            async with Producer(cluster, "t") as producer:
                await producer.send(b"1")
            async with running(twin):
                why = f"node 1 runs twice: one process is connected from {HOST}, another calls from {HOST}"
                await told(
                    capsys,
                    f"a connection is closed: {why}",
                    f"this node does not take part everywhere: node 0 refuses: {why}",
                    f"this node does not take part everywhere: node 2 refuses: {why}",
                )
            # The first of them goes: then the other is as good as a node that was started anew.
        async with running(given[0], twin, given[2]) as cluster, Producer(cluster, "t") as producer:
            await producer.send(b"2")

    asyncio.run(story())


class Line:
    """A connection that is only looked at."""

    def __init__(self, host: str) -> None:
        self.host, self.closed = host, False

    def get_extra_info(self, name: str) -> tuple[str, int] | None:
        """Where it comes from."""
        assert name == "peername"
        return (self.host, 1) if self.host else None

    def close(self) -> None:
        """End it."""
        self.closed = True


def test_a_later_incarnation_replaces_one_that_is_unresponsive_or_ended() -> None:
    """A connection that lingers makes room; when its process is there after all, that one is refused."""
    now = 0.0
    lives = PeerRegistry(5.0, lambda: now)
    first, again, second, third = Line("a"), Line("a"), Line("b"), Line("")
    lives.admit(1, 7, first)  # type: ignore[arg-type]
    lives.admit(1, 7, again)  # type: ignore[arg-type]
    lives.left(1, first)  # type: ignore[arg-type]
    lives.admit(2, 9, Line("c"))  # type: ignore[arg-type]
    now = 4.0
    lives.record_activity(1)
    lives.record_activity("client")
    now = 8.9
    with pytest.raises(
        InputError, match="node 1 runs twice: one process is connected from a, another .* from b:"
    ):
        lives.admit(1, 8, second)  # type: ignore[arg-type]
    now = 9.0
    lives.admit(1, 8, second)  # type: ignore[arg-type]
    assert again.closed and not second.closed
    with pytest.raises(InputError, match="connected from b, another calls from an address that is not known"):
        lives.admit(1, 7, third)  # type: ignore[arg-type]
    lives.left(1, again)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="node 1 runs twice"):
        lives.admit(1, 7, third)  # type: ignore[arg-type]
    lives.left(1, second)  # type: ignore[arg-type]
    lives.admit(1, 7, third)  # type: ignore[arg-type]
