"""Settings that hold one table, as a file would."""

from collections.abc import Mapping
from pathlib import Path

from trimtab.balancers.settings import SECTIONS
from trimtab_common.settings import Settings, SettingValue


def settings_of(
    section: str, table: Mapping[str, object], environment: Mapping[str, str] | None, folder: Path
) -> Settings:
    """A settings file in `folder` with one table, read in an environment."""
    return Settings(
        folder=folder,
        balancers={},
        _file={section: {key: SettingValue(value, "trimtab.toml") for key, value in table.items()}},
        _texts={},
        _environment={
            name: SettingValue(value, f"environment variable {name}", as_text=True)
            for name, value in (environment or {}).items()
        },
        _sections=SECTIONS,
    )
