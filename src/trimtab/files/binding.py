"""Settings bound to frozen dataclasses, from TOML tables and words of the environment and command line."""

import dataclasses
import math
import tomllib
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

import msgspec

from trimtab.files.validation_errors import quote, shape_of
from trimtab.model.errors import SettingsError, did_you_mean

T = TypeVar("T")


@dataclass(frozen=True)
class SettingValue:
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


Table = dict[str, "SettingValue | Table"]
"""A table of settings: each key has a value or a table of its own."""


RejectCallback = Callable[[str, object, str], NoReturn]
"""Raises `SettingsError` for a key, the value found and what was expected."""


@dataclass(frozen=True)
class Section(Generic[T]):
    """A table of the settings file that a balancer reads, and that is checked as soon as the file is.

    Attributes
    ----------
    name
        Of the table: `replicas` for `[replicas]`.
    kind
        The frozen dataclass of its keys.
    per_resource
        Keys that take one number for all resources, or a table; their fields are tuples.
    resources
        Names that such a table may hold, in the order of the tuples.
    check
        Refuses values out of range.
    further
        Keys of files that hold the value of another key; they are no fields of `kind`.
    """

    name: str
    kind: type[T]
    per_resource: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    check: Callable[[T, RejectCallback], None] = lambda settings, refuse: None
    further: tuple[str, ...] = ()

    def bound(self, table: Table, folder: Path) -> T:
        """The settings of a table.

        Raises
        ------
        SettingsError
            If a key is unknown, a value has the wrong type, or it is out of its range.
        """

        def refuse(name: str, found: object, expected: str) -> NoReturn:
            raise SettingsError(
                f"{origin_of(table[name])}: {self.name}.{name} is {quote(found)}, expected {expected}; "
                "correct it there"
            )

        limits = {key: given for key, given in table.items() if key in self.per_resource}
        settings = bind(self.kind, {key: table[key] for key in table if key not in limits}, self.name, folder)
        found = {key: self._by_resource(key, given, settings, folder) for key, given in limits.items()}
        settings = dataclasses.replace(typing.cast("Any", settings), **found)
        self.check(settings, refuse)
        return settings

    def check_keys(self, table: Table, folder: Path) -> None:
        """Check names and types alone: keys that `kind` requires may be absent.

        Raises
        ------
        SettingsError
            If a key is unknown or a value has the wrong type.
        """
        own = {key: given for key, given in table.items() if key not in self.further}
        values_of(self.kind, own, self.name, folder, self.further)
        for key in self.further:
            if key in table:
                convert(table[key], Path, f"{self.name}.{key}", folder)

    def _by_resource(
        self, key: str, values: "SettingValue | Table", usual: T, folder: Path
    ) -> tuple[float, ...]:
        """One number a resource; those that a table leaves out are as usual."""
        dotted = f"{self.name}.{key}"
        if isinstance(values, SettingValue) and isinstance(values.plain, dict):
            values = {name: SettingValue(value, values.origin) for name, value in values.plain.items()}
        if isinstance(values, SettingValue):
            return (float(convert(values, float, dotted, folder)),) * len(self.resources)
        for name in values:
            if name not in self.resources:
                raise unknown_key(f"{dotted}.{name}", values[name], self.resources)
        return tuple(
            float(convert(values[name], float, f"{dotted}.{name}", folder)) if name in values else default
            for name, default in zip(self.resources, getattr(usual, key), strict=True)
        )

    @property
    def key_paths(self) -> list[tuple[str, ...]]:
        """Every key, also those of nested tables."""
        by_resource = [(key, resource) for key in self.per_resource for resource in self.resources]
        return key_paths(self.kind) + by_resource + [(key,) for key in self.further]


Sections = Mapping[str, Section[Any] | Callable[[], Section[Any]] | None]
"""The tables that a settings file may hold, by name. A function makes a section that is bound only where a
value is given for it; None stands for a section that the caller binds itself."""


def check_fractions(settings: object, refuse: RejectCallback) -> None:
    """Refuse θ above 1 and ε of 1 or more in any resource, and either of 0 or less."""
    above, below = "above 0, at most 1", "above 0, below 1"
    ranges = {"theta": above, "epsilon": below, "host_theta": above, "host_epsilon": below}
    for name, limit in ranges.items():
        for value in getattr(settings, name, ()):
            if value is not None and not (0 < value < 1 or (limit == above and value == 1)):
                refuse(name, value, f"a fraction {limit}")


def check_idle_usage(settings: Any, refuse: RejectCallback) -> None:
    """Refuse an `min_utilization` that is no share of a capacity."""
    if not 0 <= settings.min_utilization < 1:
        refuse("min_utilization", settings.min_utilization, "a fraction, 0 or more and below 1")


def check_not_negative(settings: object, names: tuple[str, ...], refuse: RejectCallback) -> None:
    """Refuse numbers below 0 and those that no 64 bits hold; None is no number."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and not 0 <= value < 2**63:
            refuse(name, value, "0 or more")


def bind(kind: type[T], table: Table, section: str, folder: Path, also: tuple[str, ...] = ()) -> T:
    """Make the dataclass of a section.

    Parameters
    ----------
    kind
        A frozen dataclass; its fields are the keys, its defaults hold where nothing is given. A value for a
        field without `repr` is a secret: no message shows it.
    table
        The values given; keys that begin with `x_` are the user's own.
    section
        Its dotted name, for messages.
    folder
        Relative paths are relative to it.
    also
        Further keys that there are, for "did you mean".

    Raises
    ------
    SettingsError
        If a key is unknown, a value has the wrong type, or `kind` itself refuses the values.
    """
    return kind(**values_of(kind, table, section, folder, also))


def values_of(
    kind: type[T], table: Table, section: str, folder: Path, also: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The values of a section by field; parameters and errors as in `bind`, `kind` itself is not made."""
    fields = {field.name: field for field in dataclasses.fields(typing.cast("Any", kind))}
    hints = typing.get_type_hints(kind)
    bound: dict[str, Any] = {}
    for name, given in table.items():
        dotted = f"{section}.{name}"
        if name.startswith("x_"):
            continue
        if name not in fields:
            raise unknown_key(dotted, given, [*fields, *also])
        if dataclasses.is_dataclass(hints[name]):
            if isinstance(given, SettingValue):
                raise SettingsError(
                    f"{given.origin}: {dotted} is {quote(given.value)}, expected a table; write [{dotted}]"
                )
            bound[name] = bind(typing.cast("type[Any]", hints[name]), given, dotted, folder)
        else:
            bound[name] = convert(given, hints[name], dotted, folder, secret=not fields[name].repr)
    return bound


def convert(
    values: "SettingValue | Table", kind: Any, dotted: str, folder: Path, *, secret: bool = False
) -> Any:
    """One value as the type of its field; a secret is taken as it is written, and never shown.

    Raises
    ------
    SettingsError
        If it cannot be.
    """
    origin = origin_of(values)
    refusal: SettingsError | None = None
    for candidate in [values.value] if secret and isinstance(values, SettingValue) else _readings(values):
        try:
            value = msgspec.convert(
                candidate, type=kind, dec_hook=lambda kind, text: _path(kind, text, folder)
            )
        except msgspec.ValidationError as fault:
            expected, below = shape_of(fault)
            found = "a secret of the wrong type" if secret else quote(_below(candidate, below))
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
        name: given.plain if isinstance(given, SettingValue) else plain_table(given)
        for name, given in table.items()
    }


def key_paths(kind: type) -> list[tuple[str, ...]]:
    """Every key of a dataclass, also those of nested tables."""
    paths: list[tuple[str, ...]] = []
    for name, hint in typing.get_type_hints(kind).items():
        paths.append((name,))
        if dataclasses.is_dataclass(hint):
            paths += [(name, *path) for path in key_paths(typing.cast("type", hint))]
    return paths


def unknown_key(dotted: str, values: "SettingValue | Table", known: Iterable[str]) -> SettingsError:
    """The error for a key that nobody reads."""
    section, _, name = dotted.rpartition(".")
    place = f"{section}." if section else ""
    hint = did_you_mean(name, known, f"known are {', '.join(sorted(known))}", place)
    return SettingsError(f"{origin_of(values)}: {dotted} is not a setting; {hint}")


def origin_of(values: "SettingValue | Table") -> str:
    """The place where a value, or the first of a table, stands."""
    while not isinstance(values, SettingValue):
        if not values:
            return "settings"
        values = next(iter(values.values()))
    return values.origin


def _readings(values: "SettingValue | Table") -> list[object]:
    """The meanings of a value: for a word, as TOML, as it is; for any text, then a list parted by commas."""
    if not isinstance(values, SettingValue):
        return [plain_table(values)]
    if not isinstance(values.value, str):
        return [values.value]
    parts = [part.strip() for part in values.value.split(",") if part.strip()]
    if not values.as_text:
        return [values.value, parts]
    plain = [SettingValue(part, values.origin, as_text=True).plain for part in parts]
    return [values.plain, values.value, plain, parts]


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
