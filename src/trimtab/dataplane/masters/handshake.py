"""How a connection begins, by the messages of `trimtab.files.masters.greeting`."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trimtab.files.masters.frames import HEAD, TornError, decoded, encoded
from trimtab.files.masters.greeting import (
    FORMAT,
    HANDSHAKE_BYTES,
    NONCE_BYTES,
    answer_to,
    called,
    hello_of,
    judged,
    proof,
    right,
    who_speaks,
)
from trimtab.files.masters.guard import Keys, names_host
from trimtab.model.errors import InputError

HANDSHAKE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Speaker:
    """One side of connections.

    Attributes
    ----------
    cluster
        Its name.
    who
        The number of a node, or the name of a client.
    keys
        Its own, of the cluster's guard.
    """

    cluster: str
    who: int | str
    keys: Keys


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
        raise TornError
    return decoded(await reader.readexactly(length), crc)


async def introduce(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, speaker: Speaker, to: int
) -> None:
    """Begin a connection to a node.

    Raises
    ------
    InputError
        If the node is not who it should be.
    TornError, IncompleteReadError, OSError
        If it speaks otherwise, or refuses.
    """
    hello = hello_of(speaker.cluster, speaker.who, to)
    writer.write(encoded(hello))
    challenge = await message(reader, HANDSHAKE_BYTES)
    writer.write(answer_to(hello, challenge, speaker.keys.secret, to))
    judged(await message(reader, HANDSHAKE_BYTES), hello, challenge, speaker.keys.secret, to)


async def meet(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, speaker: Speaker, addresses: Sequence[str]
) -> int | str:
    """Begin a connection that came to a node; who it is from.

    Raises
    ------
    InputError
        If it is of another version or cluster, for another node, or cannot prove who it is.
    TornError, IncompleteReadError, OSError
        If it is none of ours, or ends.
    """
    hello = await message(reader, HANDSHAKE_BYTES)
    assert isinstance(speaker.who, int)
    who = who_speaks(hello, speaker.cluster, speaker.who, len(addresses))
    challenge = (FORMAT, secrets.token_bytes(NONCE_BYTES))
    writer.write(encoded(challenge))
    match await message(reader, HANDSHAKE_BYTES):
        case (bytes(given),) if right(given, speaker.keys.secret, "caller", hello, challenge):
            pass
        case (b"",):
            raise InputError(f"{called(who)} gave no proof of the secret: set its secret_file; refused")
        case _ if not speaker.keys.secret:
            raise InputError(f"{called(who)} has a secret, and this node has none: refused")
        case _:
            raise InputError(f"{called(who)} has another secret: correct its secret_file; refused")
    if isinstance(who, int) and speaker.keys.serving is not None and speaker.keys.verify_hostname:
        certificate: Mapping[str, Any] | None = writer.get_extra_info("peercert")
        host, _, _ = addresses[who].rpartition(":")
        if not names_host(certificate, host):
            raise InputError(f"node {who} has a certificate that does not name {host}, its host: refused")
    writer.write(encoded((proof(speaker.keys.secret, "node", hello, challenge),)))
    return who
