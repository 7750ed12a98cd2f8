"""The tables of `trimtab.toml`: a section for every level and system, and those that all share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trimtab.files.binding import Sections
from trimtab.files.settings import Settings, load_settings
from trimtab.levels import LEVELS, Level, systems

SECTIONS: Final[Sections] = {
    **{level.name: level.settings() for level in LEVELS.values()},
    **dict.fromkeys(system.name for system in systems()),
    **dict.fromkeys(("collect", "capacity", "lake", "pipeline", "spark", "execution")),
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
