"""One root error, one child per room.

Every message names its subject, the value found, the limit or form expected, and the remedy, so that it can
be shown to an operator as it is. An infeasible plan is a result (`trimtab.model.plan.Plan.verdict`), never an
exception.
"""


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


class ActError(TrimtabError):
    """An execution cannot start or go on as asked."""


class JarsError(TrimtabError):
    """Java or a jar is missing here and cannot be had."""


class NodeError(TrimtabError):
    """A node of a cluster of ours cannot start or go on."""


class SandboxError(TrimtabError):
    """A local cluster cannot be started or stopped here."""
