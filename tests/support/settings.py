"""Settings that hold one table, as a file would, and the keys of one cluster."""

from collections.abc import Mapping
from pathlib import Path

from trimtab.balancers.settings import SECTIONS
from trimtab.systems.connection import ClusterTable
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


def cluster_table(
    table: Mapping[str, object], environment: Mapping[str, str] | None = None, folder: Path = Path()
) -> ClusterTable:
    """The keys of `[clusters.prod]` in a settings file in `folder`, read in an environment."""
    return ClusterTable(
        "clusters.prod",
        {key: SettingValue(value, "trimtab.toml") for key, value in table.items()},
        folder,
        {
            name: SettingValue(value, f"environment variable {name}", as_text=True)
            for name, value in (environment or {}).items()
        },
    )
