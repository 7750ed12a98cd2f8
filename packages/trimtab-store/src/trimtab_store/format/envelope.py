"""What goes over a connection that has begun: the number of a group, and what is said about it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from trimtab_common.errors import InputError
from trimtab_store.core import messages
from trimtab_store.core.bounds import NAME_BYTES, name_bytes
from trimtab_store.core.messages import FetchRequest, GroupSnapshot, OffsetUpload
from trimtab_store.core.state import Integers
from trimtab_store.core.token import CLUSTER, WholeCluster
from trimtab_store.format.frames import NUMBERED
from trimtab_store.format.message_codec import form_of

_WRITTEN: Final = (messages.Promised, messages.AcceptedAt, messages.ChosenUpTo)
_DECODER: Final = frozenset(
    kind for kind in NUMBERED.values() if kind.__module__ == messages.__name__ and kind not in _WRITTEN
)
_STATE: Final = form_of(Integers)
_CLUSTER: Final = form_of(WholeCluster)


def opened(text: Any) -> tuple[int, Any]:
    """The group and the message, of a frame whose fields have their types.

    Raises
    ------
    InputError
        If it is nothing that is said over a connection: no node could do anything with it.
    """
    if type(text) is tuple and len(text) == 2:
        group, message = text
        kind = type(message)
        if type(group) is int and kind in _DECODER:
            if kind is GroupSnapshot:
                _check_state(group, message)
            elif kind is FetchRequest or kind is OffsetUpload:
                _check_names(message)
            return group, message
    raise InputError(
        "what came is no number of a group with a message for it: run the same version of trimtab there and "
        "here"
    )


def _check_state(group: int, snapshot: GroupSnapshot) -> None:
    """Errors as in `opened`."""
    try:
        msgspec.convert(snapshot.state, _CLUSTER if group == CLUSTER else _STATE)
    except msgspec.ValidationError as error:
        raise InputError(
            f"a snapshot of group {group} holds another state ({error}): run the same version of trimtab "
            "there and here"
        ) from None


def _check_names(request: FetchRequest | OffsetUpload) -> None:
    """Errors as in `opened`."""
    for what, name in (("a consumer", request.consumer), ("a topic", request.topic)):
        if name_bytes(name) > NAME_BYTES:
            raise InputError(
                f"the name of {what} has {name_bytes(name):,} bytes, expected {NAME_BYTES} or fewer: "
                "choose a shorter one"
            )
