"""From loose values (a TOML table, words from the environment or the command line) to a frozen dataclass."""

import dataclasses
import difflib
import math
import tomllib
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trimtab.files.document import shape_of, shown
from trimtab.model.errors import SettingsError

T = TypeVar("T")


@dataclass(frozen=True)
class Given:
    """A value that somebody set.

    Attributes
    ----------
    value
        As TOML has it; a `str` when `as_text`.
    origin
        Where it stands, for messages: the file, the variable, or the option.
    as_text
        Whether it is one word from the environment or the command line, whose type is still open.
    """

    value: object
    origin: str
    as_text: bool = False

    @property
    def plain(self) -> object:
        """The value; a word that reads as a TOML value is that value."""
        if not self.as_text:
            return self.value
        try:
            return tomllib.loads(f"value = {self.value}")["value"]
        except (tomllib.TOMLDecodeError, RecursionError):
            return self.value


Table = dict[str, "Given | Table"]
"""A table of settings: each key has a value or a table of its own."""


def bind(kind: type[T], table: Table, section: str, folder: Path) -> T:
    """Make the dataclass of a section.

    Parameters
    ----------
    kind
        A frozen dataclass; its fields are the keys, its defaults hold where nothing is given.
    table
        What is given.
    section
        Its dotted name, for messages.
    folder
        What relative paths are relative to.

    Raises
    ------
    SettingsError
        If a key is unknown, a value has the wrong type, or `kind` itself refuses the values.
    """
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(kind)
    bound: dict[str, Any] = {}
    for name, given in table.items():
        dotted = f"{section}.{name}"
        if name not in fields:
            raise unknown_key(dotted, given, fields)
        if dataclasses.is_dataclass(hints[name]):
            if isinstance(given, Given):
                raise SettingsError(
                    f"{given.origin}: {dotted} is {shown(given.value)}, expected a table; write [{dotted}]"
                )
            bound[name] = bind(typing.cast("type[Any]", hints[name]), given, dotted, folder)
        else:
            bound[name] = convert(given, hints[name], dotted, folder)
    return kind(**bound)


def convert(given: "Given | Table", kind: Any, dotted: str, folder: Path) -> Any:
    """One value as the type of its field.

    Raises
    ------
    SettingsError
        If it cannot be.
    """
    origin = origin_of(given)
    refusal: SettingsError | None = None
    for candidate in _readings(given):
        try:
            value = msgspec.convert(
                candidate, type=kind, dec_hook=lambda kind, text: _path(kind, text, folder)
            )
        except msgspec.ValidationError as fault:
            expected, below = shape_of(fault)
            found = shown(_below(candidate, below))
            refusal = refusal or SettingsError(
                f"{origin}: {dotted}{below} is {found}, expected {expected}; correct it there"
            )
            continue
        if any(isinstance(number, float) and not math.isfinite(number) for number in _flat(value)):
            raise SettingsError(
                f"{origin}: {dotted} is {candidate}, expected a finite number; correct it there"
            )
        return value
    assert refusal is not None
    raise refusal


def plain_table(table: Table) -> dict[str, object]:
    """The table without origins."""
    return {
        name: given.plain if isinstance(given, Given) else plain_table(given) for name, given in table.items()
    }


def key_paths(kind: type, per_resource: tuple[str, ...], resources: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Every key of a dataclass, also those of nested tables."""
    paths: list[tuple[str, ...]] = []
    for name, hint in typing.get_type_hints(kind).items():
        paths.append((name,))
        if dataclasses.is_dataclass(hint):
            paths += [(name, *path) for path in key_paths(typing.cast("type", hint), (), ())]
        if name in per_resource:
            paths += [(name, resource) for resource in resources]
    return paths


def unknown_key(dotted: str, given: "Given | Table", known: Iterable[str]) -> SettingsError:
    """The error for a key that nobody reads."""
    section, _, name = dotted.rpartition(".")
    close = difflib.get_close_matches(name, list(known), n=1)
    place = f"{section}." if section else ""
    hint = f"did you mean {place}{close[0]}?" if close else f"known are {', '.join(sorted(known))}"
    return SettingsError(f"{origin_of(given)}: {dotted} is not a setting; {hint}")


def origin_of(given: "Given | Table") -> str:
    """Where a value, or the first of a table, stands."""
    while not isinstance(given, Given):
        if not given:
            return "settings"
        given = next(iter(given.values()))
    return given.origin


def _readings(given: "Given | Table") -> list[object]:
    """What a value may mean: for a word, as TOML, as it is, then as a list parted by commas."""
    if not isinstance(given, Given):
        return [plain_table(given)]
    if not given.as_text:
        return [given.value]
    parts = [Given(part.strip(), given.origin, True) for part in str(given.value).split(",") if part.strip()]
    return [given.plain, given.value, [part.plain for part in parts], [part.value for part in parts]]


def _path(kind: type, value: object, folder: Path) -> object:
    if kind is Path and isinstance(value, str):
        return folder / Path(value).expanduser()
    raise NotImplementedError(f"settings of type {kind}")


def _flat(value: object) -> list[object]:
    if isinstance(value, dict):
        return [inner for part in value.values() for inner in _flat(part)]
    if isinstance(value, list | tuple):
        return [inner for part in value for inner in _flat(part)]
    return [value]


def _below(value: Any, path: str) -> object:
    if path.startswith("[") and path.endswith("]") and path[1:-1].isdigit() and isinstance(value, list):
        return value[int(path[1:-1])]
    return value
