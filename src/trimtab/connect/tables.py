"""Reading a table of trimtab.toml that says how to reach a cluster: keys, strings and files, checked."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from trimtab.model.errors import SettingsError


def refuse_unknown_keys(section: str, table: Mapping[str, object], known: tuple[str, ...]) -> None:
    """Refuse a key that the section does not have; those that begin with `x_` are the operator's own.

    Raises
    ------
    SettingsError
        Naming the key, and the one that may have been meant.
    """
    for key in table:
        if key not in known and not key.startswith("x_"):
            close = get_close_matches(key, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"known keys are {', '.join(known)}"
            raise SettingsError(f"{section}.{key} is not a setting: {hint}")


def text_of(section: str, table: Mapping[str, object], key: str, *, secret: bool = False) -> str | None:
    """A string of the table, None where it is not set; a `secret` is not shown in the error."""
    value = table.get(key)
    if value is not None and not isinstance(value, str):
        shown = "a secret of the wrong type" if secret else repr(value)
        raise SettingsError(f"{section}.{key} is {shown}: write a string")
    return value


def file_of(section: str, key: str, name: str | None, folder: Path) -> Path | None:
    """The file that a key names, relative to `folder`; None where it names none."""
    if name is None:
        return None
    path = folder / Path(name).expanduser()
    if not path.is_file():
        raise SettingsError(f"{section}.{key} names {path}, and there is no such file: correct the path")
    return path
