"""The folders of trimtab's own files, by the XDG convention, each movable by one environment variable."""

import os
import re
from pathlib import Path

from trimtab.model.errors import SettingsError

_ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/")


def cache_folder() -> Path:
    """Downloaded and compiled parts; may be deleted at any time (`TRIMTAB_CACHE`)."""
    return _place("TRIMTAB_CACHE", "XDG_CACHE_HOME", ".cache")


def lake_folder(given: Path | None = None) -> Path:
    """Telemetry: raw samples, tables, snapshots; the folder given, else that of `TRIMTAB_LAKE`.

    Raises
    ------
    SettingsError
        If it is an address of something else, which would silently become a folder of that name.
    """
    found = given or Path(os.environ.get("TRIMTAB_LAKE", ""))
    if _ADDRESS.match(str(found)):
        scheme, _, rest = str(found).partition(":/")
        raise SettingsError(
            f"lake {scheme}://{rest.lstrip('/')} is no folder, and lakes are folders so far: mount it, "
            "and name the folder with --lake"
        )
    return given or _place("TRIMTAB_LAKE", "XDG_DATA_HOME", ".local/share", "lake")


def state_folder() -> Path:
    """The execution journal, leases and sandboxes (`TRIMTAB_STATE`)."""
    return _place("TRIMTAB_STATE", "XDG_STATE_HOME", ".local/state")


def _place(own: str, shared: str, home: str, *below: str) -> Path:
    if own in os.environ:
        return Path(os.environ[own]).expanduser().absolute()
    base = os.environ.get(shared)
    return (Path(base) if base else Path.home() / home).joinpath("trimtab", *below)
