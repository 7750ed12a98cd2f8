"""Kafka clients from connection settings, with one clear error where a cluster cannot be used."""

from __future__ import annotations

import logging
from typing import Any

from trimtab.connect.kafka.reach import reach
from trimtab.connect.kafka.settings import KafkaConnection
from trimtab.connect.tls import tls_context
from trimtab.model.errors import ConnectError

# The client warns about every retry; without this Python would print those lines on the user's terminal.
logging.getLogger("kafka").addHandler(logging.NullHandler())


def admin_client(connection: KafkaConnection, **options: Any) -> Any:
    """An admin client that has already spoken to the cluster.

    Parameters
    ----------
    connection
        Where and as whom.
    options
        Further keyword arguments of `kafka.KafkaAdminClient`.

    Raises
    ------
    ConnectError
        If no bootstrap broker answers, TLS fails, or the user is refused, within about `timeout_seconds`.
    """
    from kafka import KafkaAdminClient

    return _open(KafkaAdminClient, connection, options)


def producer(connection: KafkaConnection, **options: Any) -> Any:
    """A `kafka.KafkaProducer`; errors as in `admin_client`."""
    from kafka import KafkaProducer

    return _open(KafkaProducer, connection, options)


def consumer(connection: KafkaConnection, **options: Any) -> Any:
    """A `kafka.KafkaConsumer` without subscription; errors as in `admin_client`."""
    from kafka import KafkaConsumer

    return _open(KafkaConsumer, connection, options)


def client_options(connection: KafkaConnection) -> dict[str, Any]:
    """The connection as keyword arguments of any kafka-python client."""
    options: dict[str, Any] = {
        "bootstrap_servers": list(connection.bootstrap),
        "client_id": connection.client_id,
        "security_protocol": connection.security_protocol,
        "bootstrap_timeout_ms": int(connection.timeout_seconds * 1000),
    }
    if connection.uses_tls:
        options["ssl_context"] = tls_context(connection)
    if connection.uses_sasl:
        options["sasl_mechanism"] = connection.sasl_mechanism
        options["sasl_plain_username"] = connection.user
        options["sasl_plain_password"] = connection.password
    return options


def _open(client: Any, connection: KafkaConnection, options: dict[str, Any]) -> Any:
    from kafka.errors import KafkaError
    from kafka.net.compat import KafkaNetClient

    networks: list[Any] = []

    def network(**settings: Any) -> Any:
        networks.append(KafkaNetClient(**settings))
        return networks[-1]

    reach(connection)
    try:
        return client(**client_options(connection) | {"kafka_client": network} | options)
    except KafkaError as error:
        # A client that could not be made leaves its network thread behind (kafka-python 3.0.12).
        for half in networks:
            half.close()
            half._net.stop()
        raise ConnectError(
            f"Kafka at {', '.join(connection.bootstrap)} accepts the connection but no request over "
            f"{connection.security_protocol} within {connection.timeout_seconds:g} s: check "
            "kafka.security_protocol, and whether the addresses that brokers advertise can be reached "
            "from here"
        ) from error
