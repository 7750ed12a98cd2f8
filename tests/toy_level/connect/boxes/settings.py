"""The file that a cluster of boxes is."""

from pathlib import Path

from trimtab.files.settings import Settings
from trimtab.model.errors import SettingsError


def boxes_connection(settings: Settings, path: Path | None = None) -> Path:
    """The file, by the option or the key `boxes.path`."""
    told = settings.table("boxes").get("path") if path is None else path
    if told is None:
        raise SettingsError("no cluster of boxes is named: set boxes.path, or give --boxes")
    return Path(str(told))
