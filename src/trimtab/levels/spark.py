"""Spark as commands start it: section `[spark]` of the settings, and options that are short for its keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from trimtab.levels.level import Option, words_of

if TYPE_CHECKING:
    from trimtab.files.settings import Override, Settings
    from trimtab.observe.session import SessionSettings

MASTER: Final = Option(
    "--master", "Spark's master (spark.master); by default it runs here.", setting="spark.master"
)
HEAVY: Final = Option(
    "--heavy",
    "Start slower, run faster: for hours of many partitions (spark.heavy).",
    bool,
    False,
    setting="spark.heavy",
)


def spark_words(given: Mapping[str, Any]) -> tuple[Override, ...]:
    """Those of `MASTER` and `HEAVY` that are given, as overrides of settings."""
    return words_of((MASTER, HEAVY), given)


def spark_settings(settings: Settings, *, heavy: bool = False) -> SessionSettings:
    """The section `[spark]`; `heavy` where the work is long whatever it says."""
    from trimtab.observe.session import SessionSettings

    found = settings.section("spark", SessionSettings)
    return replace(found, heavy=True) if heavy else found
