"""Settings: defaults, then `trimtab.toml`, then the environment, then `--set`; a later one wins.

Every key `[section] key` is also `--set section.key=value`, and environment variable `TRIMTAB_SECTION_KEY`.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from trimtab.files.binding import (
    Section,
    Sections,
    SettingValue,
    Table,
    bind,
    key_paths,
    plain_table,
    unknown_key,
)
from trimtab.files.reading import read_bytes
from trimtab.model.errors import SettingsError, did_you_mean

T = TypeVar("T")
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

    def without_one(self, name: str) -> Iterator[tuple[str, "Settings"]]:
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
        """The same without origins."""
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
    levels: dict[str, Any] = {}
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


def _is_required(field: Field[Any]) -> bool:
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
    """The file that is meant; None where there is none."""
    if path is None and environ.get("TRIMTAB_SETTINGS"):
        return Path(environ["TRIMTAB_SETTINGS"]).expanduser()
    if path is None and Path(DEFAULT_FILE).is_file():
        return Path(DEFAULT_FILE)
    return path


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
    table: Table, name: str, section: Section[Any] | None, path: tuple[str, ...], values: SettingValue
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
