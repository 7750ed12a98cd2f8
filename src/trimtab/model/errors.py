"""The errors of the control plane; `trimtab_common.errors` has their root.

An infeasible plan is a result (`trimtab.model.plan.Plan.verdict`), never an
exception.
"""

from collections.abc import Iterable

from trimtab_common.errors import TrimtabError, did_you_mean

LISTED = 12
"""A message lists all known names where there are at most so many."""


class ObserveError(TrimtabError):
    """Telemetry is missing, unreadable or too old to decide from."""


class PlanError(TrimtabError):
    """A planner was asked for something it does not offer."""

    exit_code = 2


def require_known_names(
    setting: str, names: Iterable[str | int], kind: str, known: Iterable[str | int], taken_at: str
) -> None:
    """Refuse a setting that names what the snapshot does not have; a glob pattern may match nothing.

    Parameters
    ----------
    setting
        Its dotted name.
    kind
        What it names: `topic`, `broker`.
    known
        Everything of that kind in the snapshot.
    taken_at
        The time of the snapshot.

    Raises
    ------
    PlanError
        For the first name that the snapshot does not have.
    """
    there = {str(one): None for one in known}
    for name in map(str, names):
        if name not in there and not set(name) & set("*?["):
            listed = f"; it has {', '.join(there)}" if len(there) <= LISTED else ""
            hint = did_you_mean(name, there, "correct the name or take it out")
            raise PlanError(f"{setting}: the snapshot of {taken_at} has no {kind} {name}{listed}; {hint}")


class ActError(TrimtabError):
    """An execution cannot start or go on as asked."""


class JarsError(TrimtabError):
    """Java or a jar is missing here and cannot be had."""


class SandboxError(TrimtabError):
    """A local cluster cannot be started or stopped here."""
