"""The places of trimtab's own files, by the XDG convention, each movable by one environment variable."""

import os
from pathlib import Path

from trimtab.files.store import Location, place_of


def cache_folder() -> Path:
    """Downloaded and compiled parts; may be deleted at any time (`TRIMTAB_CACHE`)."""
    return _place("TRIMTAB_CACHE", "XDG_CACHE_HOME", ".cache")


def lake_place(values: Path | str | None = None) -> Location:
    """Telemetry: raw samples, tables, snapshots; the folder or address given, else that of `TRIMTAB_LAKE`.

    Raises
    ------
    SettingsError
        If it is an address of a kind that is not understood.
    """
    found = values if values is not None else os.environ.get("TRIMTAB_LAKE")
    return place_of(found) if found else _place("TRIMTAB_LAKE", "XDG_DATA_HOME", ".local/share", "lake")


def state_folder() -> Path:
    """The execution journal, leases and sandboxes (`TRIMTAB_STATE`)."""
    return _place("TRIMTAB_STATE", "XDG_STATE_HOME", ".local/state")


def _place(own: str, shared: str, home: str, *below: str) -> Path:
    if own in os.environ:
        return Path(os.environ[own]).expanduser().absolute()
    base = os.environ.get(shared)
    return (Path(base) if base else Path.home() / home).joinpath("trimtab", *below)
