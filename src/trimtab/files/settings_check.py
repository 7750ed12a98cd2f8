"""Every fault of the settings in one go, where a command stops at the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from trimtab_common.errors import SettingsError

if TYPE_CHECKING:
    from trimtab_common.settings import Settings


class CheckedSection(NamedTuple):
    """What a section makes: its faults, each once, and its value without them; None if there is none."""

    faults: tuple[str, ...]
    value: Any


def bound(settings: Settings, section: str, bind: Callable[[Settings], object]) -> CheckedSection:
    """Bind a section, and again without the value that was at fault, until it is sound.

    Whoever binds a section stops at its first fault. Where something is missing, no value is to blame.

    Parameters
    ----------
    bind
        Makes something of settings, or raises `SettingsError`.
    """
    found: list[str] = []
    while True:
        value, fault = _tried(settings, bind)
        if fault is None:
            return CheckedSection(tuple(found), value)
        if fault not in found:
            found.append(fault)
        # Without a value that must be there the fault is another one too: only one that the fault names, or
        # without which all is sound, can be to blame.
        suspects = [
            (after is not None, name not in fault, one)
            for name, one in settings.without_one(section)
            if (after := _tried(one, bind)[1]) is None or name in fault
        ]
        if not suspects:
            return CheckedSection(tuple(found), None)
        settings = min(suspects, key=lambda one: one[:2])[2]


def _tried(settings: Settings, bind: Callable[[Settings], object]) -> tuple[object, str | None]:
    try:
        return bind(settings), None
    except SettingsError as error:
        return None, str(error)
