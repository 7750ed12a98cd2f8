"""The tables of `trimtab.toml`: a section for every balancer, the clusters, and those that all share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from trimtab.balancers import BALANCERS, Balancer
from trimtab.balancers.clusters import clusters_of
from trimtab_common.settings import (
    CLUSTERS,
    Overrides,
    RejectCallback,
    Section,
    Sections,
    Settings,
    load_settings,
)


def _collect_section() -> Section[Any]:
    from trimtab.observe.collect.settings import CollectSettings

    return Section("collect", CollectSettings)


def _capacity_section() -> Section[Any]:
    from trimtab.observe.collect.settings import CapacitySettings

    return Section("capacity", CapacitySettings)


def _lake_section() -> Section[Any]:
    from trimtab.observe.lake.balancer_pipeline import LakeSettings

    return Section("lake", LakeSettings)


def _pipeline_section() -> Section[Any]:
    from trimtab.observe.lake.balancer_pipeline import settings_of

    def check(found: Any, refuse: RejectCallback) -> None:
        settings_of(found, [level.pipeline() for level in BALANCERS.values()])

    return Section("pipeline", pipeline_table(), check=check)


def _spark_section() -> Section[Any]:
    from trimtab.observe.spark.session import SessionSettings

    return Section("spark", SessionSettings)


def _execution_section() -> Section[Any]:
    from trimtab.act.execution.settings import of_balancer

    def check(found: Any, refuse: RejectCallback) -> None:
        for level in BALANCERS.values():
            of_balancer(found, level.executor().settings)

    return Section("execution", execution_table(), check=check)


def _serve_section() -> Section[Any]:
    from trimtab.files.serve_settings import SECTION

    return SECTION


SECTIONS: Final[Sections] = {
    **{level.name: level.settings() for level in BALANCERS.values()},
    CLUSTERS: None,
    "collect": _collect_section,
    "capacity": _capacity_section,
    "lake": _lake_section,
    "pipeline": _pipeline_section,
    "spark": _spark_section,
    "execution": _execution_section,
    "serve": _serve_section,
}
"""By name. Those of the balancers are always bound, the others only where a value is given for them."""


def read_settings(file: Path | None, overrides: Overrides, environ: Mapping[str, str]) -> Settings:
    """The settings in force: defaults, then the file, then the environment, then overrides.

    Raises
    ------
    SettingsError
        If a section or a key is unknown, or a value does not fit.
    """
    found = load_settings(file, overrides, environ, SECTIONS)
    clusters_of(found)  # a fault of one cluster is reported also to commands that use another
    return found


def execution_table() -> type[Any]:
    """The dataclass of the table `[execution]`: the keys that all balancers share, and those of each."""
    from trimtab.act.execution import settings

    return settings.execution_table(one.executor().settings for one in BALANCERS.values())


def pipeline_table() -> type[Any]:
    """The dataclass of the table `[pipeline]`: the keys that all balancers share, and those of each."""
    from trimtab.observe.lake.balancer_pipeline import section_of

    return section_of(one.pipeline() for one in BALANCERS.values())


def execution_settings(settings: Settings, balancer: Balancer) -> Any:
    """The settings of executions of a balancer, out of the table `[execution]` that all balancers share.

    Raises
    ------
    SettingsError
        If a key is unknown or a value does not fit.
    """
    from trimtab.act.execution.settings import of_balancer

    return of_balancer(settings.section("execution", execution_table()), balancer.executor().settings)
