"""A node that is started with shorter terms first waits for what its last process may have promised."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from trimtab_common.errors import InputError
from trimtab_common.files import write_atomically
from trimtab_store.core.settings import StoreSettings

NAME: Final = "terms.json"


def outlast(folder: Path, settings: StoreSettings, wait: Callable[[float], None] = time.sleep) -> None:
    """Wait as much longer as the terms of the last process were, and write down those of this one.

    A node that begins leaves everybody alone for one term, since it may have helped somebody to become master
    just before. By settings that were changed meanwhile that would be over while the old term still runs:
    with a majority started anew, one node after another, there would be a second master.

    Parameters
    ----------
    folder
        Of the node's log, which this process has for itself.
    wait
        Takes seconds.

    Raises
    ------
    InputError
        If what stands there cannot be read.
    """
    path, own = (
        folder / NAME,
        {"lease_seconds": settings.lease_seconds, "cycle_seconds": settings.cycle_seconds},
    )
    if path.exists():
        try:
            last = msgspec.json.decode(path.read_bytes(), type=dict[str, float])
        except msgspec.DecodeError as error:
            raise InputError(
                f"{path} cannot be read as the terms of this node's last process ({error}): remove it once "
                "all nodes have been stopped for longer than a lease"
            ) from None
        if last == own:
            return
        longer = max(last.get(name, 0.0) - seconds for name, seconds in own.items())
        if longer > 0:
            print(
                f"this node was last run with longer terms, and waits {longer:g} s more before it begins",
                file=sys.stderr,
                flush=True,
            )
            wait(longer)
    write_atomically(path, msgspec.json.encode(own))
