"""What goes over a connection that has begun: the number of a group, and what is said about it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from trimtab.files.masters.forms import form_of
from trimtab.files.masters.frames import NUMBERED
from trimtab.model.errors import InputError
from trimtab.online.masters import messages
from trimtab.online.masters.bounds import NAME_BYTES, name_bytes
from trimtab.online.masters.messages import Pull, Snapshot, Upload
from trimtab.online.masters.state import Whole
from trimtab.online.masters.token import CLUSTER, WholeCluster

_WRITTEN: Final = (messages.Promised, messages.AcceptedAt, messages.ChosenUpTo)
_SAID: Final = frozenset(
    kind for kind in NUMBERED.values() if kind.__module__ == messages.__name__ and kind not in _WRITTEN
)
_STATE: Final = form_of(Whole)
_CLUSTER: Final = form_of(WholeCluster)


def opened(told: Any) -> tuple[int, Any]:
    """The group and the message, of a frame whose fields have their types.

    Raises
    ------
    InputError
        If it is nothing that is said over a connection: no node could do anything with it.
    """
    if type(told) is tuple and len(told) == 2:
        group, message = told
        kind = type(message)
        if type(group) is int and kind in _SAID:
            if kind is Snapshot:
                _check_state(group, message)
            elif kind is Pull or kind is Upload:
                _check_names(message)
            return group, message
    raise InputError(
        "what came is no number of a group with a message for it: run the same version of trimtab there and "
        "here"
    )


def _check_state(group: int, snapshot: Snapshot) -> None:
    """Errors as in `opened`."""
    try:
        msgspec.convert(snapshot.state, _CLUSTER if group == CLUSTER else _STATE)
    except msgspec.ValidationError as error:
        raise InputError(
            f"a snapshot of group {group} holds another state ({error}): run the same version of trimtab "
            "there and here"
        ) from None


def _check_names(asked: Pull | Upload) -> None:
    """Errors as in `opened`."""
    for what, name in (("a consumer", asked.consumer), ("a topic", asked.topic)):
        if name_bytes(name) > NAME_BYTES:
            raise InputError(
                f"the name of {what} has {name_bytes(name):,} bytes, expected {NAME_BYTES} or fewer: "
                "choose a shorter one"
            )
