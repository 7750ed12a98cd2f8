"""The folders of trimtab's own files, by the XDG convention, each movable by one environment variable."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Downloaded and compiled parts; may be deleted at any time (`TRIMTAB_CACHE`)."""
    return _place("TRIMTAB_CACHE", "XDG_CACHE_HOME", ".cache")


def lake_folder() -> Path:
    """Telemetry: raw samples, tables, snapshots (`TRIMTAB_LAKE`)."""
    return _place("TRIMTAB_LAKE", "XDG_DATA_HOME", ".local/share", "lake")


def state_folder() -> Path:
    """The execution journal, leases and sandboxes (`TRIMTAB_STATE`)."""
    return _place("TRIMTAB_STATE", "XDG_STATE_HOME", ".local/state")


def _place(own: str, shared: str, home: str, *below: str) -> Path:
    if own in os.environ:
        return Path(os.environ[own]).expanduser().absolute()
    base = os.environ.get(shared)
    return (Path(base) if base else Path.home() / home).joinpath("trimtab", *below)
