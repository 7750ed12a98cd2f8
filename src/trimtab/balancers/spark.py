"""Spark as commands start it: section `[spark]` of the settings, and options that are short for its keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from trimtab.balancers.balancer import Option, setting_overrides

if TYPE_CHECKING:
    from trimtab.observe.spark.session import SessionSettings
    from trimtab_common.settings import Override, Settings

MASTER: Final = Option("--master", "Spark master (spark.master); default: local.", setting="spark.master")
HEAVY: Final = Option(
    "--large-job",
    "Slower start, faster execution, for hours of many partitions (spark.large_job).",
    bool,
    False,
    setting="spark.large_job",
)


def spark_overrides(values: Mapping[str, Any]) -> tuple[Override, ...]:
    """Those of `MASTER` and `HEAVY` that are given, as overrides of settings."""
    return setting_overrides((MASTER, HEAVY), values)


def spark_settings(settings: Settings, *, heavy: bool = False) -> SessionSettings:
    """The section `[spark]`; `heavy` where the work is long whatever it says."""
    from trimtab.observe.spark.session import SessionSettings

    found = settings.section("spark", SessionSettings)
    return replace(found, large_job=True) if heavy else found
