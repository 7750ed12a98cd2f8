"""The errors of the control plane, and the findings of a check; `trimtab_common.errors` has the errors' root.

An infeasible plan is a result (`trimtab.model.plan.Plan.verdict`), never an exception. A finding is one thing
that a check looked at, and whether it will do.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

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


class FindingStatus(StrEnum):
    """Whether a thing will do."""

    FINE = "fine"
    MISSING = "missing"
    """Something is not there, and plans can be made without it."""
    BROKEN = "broken"
    """A command would end with an error here."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    part
        Under which heading it belongs: `settings`, `folders`, the title of a system.
    subject
        The thing itself, in a few words.
    text
        How it is, and what that means.
    remedy
        What to do about it; empty where it is fine, or where `text` says it already.
    """

    part: str
    subject: str
    grade: FindingStatus
    text: str
    remedy: str = ""


def fine(part: str, subject: str, text: str) -> Finding:
    """A thing that will do."""
    return Finding(part, subject, FindingStatus.FINE, text)


def missing(part: str, subject: str, text: str, remedy: str = "") -> Finding:
    """A thing that is not there, and that plans can do without."""
    return Finding(part, subject, FindingStatus.MISSING, text, remedy)


def broken(part: str, subject: str, text: str, remedy: str = "") -> Finding:
    """A thing over which a command would stumble."""
    return Finding(part, subject, FindingStatus.BROKEN, text, remedy)


def exit_code_of(findings: Iterable[Finding]) -> int:
    """0 if all is fine, 1 if something is missing, 2 if something is broken."""
    grades = {one.grade for one in findings}
    return 2 if FindingStatus.BROKEN in grades else 1 if FindingStatus.MISSING in grades else 0
