"""The page of formats says which messages there are, and what stands in them."""

from __future__ import annotations

import inspect
from itertools import takewhile
from pathlib import Path
from typing import Any

from trimtab_store.format.wire import NUMBERED

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "formats.md"
HEAD = "| number | message | fields | what it says |"


def row(number: int, kind: type[tuple[Any, ...]]) -> str:
    """A line of the table."""
    hints = {name: getattr(hint, "__forward_arg__", hint) for name, hint in kind.__annotations__.items()}
    fields = ", ".join(f"`{name}` {hint}" for name, hint in hints.items())
    said = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
    return f"| {number} | `{kind.__name__}` | {fields} | {said} |"


def test_the_table_of_messages_is_that_of_the_code() -> None:
    """A number is never reused, nor do fields change, without an error for old readers."""
    wanted = [HEAD, "|---|---|---|---|", *(row(number, kind) for number, kind in sorted(NUMBERED.items()))]
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert HEAD in lines, "\n".join(wanted)
    begin = lines.index(HEAD)
    assert list(takewhile(lambda line: line.startswith("|"), lines[begin:])) == wanted
