"""The tables of `trimtab.toml`: a section for every level and system, and those that all share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trimtab.files.binding import Sections
from trimtab.files.settings import Settings, load_settings
from trimtab.levels import LEVELS, Level, Option, systems
from trimtab.model.errors import SettingsError

SECTIONS: Final[Sections] = {
    **{level.name: level.settings() for level in LEVELS.values()},
    **dict.fromkeys(system.name for system in systems()),
    **dict.fromkeys(("collect", "capacity", "pipeline", "spark", "execution")),
}
"""By name; None for a table that is bound by the room that reads it."""


def read_settings(file: Path | None, overrides: Sequence[str], environ: Mapping[str, str]) -> Settings:
    """The settings in force: defaults, then the file, then the environment, then overrides.

    Raises
    ------
    SettingsError
        If a section or a key is unknown, or a value does not fit.
    """
    return load_settings(file, overrides, environ, SECTIONS)


def words_of(options: Iterable[Option], given: Mapping[str, Any]) -> tuple[str, ...]:
    """The options given that are a short way to write a setting, as overrides `section.key=value`."""
    words = []
    for option in options:
        value = given.get(option.name)
        if option.setting is not None and value not in (None, False, []):
            text = ",".join(value) if isinstance(value, list) else str(value)
            text = _table_of(option, value) if option.table else text
            words.append(f"{option.setting}={'true' if value is True else text}")
    return tuple(words)


def _table_of(option: Option, words: Iterable[str]) -> str:
    """Words `NAME=NUMBER` as a table in one line of TOML."""
    table: dict[str, int] = {}
    for word in words:
        name, _, number = (part.strip() for part in word.rpartition("="))
        if not name or not (number.isascii() and number.isdigit()):
            raise SettingsError(f"{option.flag} {word}: expected NAME=NUMBER, like orders=3")
        if table.setdefault(name, int(number)) != int(number):
            raise SettingsError(f"{option.flag} {word}: {name} was given {table[name]} before; name it once")
    return "{" + ", ".join(f"{json.dumps(name)} = {number}" for name, number in table.items()) + "}"


def execution_table() -> type[Any]:
    """The dataclass of the table `[execution]`: the keys that all levels share, and those of each."""
    from trimtab.act.execution import settings

    return settings.execution_table(one.acting().settings for one in LEVELS.values())


def pipeline_table() -> type[Any]:
    """The dataclass of the table `[pipeline]`: the keys that all levels share, and those of each."""
    from trimtab.observe.level_pipeline import section_of

    return section_of(one.pipeline() for one in LEVELS.values())


def execution_settings(settings: Settings, level: Level) -> Any:
    """The settings of executions of a level, out of the table `[execution]` that all levels share.

    Raises
    ------
    SettingsError
        If a key is unknown or a value does not fit.
    """
    from trimtab.act.execution.settings import of_level

    return of_level(settings.section("execution", execution_table()), level.acting().settings)
