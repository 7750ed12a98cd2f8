"""The network half of a Kafka client, which reports a refused user at once.

kafka-python 3.0.12 retries a refused user until its time is up and then says only that it could not
bootstrap; nor does it end its network thread then. Imports the client library: import it late.
"""

from __future__ import annotations

from typing import Any

from kafka.errors import AuthorizationError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError
from kafka.net.compat import KafkaNetClient

REFUSALS = (SaslAuthenticationFailedError, UnsupportedSaslMechanismError, AuthorizationError)


class FirstContact:
    """Makes the network half for one client, and watches it until `made`.

    Given to a client as its documented `kafka_client` setting.
    """

    def __init__(self) -> None:
        self._client: Any = None
        self._refused: BaseException | None = None
        self._watching = True

    def __call__(self, **options: Any) -> Any:
        """The network half, as the client asks for it."""
        self._client = KafkaNetClient(**options)
        manager = self._client._manager
        connect = manager.get_connection

        def get_connection(node: Any, **how: Any) -> Any:
            if self._refused is not None:
                raise self._refused
            connection = connect(node, **how)
            if self._watching:
                connection.init_future.add_errback(self._remember)
            return connection

        manager.get_connection = get_connection
        return self._client

    def made(self) -> None:
        """The first contact is made: a refusal later on may pass, as when a broker restarts."""
        self._watching, self._refused = False, None

    def close(self) -> None:
        """End the network thread of a client that could not be made."""
        if self._client is not None:
            self._client.close()
            self._client._net.stop()

    def _remember(self, error: BaseException) -> None:
        if self._watching and isinstance(error, REFUSALS):
            self._refused = error
