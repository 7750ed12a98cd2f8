"""The section `[bundles]` of the settings, and the ranges of its keys."""

from trimtab.model.bundles.plan import OUTSIDE_POLICY, UNOWNED, BundlesSettings
from trimtab.model.bundles.snapshot import RESOURCES
from trimtab_common.settings import (
    RejectCallback,
    Section,
    check_fractions,
    check_idle_usage,
    check_not_negative,
)


def _check(settings: BundlesSettings, refuse: RejectCallback) -> None:
    check_fractions(settings, refuse)
    check_idle_usage(settings, refuse)
    numbers = ("grace_seconds", "max_unloads", "max_sessions", "seed", "time_budget_seconds")
    check_not_negative(settings, numbers, refuse)
    if not 1 <= settings.max_bundles_per_namespace < 2**31:
        refuse("max_bundles_per_namespace", settings.max_bundles_per_namespace, "1 or more")
    if settings.unowned_bundles not in UNOWNED:
        refuse("unowned_bundles", settings.unowned_bundles, f"one of {', '.join(UNOWNED)}")
    if settings.policy_violations not in OUTSIDE_POLICY:
        refuse("policy_violations", settings.policy_violations, f"one of {', '.join(OUTSIDE_POLICY)}")
    if not all(settings.excluded_namespaces):
        refuse(
            "excluded_namespaces", list(settings.excluded_namespaces), "names or patterns that are not empty"
        )


SECTION = Section("bundles", BundlesSettings, ("theta", "epsilon"), RESOURCES, _check)
