"""Ending a sandbox, whoever started it, and clearing away those that ended without."""

from __future__ import annotations

import contextlib
import shutil

from trimtab.lab.sandbox.cgroups import remove
from trimtab.lab.sandbox.processes import kill
from trimtab.lab.sandbox.state import SandboxState, read_state, sandboxes_folder
from trimtab.model.errors import SandboxError


def stop(state: SandboxState) -> None:
    """Stop the nodes of a sandbox, whoever started them, and delete its folder.

    Nodes are killed, not asked: an orderly shutdown would write out data that is deleted right after.
    """
    kill(state.processes.values())
    remove(state.control_groups)
    shutil.rmtree(state.folder, ignore_errors=True)


def sweep() -> None:
    """Clear away sandboxes whose owners ended without stopping them."""
    for folder in sorted(sandboxes_folder().glob("*/")):
        with contextlib.suppress(SandboxError):
            state = read_state(folder, SandboxState)
            if state is not None and state.owner is not None and not state.owner.alive:
                stop(state)
