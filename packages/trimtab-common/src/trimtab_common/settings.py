"""Settings: defaults, then `trimtab.toml`, then the environment, then `--set`; a later one wins.

Every key `[section] key` is also `--set section.key=value`, and environment variable `TRIMTAB_SECTION_KEY`.
A section is bound to a frozen dataclass, which gives the keys, their types and their defaults.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Generic, NoReturn, TypeVar, cast

import msgspec

from trimtab_common.documents import quote, shape_of
from trimtab_common.errors import SettingsError, did_you_mean
from trimtab_common.files import read_bytes

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


CLUSTERS: Final = "clusters"
"""The table that has a table for each cluster."""
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
        self, key: str, values: SettingValue | Table, usual: T, folder: Path
    ) -> tuple[float, ...]:
        """One number a resource; those that a table leaves out are as usual."""
        dotted = f"{self.name}.{key}"
        number = typing.get_args(_hints(self.kind)[key])[0]
        if isinstance(values, SettingValue) and isinstance(values.plain, dict):
            values = {name: SettingValue(value, values.origin) for name, value in values.plain.items()}
        if isinstance(values, SettingValue):
            return (float(convert(values, number, dotted, folder)),) * len(self.resources)
        for name in values:
            if name not in self.resources:
                raise unknown_key(f"{dotted}.{name}", values[name], self.resources)
        return tuple(
            float(convert(values[name], number, f"{dotted}.{name}", folder)) if name in values else default
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


def check_values(settings: object, dotted: Callable[[str], str]) -> None:
    """Refuse values that are not of the types of their fields, or out of the ranges that these name.

    Parameters
    ----------
    settings
        A dataclass, made in a program instead of from a file.
    dotted
        The name of a field for messages.

    Raises
    ------
    SettingsError
        Naming the first field whose value does not fit.
    """
    hints = _hints(type(settings))
    for field in dataclasses.fields(typing.cast("Any", settings)):
        value = getattr(settings, field.name)
        if not dataclasses.is_dataclass(value):
            name = dotted(field.name)
            _checked(value, hints[field.name], name, name, Path(), secret=not field.repr)


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
) -> dict[str, object]:
    """The values of a section by field; parameters and errors as in `bind`, `kind` itself is not made."""
    fields = {field.name: field for field in dataclasses.fields(typing.cast("Any", kind))}
    hints = _hints(kind)
    bound: dict[str, object] = {}
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
            bound[name] = bind(typing.cast("type[object]", hints[name]), given, dotted, folder)
        else:
            bound[name] = convert(given, hints[name], dotted, folder, secret=not fields[name].repr)
    return bound


def convert(
    values: SettingValue | Table, kind: object, dotted: str, folder: Path, *, secret: bool = False
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
            return _checked(candidate, kind, dotted, f"{origin}: {dotted}", folder, secret=secret)
        except SettingsError as fault:
            refusal = refusal or fault
    assert refusal is not None
    raise refusal


def _checked(
    candidate: object, kind: object, dotted: str, subject: str, folder: Path, *, secret: bool
) -> Any:
    if any(isinstance(number, float) and not math.isfinite(number) for number in _flat(candidate)):
        raise SettingsError(f"{subject} is {candidate}, expected a finite number; correct it there")
    try:
        return msgspec.convert(candidate, type=kind, dec_hook=lambda kind, text: _path(kind, text, folder))
    except msgspec.ValidationError as fault:
        expected, below = shape_of(fault, kind)
        found = "a secret of the wrong type" if secret else quote(_below(candidate, below))
        raise SettingsError(f"{subject}{below} is {found}, expected {expected}; correct it there") from None


def plain_table(table: Table) -> dict[str, object]:
    """The table's values without their origins."""
    return {
        name: given.plain if isinstance(given, SettingValue) else plain_table(given)
        for name, given in table.items()
    }


_KNOWN_HINTS: Final[dict[type, dict[str, Any]]] = {}


def _hints(kind: type) -> dict[str, Any]:
    """The types of a dataclass, resolved once: a service binds the same sections with each snapshot."""
    if kind not in _KNOWN_HINTS:
        _KNOWN_HINTS[kind] = typing.get_type_hints(kind, include_extras=True)
    return _KNOWN_HINTS[kind]


def key_paths(kind: type) -> list[tuple[str, ...]]:
    """Every key of a dataclass, also those of nested tables."""
    paths: list[tuple[str, ...]] = []
    for name, hint in typing.get_type_hints(kind).items():
        paths.append((name,))
        if dataclasses.is_dataclass(hint):
            paths += [(name, *path) for path in key_paths(typing.cast("type", hint))]
    return paths


def unknown_key(dotted: str, values: SettingValue | Table, known: Iterable[str]) -> SettingsError:
    """The error for an unknown key."""
    section, _, name = dotted.rpartition(".")
    place = f"{section}." if section else ""
    hint = did_you_mean(name, known, f"known are {', '.join(sorted(known))}", place)
    return SettingsError(f"{origin_of(values)}: {dotted} is not a setting; {hint}")


def origin_of(values: SettingValue | Table) -> str:
    """The place where a value, or the first of a table, stands."""
    while not isinstance(values, SettingValue):
        if not values:
            return "settings"
        values = next(iter(values.values()))
    return values.origin


def _readings(values: SettingValue | Table) -> list[object]:
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
    if kind is Path and isinstance(value, str | Path):
        return folder / Path(value).expanduser()
    raise NotImplementedError(f"settings of type {kind}")


def _flat(value: object) -> list[object]:
    if isinstance(value, dict):
        return [inner for part in value.values() for inner in _flat(part)]
    if isinstance(value, list | tuple):
        return [inner for part in value for inner in _flat(part)]
    return [value]


def _below(value: object, path: str) -> object:
    if path[:1] == "[" and path[1:-1].isdigit() and isinstance(value, list | tuple):
        return value[int(path[1:-1])]
    return value


SettingTexts = tuple[tuple[tuple[str, ...], SettingValue], ...]
"""Values of the command line for one section, each with the path of its key."""

DEFAULT_FILE = "trimtab.toml"


@dataclass(frozen=True)
class Override:
    """One setting that an option of a command stands for.

    Attributes
    ----------
    text
        `section.key=value`, as `--set` takes it.
    origin
        The option as it was typed, for messages.
    """

    text: str
    origin: str


Overrides = Sequence[str | Override]
"""Settings of the command line: words of `--set`, and options that stand for a setting."""


@dataclass(frozen=True)
class Settings:
    """Everything that was set, by section.

    Attributes
    ----------
    folder
        That of the settings file; relative paths in settings are relative to it.
    balancers
        The sections that a `Section` describes, checked, by name.
    """

    folder: Path
    balancers: Mapping[str, Any]
    _file: Mapping[str, Table]
    _texts: Mapping[str, SettingTexts]
    _environment: Mapping[str, SettingValue]
    _sections: Sections

    def of(self, section: Section[T]) -> T:
        """The section of a balancer, checked."""
        found: T = self.balancers[section.name]
        return found

    def section(self, name: str, kind: type[T]) -> T:
        """Another section as the frozen dataclass of the room that reads it.

        Raises
        ------
        SettingsError
            If a key is unknown or a value does not fit.
        """
        return bind(kind, self._merged(name, key_paths(kind)), name, self.folder)

    def bound(self, section: Section[T]) -> T:
        """The section of a balancer, checked now.

        Raises
        ------
        SettingsError
            If a key is unknown or a value does not fit.
        """
        return section.bound(self._merged(section.name, section.key_paths), self.folder)

    @property
    def environment(self) -> Mapping[str, SettingValue]:
        """Environment variables that begin with `TRIMTAB_`."""
        return self._environment

    def is_set(self, name: str) -> bool:
        """Whether any value is given for a section."""
        prefix = f"TRIMTAB_{name.upper()}_"
        named = any(variable.startswith(prefix) for variable in self._environment)
        return named or bool(self._texts.get(name)) or name in self._file

    def check_keys(self, section: Section[Any]) -> None:
        """Check the names and types of a section's values, whether or not it is complete.

        Raises
        ------
        SettingsError
            If a key is unknown or a value has the wrong type.
        """
        section.check_keys(self._merged(section.name, section.key_paths), self.folder)

    def without_one(self, name: str) -> Iterator[tuple[str, Settings]]:
        """The values that were given for a section, each as messages name it, and the settings without it."""
        for path in _leaves(self._file.get(name, {})):
            left = {**self._file, name: _without(self._file[name], path)}
            yield ".".join((name, *path)), replace(self, _file=left)
        words = self._texts.get(name, ())
        for place, (_, given) in enumerate(words):
            yield (
                given.origin,
                replace(self, _texts={**self._texts, name: words[:place] + words[place + 1 :]}),
            )
        for variable in self._environment:
            if variable.startswith(f"TRIMTAB_{name.upper()}_"):
                others = {one: self._environment[one] for one in self._environment if one != variable}
                yield variable, replace(self, _environment=others)

    def values(self, name: str) -> Table:
        """The values of a section with their origins, for a room that binds them itself."""
        return self._merged(name, None)

    def table(self, name: str) -> dict[str, object]:
        """The values of a section without their origins."""
        return plain_table(self.values(name))

    def _merged(self, section: str, paths: list[tuple[str, ...]] | None) -> Table:
        table = _copy(self._file.get(section, {}))
        prefix = f"TRIMTAB_{section.upper()}_"
        for variable, given in self._environment.items():
            if variable.startswith(prefix):
                path = _path_of(variable, variable[len(prefix) :], paths)
                _put(table, section, self._eager(section), path, given)
        for path, given in self._texts.get(section, ()):
            _put(table, section, self._eager(section), path, given)
        return table

    def _eager(self, name: str) -> Section[Any] | None:
        """The section of a balancer; None for sections made on request, which have no key per resource."""
        found = self._sections.get(name)
        return found if isinstance(found, Section) else None


def load_settings(
    path: Path | None,
    overrides: Overrides,
    environ: Mapping[str, str],
    sections: Sections,
) -> Settings:
    """Read the settings file and lay the environment and the overrides over it.

    Parameters
    ----------
    path
        The settings file; None for that of `TRIMTAB_SETTINGS`, else `trimtab.toml` in the working folder if
        there is one, else none.
    overrides
        Each `section.key=value`, as given to `--set`, or an option that stands for one; the value is read as
        TOML, or as plain text where it is none.
    environ
        The environment.
    sections
        The tables that there may be, also those of the balancers.

    Raises
    ------
    SettingsError
        If the file is no TOML, a section or key is unknown, or a value has the wrong type or is out of range.
    """
    unchecked = read_unchecked(path, overrides, environ, sections)
    levels: dict[str, object] = {}
    for name, one in sections.items():
        if isinstance(one, Section):
            levels[name] = unchecked.bound(one)
        elif one is not None and unchecked.is_set(name):
            check_section(unchecked, one())
    return replace(unchecked, balancers=levels)


def check_section(settings: Settings, section: Section[T]) -> T | None:
    """The section bound; where a file may give it in part, its keys are checked and it is None.

    Raises
    ------
    SettingsError
        If a key is unknown or a value does not fit.
    """
    if any(_is_required(field) for field in fields(cast("Any", section.kind))):
        settings.check_keys(section)
        return None
    return settings.bound(section)


def _is_required(field: Field[object]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _reject(fault: SettingsError) -> None:
    raise fault


def read_unchecked(
    path: Path | None,
    overrides: Overrides,
    environ: Mapping[str, str],
    sections: Sections,
    report: Callable[[SettingsError], None] = _reject,
) -> Settings:
    """The same, with no section checked, and `tell` told of what belongs to none, which is left out.

    Raises
    ------
    SettingsError
        If the file is no TOML.
    """
    path = settings_file(path, environ)
    file = {} if path is None else _read(path, sections, report)
    words: dict[str, SettingTexts] = {}
    for override in overrides:
        try:
            section, keys, given = _override(override, sections)
        except SettingsError as error:
            report(error)
            continue
        words[section] = (*words.get(section, ()), (keys, given))
    environment = {
        name: SettingValue(value, f"environment variable {name}", as_text=True)
        for name, value in sorted(environ.items())
        if name.startswith("TRIMTAB_")
    }
    folder = Path() if path is None else path.parent
    return Settings(folder, {}, file, words, environment, sections)


def settings_file(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The settings file: given, of `TRIMTAB_SETTINGS`, of the working folder, or of the user; or None."""
    if path is None and environ.get("TRIMTAB_SETTINGS"):
        return Path(environ["TRIMTAB_SETTINGS"]).expanduser()
    if path is not None:
        return path
    home = environ.get("XDG_CONFIG_HOME") or (f"{environ['HOME']}/.config" if environ.get("HOME") else None)
    usual = [Path(DEFAULT_FILE), *([] if home is None else [Path(home) / "trimtab" / DEFAULT_FILE])]
    return next((one for one in usual if one.is_file()), None)


def _read(path: Path, sections: Sections, report: Callable[[SettingsError], None]) -> dict[str, Table]:
    data = read_bytes(path)
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as fault:
        raise SettingsError(f"{path}: byte {fault.start} is not UTF-8; save the file as UTF-8") from None
    except tomllib.TOMLDecodeError as fault:
        raise SettingsError(f"{path}: is not TOML: {fault}; correct it there") from None
    except RecursionError:
        raise SettingsError(f"{path}: is nested too deeply; no settings are") from None
    tables: dict[str, Table] = {}
    for name, value in document.items():
        try:
            _check_section(str(path), name, sections)
            table = _set_values(value, str(path))
            if isinstance(table, SettingValue):
                raise SettingsError(f"{path}: {name} is a value, expected a table; write [{name}]")
        except SettingsError as error:
            report(error)
            continue
        tables[name] = table
    return tables


def _set_values(value: object, origin: str) -> SettingValue | Table:
    if isinstance(value, dict):
        return {name: _set_values(inner, origin) for name, inner in value.items()}
    return SettingValue(value, origin)


def _override(values: str | Override, sections: Sections) -> tuple[str, tuple[str, ...], SettingValue]:
    one = Override(values, f"--set {values}") if isinstance(values, str) else values
    dotted, equals, value = one.text.partition("=")
    section, *keys = dotted.strip().split(".")
    if not equals or not keys or not all(keys):
        raise SettingsError(f"{one.origin}: expected section.key=value, like --set replicas.epsilon=0.1")
    _check_section(one.origin, section, sections)
    return section, tuple(keys), SettingValue(value.strip(), one.origin, as_text=True)


def _check_section(origin: str, name: str, known: Sections) -> None:
    if name not in known:
        hint = did_you_mean(name, known, f"known are {', '.join(known)}")
        raise SettingsError(f"{origin}: there is no section [{name}]; {hint}")


def _path_of(variable: str, rest: str, paths: list[tuple[str, ...]] | None) -> tuple[str, ...]:
    """The key that a variable stands for; both words of a key and tables are parted by `_` there."""
    if paths is None:
        return (rest.lower(),)
    by_variable = {"_".join(path).upper(): path for path in paths}
    if rest not in by_variable:
        hint = did_you_mean(rest, by_variable, "unset it", variable[: -len(rest)])
        raise SettingsError(f"environment variable {variable} is not a setting; {hint}")
    return by_variable[rest]


def _put(
    table: Table, name: str, section: Section[object] | None, path: tuple[str, ...], values: SettingValue
) -> None:
    """Lay a value over those of a table, at the path of its key."""
    for depth, key in enumerate(path[:-1]):
        inner = table.setdefault(key, {})
        if isinstance(inner, SettingValue):
            if section is None or depth or key not in section.per_resource:
                raise unknown_key(".".join((name, *path)), values, [".".join((name, *path[: depth + 1]))])
            # One number for all resources was given before: now one of them is set apart.
            inner = table[key] = dict.fromkeys(section.resources, inner)
        table = inner
    table[path[-1]] = values


def _leaves(table: Table) -> Iterator[tuple[str, ...]]:
    for name, given in table.items():
        if isinstance(given, SettingValue) or not given:
            yield (name,)
        else:
            yield from ((name, *path) for path in _leaves(given))


def _without(table: Table, path: tuple[str, ...]) -> Table:
    left = dict(table)
    inner = left.pop(path[0])
    if not isinstance(inner, SettingValue) and (rest := _without(inner, path[1:]) if path[1:] else {}):
        left[path[0]] = rest
    return left


def _copy(table: Table) -> Table:
    return {name: given if isinstance(given, SettingValue) else _copy(given) for name, given in table.items()}
