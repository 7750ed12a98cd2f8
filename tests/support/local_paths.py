"""Places of a lake that lies on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimtab.files.store import Location


def local(place: Location) -> Path:
    """The place, which is none in an object store: a test may write there itself."""
    assert isinstance(place, Path)
    return place
