"""Names of groups that their system only numbers."""

from __future__ import annotations

from typing import Final

GROUP: Final = "group "


def group_name(number: int) -> str:
    """The name of a group by its number."""
    return f"{GROUP}{number}"


def group_number(name: str) -> int | None:
    """The number of a group by its name; None where it is no name of that kind."""
    number = name.removeprefix(GROUP)
    return int(number) if name.startswith(GROUP) and number.isdecimal() else None
