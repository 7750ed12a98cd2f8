"""Settings that hold one table, as a file would."""

from collections.abc import Mapping
from pathlib import Path

from trimtab.files.binding import Given
from trimtab.files.settings import Settings
from trimtab.levels.settings import SECTIONS


def settings_of(
    section: str, table: Mapping[str, object], environment: Mapping[str, str] | None, folder: Path
) -> Settings:
    """A settings file in `folder` with one table, read in an environment."""
    return Settings(
        folder=folder,
        levels={},
        _file={section: {key: Given(value, "trimtab.toml") for key, value in table.items()}},
        _words={},
        _environment={
            name: Given(value, f"environment variable {name}", as_text=True)
            for name, value in (environment or {}).items()
        },
        _sections=SECTIONS,
    )
