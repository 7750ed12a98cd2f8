"""Connections between nodes and clients: the handshake, the registry of peers, and links that reconnect.

By the handshake both sides prove that they know the secret of the cluster, and compare the settings that all
nodes must have in common.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from trimtab_common.errors import InputError
from trimtab_store.format.configuration import Shared, TlsMaterial, names_host
from trimtab_store.format.peer_authentication import (
    FORMAT,
    HANDSHAKE_BYTES,
    NONCE_BYTES,
    agree,
    answer_to,
    called,
    hello_of,
    identify,
    incarnation_of,
    may_learn_reason,
    proof,
    rejection_frame,
    right,
    verify_proof,
)
from trimtab_store.format.wire import (
    FRAME_HEAD,
    MAX_FRAME_BYTES,
    TornFrameError,
    checked_message,
    decoded,
    encoded,
)


@dataclass(slots=True)
class PeerConnection:
    """The connection of a peer, with the incarnation that opened it."""

    incarnation: int
    writer: asyncio.StreamWriter
    last_activity_at: float


class PeerRegistry:
    """The incarnation of each other node that is connected to this node.

    A restarted node has another incarnation. The connection of the earlier one may linger, as after a power
    failure; it is silent, and is replaced. An active connection stays, and the other one is rejected.

    Parameters
    ----------
    idle_seconds
        Time of silence after which a node counts as gone; nodes send heartbeats more often.
    """

    def __init__(self, idle_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._unreachable, self._clock = idle_seconds, clock
        self._connections: dict[int | str, PeerConnection] = {}

    def admit(self, node: int, incarnation: int, writer: asyncio.StreamWriter) -> None:
        """Register the connection of a node.

        Raises
        ------
        InputError
            If another incarnation of it has an active connection.
        """
        now, there = self._clock(), self._connections.get(node)
        if there is not None and there.incarnation != incarnation:
            if now - there.last_activity_at < self._unreachable:
                raise InputError(
                    f"node {node} runs twice: one process is connected from {_host(there.writer)}, another "
                    f"calls from {_host(writer)}: stop one of them, or correct its number (node); refused"
                )
            there.writer.close()
        self._connections[node] = PeerConnection(incarnation, writer, now)

    def record_activity(self, who: int | str) -> None:
        """Record activity of a peer. Clients are not tracked."""
        seat = self._connections.get(who)
        if seat is not None:
            seat.last_activity_at = self._clock()

    def left(self, who: int | str | None, writer: asyncio.StreamWriter) -> None:
        """Forget a connection that has ended."""
        if who is not None and who in self._connections and self._connections[who].writer is writer:
            del self._connections[who]


def _host(writer: asyncio.StreamWriter) -> str:
    host, *_ = writer.get_extra_info("peername") or ("an address that is not known",)
    return str(host)


HANDSHAKE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class PeerIdentity:
    """One side of connections.

    Attributes
    ----------
    cluster
        Name of the cluster.
    peer
        The number of a node, or the name of a client.
    keys
        Its TLS files and secret.
    incarnation
        Of a node: a number that no other process of it has.
    shared
        Of a node: the settings that all nodes must have in common.
    """

    cluster: str
    peer: int | str
    keys: TlsMaterial
    incarnation: int = 0
    shared: Shared = ()


async def message(reader: asyncio.StreamReader, most_bytes: int) -> Any:
    """The next message of a connection.

    Raises
    ------
    TornFrameError, InputError
        If it is too long, or is no frame.
    IncompleteReadError, OSError
        If the connection ends.
    """
    length, crc = FRAME_HEAD.unpack(await reader.readexactly(FRAME_HEAD.size))
    if length > most_bytes:
        raise TornFrameError
    return decoded(await reader.readexactly(length), crc)


async def introduce(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, speaker: PeerIdentity, to: int
) -> None:
    """Start a connection to a node.

    Raises
    ------
    InputError
        If the node is another one, or rejects the connection.
    TornFrameError, IncompleteReadError, OSError
        If it uses another protocol, or the connection ends.
    """
    hello = hello_of(speaker.cluster, speaker.peer, to, speaker.incarnation, speaker.shared)
    writer.write(encoded(hello))
    try:
        challenge = await message(reader, HANDSHAKE_BYTES)
    except asyncio.IncompleteReadError:
        # So do versions before the third, and nodes with a secret where the cluster is another one.
        raise InputError(
            f"node {to} closed the connection without an answer: probably another version of trimtab runs "
            "there, or a node of another cluster; it says why on its side"
        ) from None
    writer.write(answer_to(hello, challenge, speaker.keys.secret, to))
    verify_proof(await message(reader, HANDSHAKE_BYTES), hello, challenge, speaker.keys.secret, to)


async def meet(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    speaker: PeerIdentity,
    addresses: Sequence[str],
    incarnations: PeerRegistry,
) -> int | str:
    """Accept a connection to a node; the name of the peer.

    Raises
    ------
    InputError
        If the peer is of another version or cluster, calls another node, has no proof of its name, or is a
        node with other settings or a running incarnation. The peer gets the reason, unless it is secret.
    TornFrameError, IncompleteReadError, OSError
        If it uses another protocol, or the connection ends.
    """
    hello = await message(reader, HANDSHAKE_BYTES)
    secret = speaker.keys.secret
    try:
        assert isinstance(speaker.peer, int)
        who = identify(hello, speaker.cluster, speaker.peer, len(addresses))
    except InputError as error:
        if may_learn_reason(hello, secret):
            writer.write(rejection_frame(str(error)))
        raise
    challenge = (FORMAT, secrets.token_bytes(NONCE_BYTES))
    writer.write(encoded(challenge))
    match await message(reader, HANDSHAKE_BYTES):
        case (bytes(given),) if right(given, secret, "caller", hello, challenge):
            pass
        case (b"",):
            raise InputError(f"{called(who)} gave no proof of the secret: set its secret_file; refused")
        case _ if not secret:
            raise InputError(f"{called(who)} has a secret, and this node has none: refused")
        case _:
            raise InputError(f"{called(who)} has another secret: correct its secret_file; refused")
    if isinstance(who, int):
        if speaker.keys.serving is not None and speaker.keys.verify_hostname:
            certificate: Mapping[str, object] | None = writer.get_extra_info("peercert")
            host, _, _ = addresses[who].rpartition(":")
            if not names_host(certificate, host):
                raise InputError(f"node {who} has a certificate that does not name {host}, its host: refused")
        try:
            agree(hello, speaker.shared, speaker.peer)
            incarnations.admit(who, incarnation_of(hello), writer)
        except InputError as error:
            writer.write(rejection_frame(str(error)))
            raise
    writer.write(encoded((proof(secret, "node", hello, challenge),)))
    return who


WAITING_FRAMES: Final = 10_000
"""What comes after so many is dropped, as a network drops it: the protocol asks again."""
WAITING_BYTES: Final = 64 << 20
"""The same for what comes after so many bytes; one frame may be larger by itself."""
IDLE_TIMEOUT_SECONDS: Final = 10
"""After that long without a sign from the other machine a connection has ended: one that has lost its power,
or that is cut off, closes nothing."""
PROBE_SECONDS: Final = 2
RECONNECT_SECONDS: Final = 0.2
CONNECT_SECONDS: Final = 2.0


def watch(writer: asyncio.StreamWriter) -> None:
    """Let the system detect that the other machine is gone, as far as this system can.

    The time-out for unacknowledged data also ends a connection whose other side reads nothing for that time.
    """
    line = writer.get_extra_info("socket")
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    wanted = {
        # macOS calls the first of them otherwise.
        "TCP_KEEPIDLE": PROBE_SECONDS,
        "TCP_KEEPALIVE": PROBE_SECONDS,
        "TCP_KEEPINTVL": PROBE_SECONDS,
        "TCP_KEEPCNT": IDLE_TIMEOUT_SECONDS // PROBE_SECONDS - 1,
        "TCP_USER_TIMEOUT": IDLE_TIMEOUT_SECONDS * 1000,
    }
    for name, value in wanted.items():
        if hasattr(socket, name):
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def messages_of(
    reader: asyncio.StreamReader, most_bytes: int = MAX_FRAME_BYTES
) -> AsyncIterator[tuple[int, object]]:
    """Messages of a connection, each with its group, until it ends.

    Parameters
    ----------
    most_bytes
        Maximum size of a frame.

    Raises
    ------
    TornFrameError, InputError
        If data is no frame, too long, or no message that a connection may carry.
    OSError
        If the network or TLS fails.
    """
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            length, crc = FRAME_HEAD.unpack(await reader.readexactly(FRAME_HEAD.size))
            if length > most_bytes:
                raise InputError(
                    f"a frame has {length:,} bytes, expected {most_bytes:,} or fewer: send less at once"
                )
            yield checked_message(decoded(await reader.readexactly(length), crc))


class PeerLink:
    """A queue of frames to one node; it reconnects whenever the connection ends.

    Parameters
    ----------
    speaker
        The calling side.
    to
        The number of the called node.
    received
        Called with each message that the node sends on the same connection.
    ended
        Called whenever a connection has ended or has failed.
    refused
        Called with the reason of a rejection, if it differs from the last one.

    Attributes
    ----------
    trouble
        Why there is no connection; empty while there is one.
    """

    def __init__(
        self,
        address: str,
        speaker: PeerIdentity,
        to: int,
        received: Callable[[tuple[int, object]], None] = lambda message: None,
        ended: Callable[[], None] = lambda: None,
        refused: Callable[[str], None] = lambda why: None,
    ) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._speaker, self._to = speaker, to
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(WAITING_FRAMES)
        self._waiting_bytes = 0
        self._received, self._ended, self._refused = received, ended, refused
        self._rejection = ""
        self.trouble = "not connected yet"

    def send(self, frame: bytes) -> None:
        """Queue a frame, or drop it."""
        if self._queue.full() or self._waiting_bytes >= WAITING_BYTES:
            return
        self._queue.put_nowait(frame)
        self._waiting_bytes += len(frame)

    async def run(self) -> None:
        """Send queued frames and receive messages, without end."""
        tls = self._speaker.keys.calling
        name = None if tls is None else self._host
        while True:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    reader, writer = await asyncio.open_connection(
                        self._host, self._port, ssl=tls, server_hostname=name
                    )
            except (OSError, TimeoutError) as error:
                self.trouble = str(error) or "no answer"
            else:
                await self._talk(reader, writer)
            self._ended()
            # What waited for a node that is away is of no use when it is back.
            while not self._queue.empty():
                self._queue.get_nowait()
            self._waiting_bytes = 0
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sending: asyncio.Task[None] | None = None
        self.trouble = "the node does not say who it is"
        try:
            watch(writer)
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await introduce(reader, writer, self._speaker, self._to)
            self.trouble = self._rejection = ""
            sending = asyncio.create_task(self._send(writer))
            async for told in messages_of(reader):
                self._received(told)
            self.trouble = "the node closed the connection"
        except asyncio.IncompleteReadError:
            self.trouble = "the node closed the connection before it took part, and says why on its side"
        except (TornFrameError, InputError, OSError) as error:
            # A time-out of the handshake says nothing of itself.
            self.trouble = str(error) or self.trouble or "what the node sent is no frame"
            if isinstance(error, InputError) and self.trouble != self._rejection:
                self._rejection = self.trouble
                self._refused(self.trouble)
        finally:
            if sending is not None:
                sending.cancel()
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        # Whoever reads learns of a broken connection, too.
        with suppress(OSError):
            while True:
                frame = await self._queue.get()
                self._waiting_bytes -= len(frame)
                writer.write(frame)
                await writer.drain()
