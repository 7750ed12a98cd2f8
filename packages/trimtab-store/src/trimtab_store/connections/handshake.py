"""How a connection begins, by the messages of `trimtab_store.format.peer_authentication`."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trimtab_common.errors import InputError
from trimtab_store.connections.peer_registry import PeerRegistry
from trimtab_store.format.configuration import Shared
from trimtab_store.format.frames import HEAD, TornFrameError, decoded, encoded
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
from trimtab_store.format.transport_security import TlsMaterial, names_host

HANDSHAKE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class PeerIdentity:
    """One side of connections.

    Attributes
    ----------
    cluster
        Its name.
    peer
        The number of a node, or the name of a client.
    keys
        Its own, of the cluster's guard.
    incarnation
        Of a node: a number that no other life of it has.
    shared
        Of a node: what all must have alike.
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
    TornError, InputError
        If it is too long, or no frame of ours.
    IncompleteReadError, OSError
        If the connection ends.
    """
    length, crc = HEAD.unpack(await reader.readexactly(HEAD.size))
    if length > most_bytes:
        raise TornFrameError
    return decoded(await reader.readexactly(length), crc)


async def introduce(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, speaker: PeerIdentity, to: int
) -> None:
    """Begin a connection to a node.

    Raises
    ------
    InputError
        If the node is not who it should be, or refuses.
    TornError, IncompleteReadError, OSError
        If it speaks otherwise, or goes.
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
    """Begin a connection that came to a node; who it is from.

    Raises
    ------
    InputError
        If it is of another version or cluster, for another node, cannot prove who it is, or is a node that
        goes by other settings or runs already; where that is no secret, the caller is told as well.
    TornError, IncompleteReadError, OSError
        If it is none of ours, or ends.
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
            certificate: Mapping[str, Any] | None = writer.get_extra_info("peercert")
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
