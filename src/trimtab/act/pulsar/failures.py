"""Errors of Pulsar's admin API as failures that an execution understands."""

from trimtab.act.execution.failure import Failure
from trimtab.act.port import PortError
from trimtab.connect.pulsar import PulsarAdminError

NO_ANSWER = "no answer"


def failure_of(error: PulsarAdminError) -> Failure:
    """What a refused or unanswered request means; the code is the HTTP status."""
    code = NO_ANSWER if error.status is None else str(error.status)
    # Pulsar says 500 for what passes (a bundle being unloaded) and for what does not alike.
    return Failure(code, str(error), transient=error.transient or code == "500")


def port_error(error: PulsarAdminError) -> PortError:
    """The same as the failure of a whole call."""
    return PortError(failure_of(error))
