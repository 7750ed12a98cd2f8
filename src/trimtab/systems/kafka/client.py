"""Kafka clients from connection settings, with one clear error where a cluster cannot be used.

A client retries whatever goes wrong until its time is up and then says only that it could not bootstrap.
(kafka-python 3.0.12 even loses a refusal: over TLS it drops the broker's answer when the connection closes
right behind it.) So one short conversation comes before any client (`reach`): asking once by ourselves gives
each cause its own sentence.
"""

from __future__ import annotations

import logging
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from trimtab.systems.kafka.settings import KafkaConnection, split_address
from trimtab_common.errors import ConnectError

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
    from kafka.net.compat import KafkaNetClient

# The client warns about every retry; without this Python would print those lines on the user's terminal.
logging.getLogger("kafka").addHandler(logging.NullHandler())

# Kafka's own error codes.
UNSUPPORTED_MECHANISM = 33
LARGEST_ANSWER_BYTES = 1_000_000

ClientT = TypeVar("ClientT")


def admin_client(connection: KafkaConnection, **options: object) -> KafkaAdminClient:
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

    class Admin(KafkaAdminClient):  # type: ignore[misc]
        async def _refresh_controller_id(self, timeout_ms: int = 30_000) -> int:
            # Under KRaft a broker names any live one as controller, perhaps one that joined after this client
            # last looked who there is; kafka-python 3.0.12 then raises UnknownBrokerIdError.
            brokers = self._manager.cluster
            for _ in range(timeout_ms // 100):
                named: int = await super()._refresh_controller_id(timeout_ms)
                if brokers.broker_metadata(named) is not None:
                    break
                await self._net.sleep(0.1)
                await brokers.refresh_metadata()
            return named

    return _open(Admin, connection, options)


@contextmanager
def open_admin(connection: KafkaConnection, **options: object) -> Iterator[KafkaAdminClient]:
    """An admin client that is closed at the end; parameters and errors as in `admin_client`."""
    admin = admin_client(connection, **options)
    try:
        yield admin
    finally:
        admin.close()


def producer(connection: KafkaConnection, **options: object) -> KafkaProducer:
    """A `kafka.KafkaProducer`; errors as in `admin_client`."""
    from kafka import KafkaProducer

    return _open(KafkaProducer, connection, options)


def consumer(connection: KafkaConnection, **options: object) -> KafkaConsumer:
    """A `kafka.KafkaConsumer` without subscription; errors as in `admin_client`."""
    from kafka import KafkaConsumer

    return _open(KafkaConsumer, connection, options)


def client_options(connection: KafkaConnection) -> dict[str, object]:
    """The connection as keyword arguments of any kafka-python client."""
    options: dict[str, object] = {
        "bootstrap_servers": list(connection.bootstrap),
        "client_id": connection.client_id,
        "security_protocol": connection.security_protocol,
        "bootstrap_timeout_ms": int(connection.timeout_seconds * 1000),
    }
    if connection.uses_tls:
        options["ssl_context"] = connection.tls_context()
    if connection.uses_sasl:
        options["sasl_mechanism"] = connection.sasl_mechanism
        options["sasl_plain_username"] = connection.user
        options["sasl_plain_password"] = connection.password
    return options


def _open(client: Callable[..., ClientT], connection: KafkaConnection, options: dict[str, object]) -> ClientT:
    from kafka.errors import KafkaError
    from kafka.net.compat import KafkaNetClient

    networks: list[KafkaNetClient] = []

    def network(**settings: object) -> KafkaNetClient:
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
            "security_protocol, and whether the addresses that brokers advertise can be reached "
            "from here"
        ) from error


class _NotKafkaError(Exception):
    """Something answered that does not speak Kafka as we do."""


def reach(connection: KafkaConnection) -> None:
    """Make sure that one bootstrap broker accepts our connection, our TLS and our user.

    Raises
    ------
    ConnectError
        If none does, naming what each address did; or if one refuses the certificate or the user.
    SettingsError
        If a TLS file cannot be used.
    """
    context = connection.tls_context() if connection.uses_tls else None
    problems = []
    for address in connection.bootstrap:
        host, port = split_address(address)
        try:
            with socket.create_connection((host, port), connection.timeout_seconds) as plain:
                if context is None:
                    _greet(plain, connection, host)
                else:
                    with context.wrap_socket(plain, server_hostname=host) as secure:
                        _greet(secure, connection, host)
                return
        except ssl.SSLCertVerificationError as error:
            raise ConnectError(
                f"the certificate of Kafka at {address} is not trusted ({error.verify_message}): "
                "name the authority that signed it with tls_ca"
            ) from error
        except (ssl.SSLError, _NotKafkaError, ConnectionResetError, BrokenPipeError) as error:
            raise ConnectError(
                f"what listens at {address} does not speak Kafka over {connection.security_protocol}: set "
                "security_protocol to what its listener offers"
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


def _greet(link: socket.socket, connection: KafkaConnection, host: str) -> None:
    """Ask which requests the broker knows, and show our user where there is one."""
    from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

    _request(link, ApiVersionsRequest(version=0), ApiVersionsResponse)
    if connection.uses_sasl:
        _authenticate(link, connection, host)


def _authenticate(link: socket.socket, connection: KafkaConnection, host: str) -> None:
    from kafka.net.sasl import get_sasl_mechanism
    from kafka.protocol.sasl import (
        SaslAuthenticateRequest,
        SaslAuthenticateResponse,
        SaslHandshakeRequest,
        SaslHandshakeResponse,
    )

    offer = SaslHandshakeRequest(version=1, mechanism=connection.sasl_mechanism)
    answer = _request(link, offer, SaslHandshakeResponse)
    if answer.error_code == UNSUPPORTED_MECHANISM:
        raise ConnectError(
            f"Kafka at {host} does not offer {connection.sasl_mechanism} but {', '.join(answer.mechanisms)}: "
            "set sasl_mechanism to one of these"
        )
    if answer.error_code:
        raise _NotKafkaError(f"SaslHandshake is answered by error {answer.error_code}")
    mechanism = get_sasl_mechanism(connection.sasl_mechanism)(
        host=host,
        security_protocol=connection.security_protocol,
        sasl_mechanism=connection.sasl_mechanism,
        sasl_plain_username=connection.user,
        sasl_plain_password=connection.password,
    )
    while not mechanism.is_done():
        token = SaslAuthenticateRequest(version=1, auth_bytes=mechanism.auth_bytes())
        answer = _request(link, token, SaslAuthenticateResponse)
        if answer.error_code:
            raise ConnectError(
                f"Kafka at {host} refuses user {connection.user!r} with {connection.sasl_mechanism}: "
                "check user and password of the cluster"
            )
        mechanism.receive(answer.auth_bytes)


def _request(link: socket.socket, request: Any, response: Any) -> Any:
    """Send one request and read its answer."""
    request.with_header(correlation_id=1, client_id="trimtab")
    link.sendall(request.encode(header=True, framed=True))
    (size,) = struct.unpack(">i", _read(link, 4))
    if not 4 <= size <= LARGEST_ANSWER_BYTES:
        raise _NotKafkaError(f"an answer of {size} bytes")
    try:
        return response.decode(_read(link, size), version=request.API_VERSION, header=True)
    except (ValueError, IndexError, struct.error) as error:
        raise _NotKafkaError(str(error)) from error


def _read(link: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = link.recv(size)
        if not part:
            raise _NotKafkaError("it hung up")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
