"""The messages by which a connection begins: who speaks, to whom, and that both know a secret.

No wire carries the secret: the caller proves that it knows it by an HMAC of both sides' first messages, and
so does the node, by another. What was recorded of one connection is of no use for the next, since both draw
anew; and no answer of one side is one that the other may give. Without a secret both proofs are empty.

A node that calls says too by what settings it goes, and which life of it this is: nodes of other settings
count other terms, and two processes of one node would vote twice. In the place of its first message or its
proof a node may give a refusal, a sentence for whoever called.
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
"""Whoever has proved nothing yet gets no more memory."""
NONCE_BYTES: Final = 32
NAME_CHARACTERS: Final = 64
MAX_REJECTION_BYTES: Final = 700
VALUE_CHARACTERS: Final = 32


def hello_of(
    cluster: str, who: int | str, to: int, incarnation: int = 0, shared: Shared = ()
) -> tuple[object, ...]:
    """The caller's first message: of which cluster, who it is, and which node it wants.

    Parameters
    ----------
    incarnation, shared
        Of a node: a number that no other life of it has, and what all nodes must have alike.
    """
    hello = (FORMAT, cluster, who, to, secrets.token_bytes(NONCE_BYTES))
    return (*hello, incarnation, shared) if isinstance(who, int) else hello


def rejection_frame(why: str) -> bytes:
    """What a node says in the place of an answer before it closes a connection, as a frame."""
    return encoded((FORMAT, why.encode()[:MAX_REJECTION_BYTES].decode(errors="ignore")))


def may_learn_reason(hello: object, secret: bytes) -> bool:
    """Whether a caller that has proved nothing is told why it is refused.

    Where there is a secret, a stranger learns which version this is, and no more.
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
    """The caller's proof, as a frame.

    Raises
    ------
    InputError
        If the node refuses, or its first message is of another version.
    """
    _read_rejection(transfer, to)
    match transfer:
        case (str(form), bytes()) if form == FORMAT:
            return encoded((proof(secret, "caller", hello, transfer),))
    raise InputError(f"node {to} does not speak {FORMAT}: run the same version of trimtab there")


def verify_proof(text: object, hello: object, transfer: object, secret: bytes, to: int) -> None:
    """Hear the node's proof.

    Raises
    ------
    InputError
        If it refuses, or does not know the secret.
    """
    _read_rejection(text, to)
    match text:
        case (bytes(given),) if right(given, secret, "node", hello, transfer):
            return
    raise InputError(f"node {to} does not know the secret: correct the secret_file there or here")


def identify(hello: object, cluster: str, node: int, nodes: int) -> int | str:
    """The node or client of a connection's first message, to a node.

    Raises
    ------
    InputError
        If it is of another version or cluster, or for another node.
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
    """Whether behind who it is stands what a node, or a client, says of itself."""
    match own:
        case [int(), tuple()]:
            return isinstance(who, int)
    return not own and isinstance(who, str)


def incarnation_of(hello: Any) -> int:
    """The life of a node that began a connection so."""
    life: int = hello[5]
    return life


def agree(hello: Any, shared: Shared, node: int) -> None:
    """Compare what a node that calls goes by with what a node here does.

    Raises
    ------
    InputError
        If that is not the same.
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
    """Names whose values differ, with both; empty if there is none. What one side lacks differs too."""
    return ", ".join(
        f"{_quote(name)} {_quote(theirs.get(name))} instead of {_quote(own.get(name))}"
        for name in {**own, **theirs}
        if theirs.get(name) != own.get(name)
    )


def _quote(value: object) -> str:
    shown = f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)
    return _plain(shown[:VALUE_CHARACTERS])


def _plain(text: str) -> str:
    """What a stranger told, without escapes for a terminal."""
    return "".join(one for one in text if one.isprintable())


def called(who: int | str) -> str:
    """Who it says it is, for messages."""
    return f"node {who}" if isinstance(who, int) else f"client {who[:NAME_CHARACTERS]!r}"


def proof(secret: bytes, side: str, hello: object, transfer: object) -> bytes:
    """That a side knows the secret; empty without one."""
    return hmac.digest(secret, encoded((side, hello, transfer)), "sha256") if secret else b""


def right(values: bytes, secret: bytes, side: str, hello: object, transfer: object) -> bool:
    """Whether a proof is that of a side."""
    return hmac.compare_digest(values, proof(secret, side, hello, transfer))
