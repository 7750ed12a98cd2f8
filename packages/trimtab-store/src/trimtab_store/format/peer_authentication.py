"""The handshake of a connection: both sides name themselves and prove that they know a secret.

The secret is never sent. Each side proves that it knows it by an HMAC of the first messages of both sides.
Both draw a nonce, so a recorded handshake is of no use for another connection. The proofs of the two sides
differ, so neither can be sent back. Without a secret both proofs are empty.

A node that connects also sends its settings and its incarnation: nodes with other settings use other terms,
and two processes of one node would vote twice. Instead of its first message or its proof, a node may send a
rejection, which is one sentence.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Any, Final

from trimtab_common.errors import InputError
from trimtab_store.format.configuration import Shared
from trimtab_store.format.wire import encoded

KIND: Final = "trimtab/masters-wire/"
FORMAT: Final = KIND + "5"
HANDSHAKE_BYTES: Final = 1024
"""Maximum size of a message of an unverified peer."""
NONCE_BYTES: Final = 32
NAME_CHARACTERS: Final = 64
MAX_REJECTION_BYTES: Final = 700
VALUE_CHARACTERS: Final = 32


def hello_of(
    cluster: str, who: int | str, to: int, incarnation: int = 0, shared: Shared = ()
) -> tuple[object, ...]:
    """The first message of the connecting side: its cluster, its name and the node that it calls.

    Parameters
    ----------
    incarnation, shared
        Of a node: the number of its process, and the settings that all nodes must have in common.
    """
    hello = (FORMAT, cluster, who, to, secrets.token_bytes(NONCE_BYTES))
    return (*hello, incarnation, shared) if isinstance(who, int) else hello


def rejection_frame(why: str) -> bytes:
    """The frame that a node sends instead of an answer before it closes a connection."""
    return encoded((FORMAT, why.encode()[:MAX_REJECTION_BYTES].decode(errors="ignore")))


def may_learn_reason(hello: object, secret: bytes) -> bool:
    """Whether an unverified peer gets the reason of its rejection.

    If there is a secret, a stranger learns the version only.
    """
    match hello:
        case (str(form), *_) if form.startswith(KIND):
            return form != FORMAT or not secret
    return False


def _read_rejection(text: object, to: int) -> None:
    match text:
        case (str(form), str(why)) if form.startswith(KIND):
            raise InputError(f"node {to} refuses: {_plain(why)}")


def answer_to(hello: object, transfer: object, secret: bytes, to: int) -> bytes:
    """The proof of the connecting side, as a frame.

    Raises
    ------
    InputError
        If the node rejects the connection, or its first message is of another version.
    """
    _read_rejection(transfer, to)
    match transfer:
        case (str(form), bytes()) if form == FORMAT:
            return encoded((proof(secret, "caller", hello, transfer),))
    raise InputError(f"node {to} does not speak {FORMAT}: run the same version of trimtab there")


def verify_proof(text: object, hello: object, transfer: object, secret: bytes, to: int) -> None:
    """Check the proof of the node.

    Raises
    ------
    InputError
        If the node rejects the connection, or does not know the secret.
    """
    _read_rejection(text, to)
    match text:
        case (bytes(given),) if right(given, secret, "node", hello, transfer):
            return
    raise InputError(f"node {to} does not know the secret: correct the secret_file there or here")


def identify(hello: object, cluster: str, node: int, nodes: int) -> int | str:
    """The node or client that sent the first message of a connection to a node.

    Raises
    ------
    InputError
        If it is of another version or cluster, or calls another node.
    """
    match hello:
        case (str(form), *_) if form != FORMAT and form.startswith(KIND):
            raise InputError(
                f"a connection began in {form[:NAME_CHARACTERS]}, expected {FORMAT}: run the same version of "
                "trimtab there and here; refused"
            )
        case (str(form), str(of), int() | str() as who, int(to), bytes(), *own) if (
            form == FORMAT and _is_genuine(who, own)
        ):
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


def _is_genuine(who: int | str, own: list[object]) -> bool:
    """Whether the rest of a first message fits its sender: a node or a client."""
    match own:
        case [int(), tuple()]:
            return isinstance(who, int)
    return not own and isinstance(who, str)


def incarnation_of(hello: Any) -> int:
    """The incarnation of a node, by its first message."""
    life: int = hello[5]
    return life


def agree(hello: Any, shared: Shared, node: int) -> None:
    """Compare the settings of a node that connects with those of this node.

    Raises
    ------
    InputError
        If they differ.
    """
    try:
        differs = differences(dict(hello[6]), dict(shared))
    except (TypeError, ValueError):
        raise InputError(f"a connection did not begin as {FORMAT} does: refused") from None
    if differs:
        raise InputError(
            f"settings of {called(hello[2])} differ from those of node {node} ({differs}): use the same on "
            "all nodes, and start them again; refused"
        )


def differences(theirs: dict[str, object], own: dict[str, object]) -> str:
    """Names whose values differ, with both values; empty if there is none. A missing value differs too."""
    return ", ".join(
        f"{_quote(name)} {_quote(theirs.get(name))} instead of {_quote(own.get(name))}"
        for name in {**own, **theirs}
        if theirs.get(name) != own.get(name)
    )


def _quote(value: object) -> str:
    shown = f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)
    return _plain(shown[:VALUE_CHARACTERS])


def _plain(text: str) -> str:
    """A text of a peer, without escapes for a terminal."""
    return "".join(one for one in text if one.isprintable())


def called(who: int | str) -> str:
    """The name of a peer, for messages."""
    return f"node {who}" if isinstance(who, int) else f"client {who[:NAME_CHARACTERS]!r}"


def proof(secret: bytes, side: str, hello: object, transfer: object) -> bytes:
    """The proof that a side knows the secret; empty without a secret."""
    return hmac.digest(secret, encoded((side, hello, transfer)), "sha256") if secret else b""


def right(values: bytes, secret: bytes, side: str, hello: object, transfer: object) -> bool:
    """Whether a proof is the proof of a side."""
    return hmac.compare_digest(values, proof(secret, side, hello, transfer))
