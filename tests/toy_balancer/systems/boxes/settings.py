"""The connection to boxes: the `[boxes]` table of trimtab.toml."""

from dataclasses import dataclass
from pathlib import Path

from trimtab_common.errors import SettingsError
from trimtab_common.settings import Settings


@dataclass(frozen=True)
class BoxesConnection:
    """The file that a cluster of boxes is."""

    path: Path


def boxes_connection(settings: Settings, path: Path | None = None) -> BoxesConnection:
    """The file, by the option or the key `boxes.path`."""
    told = settings.table("boxes").get("path") if path is None else path
    if told is None:
        raise SettingsError("no cluster of boxes is named: set boxes.path, or give --boxes")
    return BoxesConnection(Path(str(told)))
