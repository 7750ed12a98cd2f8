"""The messages by which a connection begins: who speaks, to whom, and that both know a secret.

No wire carries the secret: the caller proves that it knows it by an HMAC of both sides' first messages, and
so does the node, by another. What was recorded of one connection is of no use for the next, since both draw
anew; and no answer of one side is one that the other may give. Without a secret both proofs are empty.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Any, Final

from trimtab.files.masters.frames import encoded
from trimtab.model.errors import InputError

FORMAT: Final = "trimtab/masters-wire/2"
HANDSHAKE_BYTES: Final = 1024
"""Whoever has proved nothing yet gets no more memory."""
NONCE_BYTES: Final = 32
NAME_CHARACTERS: Final = 64


def hello_of(cluster: str, who: int | str, to: int) -> tuple[Any, ...]:
    """The caller's first message: of which cluster, who it is, and which node it wants."""
    return FORMAT, cluster, who, to, secrets.token_bytes(NONCE_BYTES)


def answer_to(hello: Any, challenge: Any, secret: bytes, to: int) -> bytes:
    """The caller's proof, as a frame.

    Raises
    ------
    InputError
        If the node's first message is of another version.
    """
    match challenge:
        case (str(form), bytes()) if form == FORMAT:
            return encoded((proof(secret, "caller", hello, challenge),))
    raise InputError(f"node {to} does not speak {FORMAT}: run the same version of trimtab there")


def judged(told: Any, hello: Any, challenge: Any, secret: bytes, to: int) -> None:
    """Hear the node's proof.

    Raises
    ------
    InputError
        If it does not know the secret.
    """
    match told:
        case (bytes(given),) if right(given, secret, "node", hello, challenge):
            return
    raise InputError(f"node {to} does not know the secret: correct the secret_file there or here")


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
                    f"{called(who)} is of cluster {of[:NAME_CHARACTERS]!r}, expected {cluster!r}: refused"
                )
            if to != node:
                raise InputError(
                    f"{called(who)} took this node for node {to}, and it is node {node}: correct the "
                    "addresses there, whose order is the same everywhere; refused"
                )
            known = (
                who in range(nodes) and who != node if isinstance(who, int) else len(who) <= NAME_CHARACTERS
            )
            if known and not isinstance(who, bool):
                return who
            raise InputError(
                f"{called(who)} is none of this cluster, expected another of {nodes} nodes: refused"
            )
    raise InputError(f"a connection did not begin as {FORMAT} does: refused")


def called(who: int | str) -> str:
    """Who it says it is, for messages."""
    return f"node {who}" if isinstance(who, int) else f"client {who[:NAME_CHARACTERS]!r}"


def proof(secret: bytes, side: str, hello: Any, challenge: Any) -> bytes:
    """That a side knows the secret; empty without one."""
    return hmac.digest(secret, encoded((side, hello, challenge)), "sha256") if secret else b""


def right(given: bytes, secret: bytes, side: str, hello: Any, challenge: Any) -> bool:
    """Whether a proof is that of a side."""
    return hmac.compare_digest(given, proof(secret, side, hello, challenge))
