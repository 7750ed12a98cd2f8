"""One root error, one child per room.

Every message names its subject, the value found, the limit or form expected, and the remedy, so that it can
be shown to an operator as it is. An infeasible plan is a result (`trimtab.model.plan.Plan.verdict`), never an
exception.
"""

import difflib
from collections.abc import Iterable

LISTED = 12
"""A message lists all known names where there are at most so many."""


class TrimtabError(Exception):
    """The root of the errors that end a command; shown without a traceback.

    Attributes
    ----------
    exit_code
        What the command line returns; 2 is bad input or settings, 1 is anything that failed while acting or
        observing.
    """

    exit_code = 1


class InputError(TrimtabError):
    """A file or value that a user handed over is malformed or contradicts itself."""

    exit_code = 2


class SettingsError(InputError):
    """A setting is unknown, of the wrong type or out of range."""


class ConnectError(TrimtabError):
    """A cluster cannot be reached, or refuses us."""


class ObserveError(TrimtabError):
    """Telemetry is missing, unreadable or too old to decide from."""


class PlanError(TrimtabError):
    """A planner was asked for something it does not offer."""

    exit_code = 2


def did_you_mean(name: str, known: Iterable[str], otherwise: str, before: str = "") -> str:
    """The nearest of the known names, after `before`, as a question; other words where none is near."""
    # A number near another one is no slip of spelling.
    close = [] if name.isdigit() else difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {before}{close[0]}?" if close else otherwise


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


class NodeError(TrimtabError):
    """A node of a cluster of ours cannot start or go on."""


class SandboxError(TrimtabError):
    """A local cluster cannot be started or stopped here."""
