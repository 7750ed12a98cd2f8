"""θ and ε of a level's section: one number for all resources, or a table; and their ranges."""

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, Protocol

from trimtab.files.document import shown
from trimtab.files.settings_binding import Given, Table, convert, origin_of, unknown_key
from trimtab.model.errors import SettingsError

PER_RESOURCE = ("theta", "epsilon")
"""Keys that take one number for all resources, or a table."""

Refuse = Callable[[str, object, str], NoReturn]
"""Raises `SettingsError` for a key, the value found and what was expected."""


class Limited(Protocol):
    """Settings that have θ and ε, a number for every resource of the level."""

    @property
    def theta(self) -> tuple[float, ...]:
        """Highest utilisation allowed."""
        ...

    @property
    def epsilon(self) -> tuple[float, ...]:
        """Highest deviation allowed."""
        ...


def bound_limits(
    table: Table, section: str, usual: Limited, resources: tuple[str, ...], folder: Path
) -> dict[str, tuple[float, ...]]:
    """θ and ε as far as they are set.

    Parameters
    ----------
    usual
        Whose values hold for resources that a table leaves out.

    Raises
    ------
    SettingsError
        If a resource is unknown or a value is no number.
    """
    found = {}
    for name in PER_RESOURCE:
        if name not in table:
            continue
        given, dotted = table[name], f"{section}.{name}"
        if isinstance(given, Given) and isinstance(given.plain, dict):
            given = {key: Given(value, given.origin) for key, value in given.plain.items()}
        if isinstance(given, Given):
            found[name] = (float(convert(given, float, dotted, folder)),) * len(resources)
            continue
        for key in given:
            if key not in resources:
                raise unknown_key(f"{dotted}.{key}", given[key], resources)
        found[name] = tuple(
            float(convert(given[key], float, f"{dotted}.{key}", folder)) if key in given else default
            for key, default in zip(resources, getattr(usual, name), strict=True)
        )
    return found


def refusal_of(table: Table, section: str) -> Refuse:
    """What refuses a value of a section, naming where it was set."""

    def refuse(name: str, found: object, expected: str) -> NoReturn:
        origin = origin_of(table[name])
        raise SettingsError(
            f"{origin}: {section}.{name} is {shown(found)}, expected {expected}; correct it there"
        )

    return refuse


def check_limits(settings: Limited, refuse: Refuse) -> None:
    """Refuse θ and ε that are no such fractions."""
    for name, limit in (("theta", "above 0, at most 1"), ("epsilon", "above 0, below 1")):
        for value in getattr(settings, name):
            if not (0 < value < 1 or (name == "theta" and value == 1)):
                refuse(name, value, f"a fraction {limit}")
