"""What changes queues on a server: scripts in Lua, each of which does all of its change or nothing."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

NAMES: Final = (
    "arrive", "beat", "beside", "claim", "cross_out", "finish", "grace", "lease", "look", "mark", "move",
    "opened", "put", "release", "requeue", "start", "take",
)  # fmt: skip


ON_A_FULL_SERVER: Final = ("beat", "claim", "finish", "release", "start", "take")
"""What must go on there, or the server would never have room again; Redis has words for it since 7.0."""


@cache
def source(name: str, on_a_full_server: bool = False) -> str:
    """The text of a script, with what all of them share before it."""
    folder = files(__package__) / "lua"
    texts = [(folder / f"{one}.lua").read_text(encoding="utf-8") for one in ("common", name)]
    return "\n".join(["#!lua flags=allow-oom", *texts] if on_a_full_server else texts)
