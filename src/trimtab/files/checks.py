"""Checks for `trimtab check`: folders, without making them, and every fault of the settings at once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trimtab.files.object_store import StoreError
from trimtab.files.store import Location, reach
from trimtab.model.errors import Finding, broken, fine
from trimtab_common.errors import SettingsError

if TYPE_CHECKING:
    from trimtab_common.settings import Settings


FOLDERS_PART = "folders"


def folder_findings(subject: str, folder: Location, remedy: str) -> Iterator[Finding]:
    """One finding on a folder of ours.

    Parameters
    ----------
    subject
        The name of the folder for people.
    remedy
        How to name another one.
    """
    if not isinstance(folder, Path):
        try:
            reach(folder)
            yield fine(FOLDERS_PART, subject, f"{folder}")
        except StoreError as error:
            yield broken(FOLDERS_PART, subject, str(error), remedy)
        return
    above = next(one for one in (folder, *folder.parents) if os.path.lexists(one))
    if not above.is_dir():
        yield broken(FOLDERS_PART, subject, f"{folder}: {above} is no folder", remedy)
    elif not os.access(above, os.R_OK | os.W_OK | os.X_OK):
        yield broken(FOLDERS_PART, subject, f"{folder}: this user may not read and write in {above}", remedy)
    elif above == folder:
        yield fine(FOLDERS_PART, subject, f"{folder}")
    else:
        yield fine(FOLDERS_PART, subject, f"{folder}: not there yet, made when first needed")


class CheckedSection(NamedTuple):
    """What a section makes: its faults, each once, and its value without them; None if there is none."""

    faults: tuple[str, ...]
    value: Any


def bound(settings: Settings, section: str, bind: Callable[[Settings], object]) -> CheckedSection:
    """Bind a section repeatedly, each time without the value at fault, until it is sound.

    Binding stops at the first fault. A missing value is a fault that no other value causes.

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
            (after is not None, not _names(fault, name), one)
            for name, one in settings.without_one(section)
            if (after := _tried(one, bind)[1]) is None or _names(fault, name)
        ]
        if not suspects:
            return CheckedSection(tuple(found), None)
        settings = min(suspects, key=lambda one: one[:2])[2]


def _names(fault: str, setting: str) -> bool:
    """Whether a fault names a setting: by its dotted name, or by its key in a sentence about its table."""
    table, _, key = setting.rpartition(".")
    about_table = fault.startswith(f"{table}: ")
    return setting in fault or (about_table and re.search(rf"\b{re.escape(key)}\b", fault) is not None)


def _tried(settings: Settings, bind: Callable[[Settings], object]) -> tuple[object, str | None]:
    try:
        return bind(settings), None
    except SettingsError as error:
        return None, str(error)
