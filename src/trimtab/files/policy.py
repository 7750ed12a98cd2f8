"""The section `[serve]` of the settings: the policy of a service, and how its keys must fit together."""

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from trimtab.model.policy import Freeze, Policy, Window, weekdays
from trimtab_common.settings import RejectCallback, Section


def _check(policy: Policy, refuse: RejectCallback) -> None:
    for window in policy.windows:
        try:
            weekdays(window.days)
        except ValueError:
            refuse("windows", window.days, "days and ranges of days like mon-fri or sat,sun")
        _check_zone("windows", window, refuse)
    for freeze in policy.freezes:
        if freeze.last < freeze.first:
            refuse("freezes", f"{freeze.first} to {freeze.last}", "a last day that is not before the first")
        _check_zone("freezes", freeze, refuse)
    if policy.drift.end >= policy.drift.begin:
        refuse(
            "drift",
            policy.drift.end,
            f"an end below begin, {policy.drift.begin}: the gap prevents plans without end",
        )
    if policy.max_retry_seconds < policy.retry_seconds:
        refuse(
            "max_retry_seconds", policy.max_retry_seconds, f"at least retry_seconds, {policy.retry_seconds}"
        )


def _check_zone(name: str, one: Window | Freeze, refuse: RejectCallback) -> None:
    try:
        ZoneInfo(one.zone)
    except (ZoneInfoNotFoundError, ValueError):
        refuse(name, one.zone, "a time zone like Europe/Berlin")


SECTION = Section("serve", Policy, check=_check)
