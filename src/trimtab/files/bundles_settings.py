"""The section `[bundles]`: one number or a table per resource for θ and ε, and the ranges of all keys."""

import dataclasses
from pathlib import Path

from trimtab.files.limit_settings import PER_RESOURCE, bound_limits, check_limits, refusal_of
from trimtab.files.settings_binding import Table, bind
from trimtab.model.bundles_settings import UNOWNED, BundlesSettings
from trimtab.model.bundles_snapshot import RESOURCES


def bundles_settings(table: Table, folder: Path) -> BundlesSettings:
    """Bind and check the section.

    Raises
    ------
    SettingsError
        If a key is unknown, a value has the wrong type, or it is out of its range.
    """
    rest = {name: given for name, given in table.items() if name not in PER_RESOURCE}
    settings = bind(BundlesSettings, rest, "bundles", folder)
    limits = bound_limits(table, "bundles", BundlesSettings(), RESOURCES, folder)
    settings = dataclasses.replace(settings, **limits)  # type: ignore[arg-type]
    refuse = refusal_of(table, "bundles")
    check_limits(settings, refuse)
    for name in ("grace_seconds", "max_unloads", "max_sessions", "seed", "time_budget_seconds"):
        value = getattr(settings, name)
        if value is not None and not 0 <= value < 2**63:
            refuse(name, value, "0 or more")
    if not 0 <= settings.idle_usage < 1:
        refuse("idle_usage", settings.idle_usage, "a fraction, 0 or more and below 1")
    if not 1 <= settings.max_namespace_bundles < 2**31:
        refuse("max_namespace_bundles", settings.max_namespace_bundles, "1 or more")
    if settings.unowned not in UNOWNED:
        refuse("unowned", settings.unowned, f"one of {', '.join(UNOWNED)}")
    if not all(settings.excluded_namespaces):
        refuse(
            "excluded_namespaces", list(settings.excluded_namespaces), "names or patterns that are not empty"
        )
    return settings
