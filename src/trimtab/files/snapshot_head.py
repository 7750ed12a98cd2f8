"""What every file of ours says of itself first: format, cluster, time, and how far it can be trusted."""

import datetime
import math
import re
from typing import Any

from trimtab.files.document import shown
from trimtab.model.errors import InputError
from trimtab.model.snapshot import Quality

CPU_SIGNALS = ("measured", "shares", "absent")


def checked_head(where: str, cluster: object, taken_at: object) -> tuple[str, str]:
    """Check which cluster a snapshot is of, and of when.

    Parameters
    ----------
    where
        The file, for messages.
    cluster, taken_at
        As found in the file.

    Returns
    -------
    tuple of str
        `cluster` and `taken_at`.

    Raises
    ------
    InputError
        If the cluster has no name, or the time is no RFC 3339 timestamp.
    """
    if not isinstance(cluster, str) or not cluster:
        raise InputError(
            f"{where}: $.cluster is {shown(cluster)}, expected the cluster's name; correct it there"
        )
    return cluster, checked_time(where, "$.taken_at", taken_at)


def checked_format(where: str, found: object, expected: str) -> None:
    """Refuse a file of another format or version."""
    if found == expected:
        return
    family, _, version = expected.rpartition("/")
    if isinstance(found, str) and found.startswith(f"{family}/"):
        remedy = f"this trimtab reads version {version}; use the trimtab that wrote it"
    else:
        remedy = "name a file of that format"
    raise InputError(f"{where}: $.format is {shown(found)}, expected {shown(expected)}; {remedy}")


def checked_time(where: str, at: str, found: object) -> str:
    """Return `found` if it is an RFC 3339 timestamp with its offset, else refuse it."""
    if isinstance(found, str) and re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", found, re.ASCII
    ):
        try:
            datetime.datetime.fromisoformat(
                found[:19] + "+00:00" if found.endswith("Z") else found[:19] + found[-6:]
            )
            return found
        except ValueError:
            pass
    raise InputError(
        f"{where}: {at} is {shown(found)}, expected a time like 2026-11-21T05:00:00Z; correct it there"
    )


def checked_quality(where: str, found: object) -> Quality:
    """The quality of a snapshot, with the user's own `x_` facts.

    Raises
    ------
    InputError
        If a field is missing, unknown, or out of its range.
    """
    if not isinstance(found, dict):
        raise InputError(f"{where}: $.quality is {shown(found)}, expected an object; correct it there")
    known = ("valid_share", "oldest_sample_seconds", "cpu")
    for name in found:
        if name not in known and not name.startswith("x_"):
            raise InputError(
                f'{where}: $.quality has an unknown field "{name}"; fields of your own begin with x_'
            )
    for name in known:
        if name not in found:
            raise InputError(f'{where}: $.quality has no field "{name}"; add it')
    share, age, cpu = (found[name] for name in known)
    if not _is_number(share) or not 0 <= share <= 1:
        raise InputError(
            f"{where}: $.quality.valid_share is {shown(share)}, expected a number from 0 to 1; correct it"
        )
    if not _is_number(age) or not 0 <= age < math.inf:
        raise InputError(
            f"{where}: $.quality.oldest_sample_seconds is {shown(age)}, expected 0 or more; correct it there"
        )
    if cpu not in CPU_SIGNALS:
        raise InputError(
            f"{where}: $.quality.cpu is {shown(cpu)}, expected one of {', '.join(CPU_SIGNALS)}; correct it"
        )
    extra = tuple((name, found[name]) for name in sorted(found) if name.startswith("x_"))
    return Quality(float(share), float(age), str(cpu), extra)


def quality_record(quality: Quality) -> dict[str, Any]:
    """The inverse of `checked_quality`."""
    return {
        "valid_share": quality.valid_share,
        "oldest_sample_seconds": quality.oldest_sample_seconds,
        "cpu": quality.cpu,
        **dict(quality.extra),
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
