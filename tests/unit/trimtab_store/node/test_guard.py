"""TLS and a secret: nodes and clients that have them get on, all others are refused in one line each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.authority import Authority
from support.masters_nodes import (
    cluster_of,
    free_addresses,
    lines_without_pauses,
    node_configuration,
    nodes_running,
    with_log,
)
from trimtab_common.errors import ConnectError, InputError
from trimtab_store.clients.cluster import StoreConfig, masters_of, query_group_status
from trimtab_store.clients.consumer import Consumer
from trimtab_store.clients.producer import Producer
from trimtab_store.connections import PeerIdentity, introduce, message
from trimtab_store.format.configuration import TransportSecurity, names_host
from trimtab_store.format.peer_authentication import FORMAT as WIRE
from trimtab_store.format.peer_authentication import HANDSHAKE_BYTES
from trimtab_store.format.wire import encoded

SECRET, OTHER = "correct horse battery", "wrong horse battery!"
HOST = "127.0.0.1"
STORY_SECONDS = 30.0


def secret_file(folder: Path, secret: str = SECRET) -> str:
    """A file with a secret."""
    path = folder / f"secret-{secret[:5]}"
    path.write_text(secret + "\n")
    return str(path)


def with_tls(authority: Authority, who: str, *hosts: str, secret: str = "") -> TransportSecurity:
    """A guard with a certificate of an authority that names hosts."""
    certificate, key = authority.signed(who, *hosts)
    return TransportSecurity(
        tls_ca=str(authority.ca), tls_certificate=str(certificate), tls_key=str(key), secret_file=secret
    )


@asynccontextmanager
async def running(folder: Path, *guards: TransportSecurity) -> AsyncIterator[StoreConfig]:
    """A node for each guard; the cluster as a client without any knows it."""
    addresses = free_addresses(len(guards))
    given = [
        node_configuration(
            folder,
            node,
            addresses,
            tls_ca=guard.tls_ca,
            tls_certificate=guard.tls_certificate,
            tls_key=guard.tls_key,
            tls_verify_hostname=guard.tls_verify_hostname,
            secret_file=guard.secret_file,
        )
        for node, guard in enumerate(guards)
    ]
    async with nodes_running([with_log(one) for one in given]):
        yield cluster_of(given[0])


async def sent_and_read(cluster: StoreConfig) -> None:
    """Ten messages there and back."""
    async with Producer(cluster, "t") as producer:
        for number in range(10):
            await producer.send(b"%d" % number)
    async with Consumer(cluster, "t", "reader") as consumer:
        assert [int((await consumer.receive()).payload) for _ in range(10)] == [*range(10)]


async def refused(cluster: StoreConfig, sentence: str) -> None:
    """A producer is told why none of its messages is answered."""
    async with Producer(cluster, "t", timeout_seconds=1.0) as producer:
        with pytest.raises(ConnectError, match=sentence):
            await producer.send(b"")


def played(story: Coroutine[Any, Any, None]) -> None:
    """Play a story to its end: a node that takes what it must refuse would be read from for ever."""
    asyncio.run(asyncio.wait_for(story, STORY_SECONDS))


async def told(capsys: pytest.CaptureFixture[str], sentence: str) -> str:
    """Wait for a line on standard error; all until then."""
    found = ""
    async with asyncio.timeout(60):
        while sentence not in found:
            await asyncio.sleep(0.05)
            found += capsys.readouterr().err
    return found


@pytest.mark.parametrize("kind", ["secret", "tls", "both"])
def test_nodes_and_clients_of_one_guard_get_on(tmp_path: Path, kind: str) -> None:
    """Three nodes elect a master over guarded connections, and clients send and read."""
    secret = secret_file(tmp_path) if kind != "tls" else ""
    authority = Authority(tmp_path / "ca")

    def guard(who: str, *hosts: str) -> TransportSecurity:
        return (
            TransportSecurity(secret_file=secret)
            if kind == "secret"
            else with_tls(authority, who, *hosts, secret=secret)
        )

    async def story() -> None:
        async with running(tmp_path, *(guard(f"node-{node}", HOST) for node in range(3))) as open_cluster:
            cluster = replace(open_cluster, guard=guard("client"))
            await sent_and_read(cluster)
            assert masters_of(await query_group_status(cluster), 1) != [-1]
            assert await query_group_status(open_cluster) == {}

    played(story())


@pytest.mark.parametrize(
    ("of_node", "of_client", "line"),
    [
        (SECRET, OTHER, "has another secret: correct its secret_file; refused"),
        (SECRET, "", "gave no proof of the secret: set its secret_file; refused"),
        ("", SECRET, "has a secret, and this node has none: refused"),
    ],
)
def test_a_peer_without_the_secret_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], of_node: str, of_client: str, line: str
) -> None:
    """For any request: it receives nothing, and the node reports it; no secret is in any line."""

    def guard(secret: str) -> TransportSecurity:
        return TransportSecurity(secret_file=secret_file(tmp_path, secret) if secret else "")

    async def story() -> None:
        async with running(tmp_path, guard(of_node)) as cluster:
            await refused(
                replace(cluster, guard=guard(of_client)), "the node closed the connection before it took"
            )
            assert await query_group_status(replace(cluster, guard=guard(of_client))) == {}
            await sent_and_read(replace(cluster, guard=guard(of_node)))

    played(story())
    printed = capsys.readouterr().err
    assert line in printed
    assert "horse" not in printed
    assert len(lines_without_pauses(printed)) <= 10


def test_a_node_that_does_not_know_the_secret_takes_no_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It receives nothing and is ignored; the two others have a majority."""

    async def story() -> None:
        good, bad = (
            TransportSecurity(secret_file=secret_file(tmp_path)),
            TransportSecurity(secret_file=secret_file(tmp_path, OTHER)),
        )
        async with running(tmp_path, good, bad, good) as cluster:
            await sent_and_read(replace(cluster, guard=good))
            printed = await told(capsys, "node 1 has another secret")
            assert "node 0 has another secret" in printed or await told(capsys, "node 0 has another secret")
            standings = await query_group_status(replace(cluster, guard=bad))
            assert [standings[1][0].applied, *standings] == [0, 1]

    played(story())


def plain(_: Authority, __: Authority) -> TransportSecurity:
    """No TLS at all."""
    return TransportSecurity()


def of_another(_: Authority, other: Authority) -> TransportSecurity:
    """All of another authority."""
    return with_tls(other, "client")


def trusting_another(authority: Authority, other: Authority) -> TransportSecurity:
    """A right certificate, and trust in another authority."""
    return replace(with_tls(authority, "client"), tls_ca=str(other.ca))


def signed_by_another(authority: Authority, other: Authority) -> TransportSecurity:
    """The right trust, and a certificate of another authority."""
    return replace(with_tls(other, "client"), tls_ca=str(authority.ca))


@pytest.mark.parametrize(
    ("guard", "sentence", "line"),
    [
        (plain, "not answered", "its TLS does not come about"),
        # These two are refused by the client, which tells the node nothing.
        (of_another, "certificate verify failed", ""),
        (trusting_another, "certificate verify failed", ""),
        (
            signed_by_another,
            "not answered",
            "its TLS does not come about (CERTIFICATE_VERIFY_FAILED): refused",
        ),
    ],
)
def test_a_peer_without_a_certificate_of_the_authority_is_rejected(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    guard: Callable[[Authority, Authority], TransportSecurity],
    sentence: str,
    line: str,
) -> None:
    """On both sides: a client that trusts another authority does not talk to the node, either."""
    authority, other = Authority(tmp_path / "ca"), Authority(tmp_path / "other", "another")

    async def story() -> None:
        async with running(tmp_path, with_tls(authority, "node", HOST)) as cluster:
            await refused(replace(cluster, guard=guard(authority, other)), sentence)
            await told(capsys, line)
            await sent_and_read(replace(cluster, guard=with_tls(authority, "client")))

    played(story())


def test_a_client_with_tls_is_refused_by_a_node_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It still sends nothing in plain text."""

    async def story() -> None:
        async with running(tmp_path, TransportSecurity()) as cluster:
            guard = with_tls(Authority(tmp_path / "ca"), "client")
            await refused(replace(cluster, guard=guard), "not answered")
            await told(capsys, "a connection is closed: what came is no frame")

    played(story())


def test_a_clients_certificate_does_not_make_it_a_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A peer that claims to be a node needs a certificate for its host; so does one that is called."""
    authority = Authority(tmp_path / "ca")

    async def story() -> None:
        good, bad = with_tls(authority, "node", HOST), with_tls(authority, "elsewhere", "elsewhere.example")
        async with running(tmp_path, good, bad) as cluster:
            await told(capsys, f"node 1 has a certificate that does not name {HOST}, its host: refused")
            client = replace(cluster, guard=with_tls(authority, "client"))
            assert list(await query_group_status(client)) == [0]
            unverified = replace(client, guard=replace(client.guard, tls_verify_hostname=False))
            assert sorted(await query_group_status(unverified)) == [0, 1]

    played(story())


class Recorded:
    """Both sides of a connection, as somebody sees them on the wire."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.said, self.heard = b"", b""

    def write(self, data: bytes) -> None:
        """Send, and record."""
        self.said += data
        self._writer.write(data)

    async def readexactly(self, count: int) -> bytes:
        """Hear, and record."""
        data = await self._reader.readexactly(count)
        self.heard += data
        return data


def test_a_recorded_handshake_is_of_no_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither played again to the node, nor the node's own proof sent back; and the secret is not in it."""

    async def story() -> None:
        guard = TransportSecurity(secret_file=secret_file(tmp_path))
        async with running(tmp_path, guard) as cluster:
            while not await query_group_status(replace(cluster, guard=guard)):
                await asyncio.sleep(0.05)
            port = int(cluster.addresses[0].rpartition(":")[2])
            reader, writer = await asyncio.open_connection(HOST, port)
            wire = Recorded(reader, writer)
            await introduce(wire, wire, PeerIdentity("c", "somebody", guard.opened()), 0)  # type: ignore[arg-type]
            writer.close()
            assert SECRET.encode() not in wire.said + wire.heard

            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(wire.said)
            await message(reader, HANDSHAKE_BYTES)
            assert await reader.read() == b""
            writer.close()
            await told(capsys, "client 'somebody' has another secret")

            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(encoded((WIRE, "c", "mirror", 0, b"n" * 32)))
            await message(reader, HANDSHAKE_BYTES)
            writer.write(wire.heard[-len(encoded((b"p" * 32,))) :])
            assert await reader.read() == b""
            writer.close()
            await told(capsys, "client 'mirror' has another secret")

    played(story())


def test_an_impostor_of_a_node_receives_nothing() -> None:
    """A client sends its messages only to peers that prove knowledge of the secret."""

    async def story() -> None:
        came: list[bytes] = []

        async def pose(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await message(reader, HANDSHAKE_BYTES)
            writer.write(encoded((WIRE, b"n" * 32)))
            (proof,) = await message(reader, HANDSHAKE_BYTES)
            writer.write(encoded((proof,)))
            with suppress(asyncio.CancelledError):  # where the client is taken in, the story has ended
                came.append(await reader.read())
            writer.close()

        server = await asyncio.start_server(pose, HOST, 0)
        port = server.sockets[0].getsockname()[1]
        keys = TransportSecurity().opened()
        keys.secret = SECRET.encode()
        reader, writer = await asyncio.open_connection(HOST, port)
        with pytest.raises(InputError, match="node 0 does not know the secret: correct the secret_file"):
            await introduce(reader, writer, PeerIdentity("c", "client", keys), 0)
        writer.close()
        while not came:
            await asyncio.sleep(0.01)
        assert came == [b""]
        server.close()

    played(story())


@pytest.mark.parametrize(
    ("host", "named"),
    [
        ("10.0.0.1", True), ("10.0.0.2", False), ("a.example", True), ("A.EXAMPLE", True),
        ("b.example", False), ("x.w.example", True), ("w.example", False), ("x.y.w.example", False),
        ("::1", True),
    ],
)  # fmt: skip
def test_a_certificate_names_its_hosts(host: str, named: bool) -> None:
    """By its alternative names alone; a star stands for one label."""
    names = (
        ("IP Address", "10.0.0.1"), ("IP Address", "0:0:0:0:0:0:0:1"), ("DNS", "a.example"),
        ("DNS", "*.w.example"),
    )  # fmt: skip
    assert names_host({"subjectAltName": names}, host) == named
    assert not names_host(None, host)
