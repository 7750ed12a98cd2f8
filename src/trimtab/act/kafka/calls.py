"""Calls through kafka-python's admin client: what it lacks, and every failure as a `PortError`.

Three calls go past the client's public methods, because those cannot say what is needed: reassignments that
must not change the replication factor (KIP-860), dynamic settings of the cluster-wide default (the broker
resource with the empty name), and errors per partition instead of one exception.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from trimtab.act.execution.messages import Failure
from trimtab.act.port import PortError

_T = TypeVar("_T")


class Calls:
    """One connected admin client, asked so that its weaknesses do not show.

    Parameters
    ----------
    admin
        A `kafka.KafkaAdminClient`.
    """

    def __init__(self, admin: Any) -> None:
        self.admin = admin

    def __call__(self, call: Callable[[], _T]) -> _T:
        """The answer to a call; every failure of the client as a `PortError`."""
        from kafka.errors import KafkaError, UnknownBrokerIdError

        try:
            try:
                return call()
            except UnknownBrokerIdError:
                # The broker came back after the client last looked who there is, which may be minutes ago.
                # Nothing has been changed: the request that changes something is the one that was not sent.
                self.admin._manager.run(self.admin._manager.cluster.refresh_metadata)
                return call()
        except (KafkaError, OSError) as error:
            # The client keeps asking the node it once took for the controller, dead or not.
            self.admin._controller_id = None
            raise PortError(failure_of(type(error), str(error))) from error
        except RuntimeError as error:
            self.admin._controller_id = None
            if "controller" in str(error):
                raise PortError(Failure("NotController", str(error), transient=True)) from error
            # The client's network thread has ended; a new process, with a new client, may do better.
            raise PortError(Failure("Client", str(error))) from error

    def send_to_any(self, request: Any) -> Any:
        """The answer of any broker to a request of the protocol."""

        async def send() -> Any:
            return await self.admin._manager.send(request)

        return self(lambda: self.admin._manager.run(send))

    def send_to_controller(self, request: Any, top_level_errors: Callable[[Any], Iterable[Any]]) -> Any:
        """The controller's answer to a request of the protocol."""

        async def send() -> Any:
            return await self.admin._send_request_to_controller(request, top_level_errors)

        return self(lambda: self.admin._manager.run(send))


def answer_of(code: int, message: str | None) -> Failure | None:
    """A code of the protocol: None where it says that all is well."""
    from kafka import errors

    error = errors.for_code(code)
    if error is errors.NoError:
        return None
    return failure_of(error, message or "")


def failure_of(error: type, message: str) -> Failure:
    """An error of the client, told apart by whether another try may help."""
    from kafka.errors import UnknownBrokerIdError

    code = error.__name__.removesuffix("Error")
    text = message or (error.__doc__ or "").strip().split("\n")[0]
    # A broker that the client does not know is one that comes or goes.
    transient = issubclass(error, OSError | UnknownBrokerIdError) or bool(getattr(error, "retriable", False))
    return Failure(code, text, transient)
