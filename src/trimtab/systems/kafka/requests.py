"""Requests to one broker, each with its own time-out: the seam between the collector and kafka-python.

The admin client's own calls ask several brokers at once and give nothing when one of them fails, leave out
the error code that tells a refusal from an empty broker, and fetch the metadata of all topics again before
every question about offsets. So the collector sends the protocol's requests itself.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

from trimtab.observe.collect.sampler import RequestError

RETRY_SECONDS = 0.05


class RequestTimeout(RequestError):
    """A broker could not be reached, or gave no answer in time: another one may."""


class NotAuthorized(RequestError):
    """A broker answered that we lack the right to ask this."""


class RequestSender(Protocol):
    """Sends one request of the Kafka protocol and waits for its response."""

    def request(self, request: Any, broker: int | None, timeout_seconds: float) -> Any:
        """The response of `broker`, or of the first that answers where it is None.

        Raises
        ------
        Unanswered
            If there is none within the time.
        """
        ...


class AdminRequestSender:
    """Asks through the connections of a `kafka.KafkaAdminClient`; may be called from many threads."""

    def __init__(self, admin: Any) -> None:
        self._manager = admin._manager

    def request(self, request: Any, broker: int | None, timeout_seconds: float) -> Any:
        """As `RequestSender.request`."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                return self._attempt(request, broker, deadline - time.monotonic())
            except RequestTimeout:
                # The client may pick a broker that died a moment ago; its next pick is another one.
                if broker is not None or time.monotonic() + RETRY_SECONDS > deadline:
                    raise
                time.sleep(RETRY_SECONDS)

    def _attempt(self, request: Any, broker: int | None, timeout_seconds: float) -> Any:
        from kafka import errors

        milliseconds = int(timeout_seconds * 1000)

        async def send() -> Any:
            manager = self._manager
            try:
                future = manager.send(request, node_id=broker, request_timeout_ms=milliseconds)
            except errors.UnknownBrokerIdError:
                # It joined after the client last looked.
                await manager.cluster.refresh_metadata()
                future = manager.send(request, node_id=broker, request_timeout_ms=milliseconds)
            # The request's own time-out does not run while its connection is being set up.
            return await manager.wait_for(future, milliseconds)

        try:
            return self._manager.run(send)
        except (errors.KafkaConnectionError, errors.NodeNotReadyError, errors.KafkaTimeoutError) as error:
            raise RequestTimeout(reason(error)) from error
        except OSError as error:
            raise RequestTimeout(error.strerror or str(error)) from error
        except errors.KafkaError as error:
            raise RequestError(reason(error)) from error
        except Exception as error:
            # Whatever the client makes of one broker's garbage, it must not cost the others' samples.
            raise RequestError(f"an answer that cannot be read ({type(error).__name__}: {error})") from error


def reason(error: BaseException) -> str:
    """A client's error in a few words, without its request and response dumps."""
    name = type(error).__name__.removesuffix("Error")
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()
    return {
        "kafka connection": "no connection",
        "node not ready": "no connection",
        "kafka timeout": "no answer in time",
        "request timed out": "no answer in time",
    }.get(words, words)


def check(code: int) -> None:
    """Raise what an error code of a response says; 0 is none.

    Raises
    ------
    Refused
        For the codes of missing rights.
    Unanswered
        For all others.
    """
    if code == 0:
        return
    from kafka.errors import for_code

    words = reason(for_code(code)())
    raise (NotAuthorized if "authorization" in words else RequestError)(words)
