"""Scripts of the server: each does all of its change or nothing."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

NAMES: Final = (
    "beat", "claim", "finish", "lease", "look", "mark", "move", "put", "release", "start", "take",
)  # fmt: skip


@cache
def source(name: str) -> str:
    """The text of a script, with what all of them share before it."""
    folder = files(__package__)
    return "\n".join((folder / f"{one}.lua").read_text(encoding="utf-8") for one in ("common", name))
