"""How a connection begins: who speaks, to whom, and that both know a secret, which no wire carries.

The caller says who it is, with bytes drawn by chance; the node answers with some of its own. Then the caller
proves that it knows the secret, by an HMAC of both messages, and so does the node, by another. What was
recorded of one connection is of no use for the next, since the node draws anew; and no answer of one side is
one that the other may give. Without a secret both proofs are empty.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trimtab.dataplane.masters.guard import Keys, names_host
from trimtab.files.masters.frames import HEAD, TornError, decoded, encoded
from trimtab.model.errors import InputError

FORMAT: Final = "trimtab/masters-wire/2"
HANDSHAKE_SECONDS: Final = 10.0
HANDSHAKE_BYTES: Final = 1024
"""Whoever has proved nothing yet gets no more memory."""
NONCE_BYTES: Final = 32
NAME_CHARACTERS: Final = 64


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
    hello = (FORMAT, speaker.cluster, speaker.who, to, secrets.token_bytes(NONCE_BYTES))
    writer.write(encoded(hello))
    challenge = await message(reader, HANDSHAKE_BYTES)
    match challenge:
        case (str(form), bytes()) if form == FORMAT:
            writer.write(encoded((_proof(speaker.keys.secret, "caller", hello, challenge),)))
        case _:
            raise InputError(f"node {to} does not speak {FORMAT}: run the same version of trimtab there")
    match await message(reader, HANDSHAKE_BYTES):
        case (bytes(proof),) if _right(proof, speaker.keys.secret, "node", hello, challenge):
            return
    raise InputError(f"node {to} does not know the secret: correct the secret_file there or here")


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
        case (bytes(proof),) if _right(proof, speaker.keys.secret, "caller", hello, challenge):
            pass
        case (b"",):
            raise InputError(f"{_called(who)} gave no proof of the secret: set its secret_file; refused")
        case _ if not speaker.keys.secret:
            raise InputError(f"{_called(who)} has a secret, and this node has none: refused")
        case _:
            raise InputError(f"{_called(who)} has another secret: correct its secret_file; refused")
    if isinstance(who, int) and speaker.keys.serving is not None and speaker.keys.verify_hostname:
        certificate: Mapping[str, Any] | None = writer.get_extra_info("peercert")
        host, _, _ = addresses[who].rpartition(":")
        if not names_host(certificate, host):
            raise InputError(f"node {who} has a certificate that does not name {host}, its host: refused")
    writer.write(encoded((_proof(speaker.keys.secret, "node", hello, challenge),)))
    return who


def who_speaks(hello: Any, cluster: str, node: int, nodes: int) -> int | str:
    """The node or client of a connection's first message, to a node.

    Raises
    ------
    InputError
        If it is of another version or cluster, or for another node.
    """
    match hello:
        case (str(form), *_) if form != FORMAT and form.startswith(FORMAT.rpartition("/")[0]):
            raise InputError(
                f"a connection began in {form[:NAME_CHARACTERS]}, expected {FORMAT}: run the same version of "
                "trimtab there and here; refused"
            )
        case (str(form), str(of), int() | str() as who, int(to), bytes()) if form == FORMAT:
            if of != cluster:
                raise InputError(
                    f"{_called(who)} is of cluster {of[:NAME_CHARACTERS]!r}, expected {cluster!r}: refused"
                )
            if to != node:
                raise InputError(
                    f"{_called(who)} took this node for node {to}, and it is node {node}: correct the "
                    "addresses there, whose order is the same everywhere; refused"
                )
            known = (
                who in range(nodes) and who != node if isinstance(who, int) else len(who) <= NAME_CHARACTERS
            )
            if known and not isinstance(who, bool):
                return who
            raise InputError(
                f"{_called(who)} is none of this cluster, expected another of {nodes} nodes: refused"
            )
    raise InputError(f"a connection did not begin as {FORMAT} does: refused")


def _called(who: int | str) -> str:
    return f"node {who}" if isinstance(who, int) else f"client {who[:NAME_CHARACTERS]!r}"


def _proof(secret: bytes, side: str, hello: Any, challenge: Any) -> bytes:
    return hmac.digest(secret, encoded((side, hello, challenge)), "sha256") if secret else b""


def _right(proof: bytes, secret: bytes, side: str, hello: Any, challenge: Any) -> bool:
    return hmac.compare_digest(proof, _proof(secret, side, hello, challenge))
