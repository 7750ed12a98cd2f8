"""Settings: defaults, then `trimtab.toml`, then the environment, then `--set`; a later one wins.

Every key `[section] key` is also `--set section.key=value`, and environment variable `TRIMTAB_SECTION_KEY`.
"""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from trimtab.files.bundles_settings import bundles_settings
from trimtab.files.limit_settings import PER_RESOURCE
from trimtab.files.reading import read_bytes
from trimtab.files.replicas_settings import checked_replicas, replicas_settings
from trimtab.files.settings_binding import Given, Table, bind, key_paths, plain_table, unknown_key
from trimtab.model import bundles_snapshot
from trimtab.model.bundles_settings import BundlesSettings
from trimtab.model.errors import SettingsError
from trimtab.model.load import RESOURCES
from trimtab.model.settings import ReplicasSettings

T = TypeVar("T")

SECTIONS = ("replicas", "bundles", "kafka", "pulsar", "collect", "pipeline", "execution", "capacity")
"""Tables of the settings file; all but `replicas` and `bundles` are bound by the room that reads them."""

DEFAULT_FILE = "trimtab.toml"

_RESOURCES = {"replicas": RESOURCES, "bundles": bundles_snapshot.RESOURCES}
"""What a table of θ or ε may name, by section."""


@dataclass(frozen=True)
class Settings:
    """Everything that was set, by section.

    Attributes
    ----------
    replicas
        The section `[replicas]`, checked.
    bundles
        The section `[bundles]`, checked.
    folder
        That of the settings file; relative paths in settings are relative to it.
    """

    replicas: ReplicasSettings
    bundles: BundlesSettings
    folder: Path
    _file: Mapping[str, Table]
    _words: Mapping[str, tuple[tuple[tuple[str, ...], Given], ...]]
    _environment: Mapping[str, Given]

    def section(self, name: str, kind: type[T]) -> T:
        """Another section as the frozen dataclass of the room that reads it.

        Raises
        ------
        SettingsError
            If a key is unknown or a value does not fit.
        """
        return bind(kind, self._merged(name, key_paths(kind, (), ())), name, self.folder)

    def table(self, name: str, texts: Sequence[str] = ()) -> dict[str, object]:
        """Another section as plain values, unchecked, for a room that checks them itself.

        Parameters
        ----------
        name
            Of the section.
        texts
            Keys whose values from the environment or the command line stay text, also where they look like a
            number.
        """
        table = self._merged(name, None)
        kept = {key: given.value for key in texts if isinstance(given := table.get(key), Given)}
        return {**plain_table(table), **kept}

    def _merged(self, section: str, paths: list[tuple[str, ...]] | None) -> Table:
        table = _copy(self._file.get(section, {}))
        prefix = f"TRIMTAB_{section.upper()}_"
        for variable, given in self._environment.items():
            if variable.startswith(prefix):
                _put(table, section, _path_of(variable, variable[len(prefix) :], paths), given)
        for path, given in self._words.get(section, ()):
            _put(table, section, path, given)
        return table


def load_settings(path: Path | None, overrides: Sequence[str], environ: Mapping[str, str]) -> Settings:
    """Read the settings file and lay the environment and the overrides over it.

    Parameters
    ----------
    path
        The settings file; None for that of `TRIMTAB_SETTINGS`, else `trimtab.toml` in the working folder if
        there is one, else none.
    overrides
        Each `section.key=value`, as given to `--set`; the value is read as TOML, or as plain text where it is
        none.
    environ
        The environment.

    Raises
    ------
    SettingsError
        If the file is no TOML, a section or key is unknown, or a value has the wrong type or is out of range.
    """
    if path is None and environ.get("TRIMTAB_SETTINGS"):
        path = Path(environ["TRIMTAB_SETTINGS"]).expanduser()
    if path is None and Path(DEFAULT_FILE).is_file():
        path = Path(DEFAULT_FILE)
    file = {} if path is None else _read(path)
    words: dict[str, tuple[tuple[tuple[str, ...], Given], ...]] = {}
    for override in overrides:
        section, keys, given = _override(override)
        words[section] = (*words.get(section, ()), (keys, given))
    environment = {
        name: Given(value, f"environment variable {name}", as_text=True)
        for name, value in sorted(environ.items())
        if name.startswith("TRIMTAB_")
    }
    unchecked = Settings(
        replicas=ReplicasSettings(),
        bundles=BundlesSettings(),
        folder=Path() if path is None else path.parent,
        _file=file,
        _words=words,
        _environment=environment,
    )
    table = unchecked._merged("replicas", key_paths(ReplicasSettings, PER_RESOURCE, RESOURCES))
    replicas = checked_replicas(replicas_settings(table, unchecked.folder), table)
    table = unchecked._merged("bundles", key_paths(BundlesSettings, PER_RESOURCE, bundles_snapshot.RESOURCES))
    bundles = bundles_settings(table, unchecked.folder)
    return Settings(replicas, bundles, unchecked.folder, file, words, environment)


def _read(path: Path) -> dict[str, Table]:
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
        _check_section(str(path), name)
        table = _given(value, str(path))
        if isinstance(table, Given):
            raise SettingsError(f"{path}: {name} is a value, expected a table; write [{name}]")
        tables[name] = table
    return tables


def _given(value: object, origin: str) -> Given | Table:
    if isinstance(value, dict):
        return {name: _given(inner, origin) for name, inner in value.items()}
    return Given(value, origin)


def _override(text: str) -> tuple[str, tuple[str, ...], Given]:
    dotted, equals, value = text.partition("=")
    section, *keys = dotted.strip().split(".")
    if not equals or not keys or not all(keys):
        raise SettingsError(f"--set {text}: expected section.key=value, like --set replicas.epsilon=0.1")
    _check_section(f"--set {text}", section)
    return section, tuple(keys), Given(value.strip(), f"--set {text}", as_text=True)


def _check_section(origin: str, name: str) -> None:
    if name not in SECTIONS:
        close = difflib.get_close_matches(name, SECTIONS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(SECTIONS)}"
        raise SettingsError(f"{origin}: there is no section [{name}]; {hint}")


def _path_of(variable: str, rest: str, paths: list[tuple[str, ...]] | None) -> tuple[str, ...]:
    """Which key a variable's name stands for; both words of a key and tables are parted by `_` there."""
    if paths is None:
        return (rest.lower(),)
    by_variable = {"_".join(path).upper(): path for path in paths}
    if rest not in by_variable:
        close = difflib.get_close_matches(rest, list(by_variable), n=1)
        hint = f"did you mean {variable[: -len(rest)]}{close[0]}?" if close else "unset it"
        raise SettingsError(f"environment variable {variable} is not a setting; {hint}")
    return by_variable[rest]


def _put(table: Table, section: str, path: tuple[str, ...], given: Given) -> None:
    for depth, name in enumerate(path[:-1]):
        inner = table.setdefault(name, {})
        if isinstance(inner, Given):
            if section not in _RESOURCES or depth or name not in PER_RESOURCE:
                raise unknown_key(
                    ".".join((section, *path)), given, [".".join((section, *path[: depth + 1]))]
                )
            inner = {
                resource: inner for resource in _RESOURCES[section]
            }  # one number for all, then one of them apart
            table[name] = inner
        table = inner
    table[path[-1]] = given


def _copy(table: Table) -> Table:
    return {name: given if isinstance(given, Given) else _copy(given) for name, given in table.items()}
