"""A Kafka connection in the words of Spark's Kafka source, which are those of the Java client."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimtab.connect.kafka.settings import KafkaConnection


def spark_options(connection: KafkaConnection) -> dict[str, str]:
    """Options of Spark's Kafka source for a connection.

    Parameters
    ----------
    connection
        Where and as whom.

    Returns
    -------
    dict
        Keys begin with `kafka.`; holds the password where there is one, so it must not be shown.
    """
    options = {
        "bootstrap.servers": ",".join(connection.bootstrap),
        "security.protocol": connection.security_protocol,
    }
    if connection.uses_tls:
        if connection.tls_ca is not None:
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(connection.tls_ca)}
        if connection.tls_certificate is not None and connection.tls_key is not None:
            # The Java client reads both from one file; given as text they may stay in two.
            options |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": connection.tls_certificate.read_text(),
                "ssl.keystore.key": connection.tls_key.read_text(),
            }
        if not connection.tls_verify_hostname:
            options["ssl.endpoint.identification.algorithm"] = ""
    if connection.uses_sasl and connection.sasl_mechanism is not None:
        login = "plain.PlainLoginModule" if connection.sasl_mechanism == "PLAIN" else "scram.ScramLoginModule"
        options["sasl.mechanism"] = connection.sasl_mechanism
        options["sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{login} required "
            f"username={_quoted(connection.user or '')} password={_quoted(connection.password or '')};"
        )
    return {f"kafka.{key}": value for key, value in options.items()}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
