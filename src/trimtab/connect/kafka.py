"""Kafka clients from connection settings, with one clear error where a cluster cannot be used."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
from typing import Any

from trimtab.connect.settings import KafkaConnection, split_address
from trimtab.model.errors import ConnectError, SettingsError

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


def tls_context(connection: KafkaConnection) -> ssl.SSLContext:
    """What we trust and, where brokers ask, who we are.

    Raises
    ------
    SettingsError
        If a PEM file cannot be used.
    """
    context = ssl.create_default_context()
    context.check_hostname = connection.tls_verify_hostname
    try:
        if connection.tls_ca is not None:
            context.load_verify_locations(cafile=connection.tls_ca)
        if connection.tls_certificate is not None:
            context.load_cert_chain(connection.tls_certificate, connection.tls_key)
    except (ssl.SSLError, OSError) as error:
        subject = connection.tls_ca if connection.tls_certificate is None else connection.tls_certificate
        raise SettingsError(
            f"the TLS file {subject} cannot be used ({error}): it must be PEM, and a key must fit its "
            "certificate"
        ) from error
    return context


def _open(client: Any, connection: KafkaConnection, options: dict[str, Any]) -> Any:
    from kafka import errors

    from trimtab.connect.first_contact import REFUSALS, FirstContact

    reach(connection)
    contact = FirstContact()
    try:
        opened = client(**client_options(connection) | {"kafka_client": contact} | options)
    except errors.KafkaError as error:
        contact.close()
        if isinstance(error, REFUSALS):
            raise _refused(connection, error) from error
        raise ConnectError(
            f"Kafka at {_named(connection)} accepts connections but does not answer as Kafka over "
            f"{connection.security_protocol} within {connection.timeout_seconds:g} s: check "
            "kafka.security_protocol against the listener of that port"
        ) from error
    contact.made()
    return opened


def reach(connection: KafkaConnection) -> None:
    """Make sure that one bootstrap broker accepts a connection, and a TLS handshake where TLS is asked.

    The client retries such failures until its time is up and then says only that it could not bootstrap;
    asking first turns them into one sentence.

    Raises
    ------
    ConnectError
        If none does.
    """
    context = tls_context(connection) if connection.uses_tls else None
    problems = []
    for address in connection.bootstrap:
        host, port = split_address(address)
        try:
            with socket.create_connection((host, port), connection.timeout_seconds) as plain:
                if context is not None:
                    with contextlib.closing(context.wrap_socket(plain, server_hostname=host)):
                        pass
                return
        except ssl.SSLCertVerificationError as error:
            raise ConnectError(
                f"the certificate of Kafka at {address} is not trusted ({error.verify_message}): "
                "name the authority that signed it with kafka.tls_ca"
            ) from error
        except (ssl.SSLError, ConnectionResetError) as error:
            if context is None:
                problems.append(f"{address}: {error}")
                continue
            raise ConnectError(
                f"Kafka at {address} does not speak TLS as we do ({error}): set kafka.security_protocol to "
                "what its listener offers, and kafka.tls_certificate if it asks for one"
            ) from error
        except TimeoutError:
            problems.append(f"{address}: no answer in {connection.timeout_seconds:g} s")
        except socket.gaierror:
            problems.append(f"{address}: no such host")
        except OSError as error:
            problems.append(f"{address}: {error.strerror or error}")
    raise ConnectError(
        f"no Kafka broker can be reached ({'; '.join(problems)}): check that it runs and that the address "
        "and port are right"
    )


def _refused(connection: KafkaConnection, error: BaseException) -> ConnectError:
    from kafka.errors import UnsupportedSaslMechanismError

    if isinstance(error, UnsupportedSaslMechanismError):
        return ConnectError(
            f"Kafka at {_named(connection)} does not offer {connection.sasl_mechanism}: set "
            "kafka.sasl_mechanism to one it offers"
        )
    return ConnectError(
        f"Kafka at {_named(connection)} refuses user {connection.user!r} with {connection.sasl_mechanism}: "
        "check kafka.user and the password"
    )


def _named(connection: KafkaConnection) -> str:
    return ", ".join(connection.bootstrap)
