"""A Kafka connection in the Java client's words."""

from __future__ import annotations

from pathlib import Path

from trimtab.systems.kafka.settings import KafkaConnection, spark_options


def test_plain_connection_needs_only_addresses() -> None:
    """Two brokers, nothing else."""
    options = spark_options(KafkaConnection(("a:1", "b:2")))
    assert options == {"kafka.bootstrap.servers": "a:1,b:2", "kafka.security.protocol": "PLAINTEXT"}


def test_scram_over_tls_carries_trust_user_and_escaped_password(tmp_path: Path) -> None:
    """A password with quotes must not end the login line early."""
    authority = tmp_path / "ca.pem"
    authority.write_text("x")
    options = spark_options(
        KafkaConnection(
            ("a:1",),
            security_protocol="SASL_SSL",
            tls_ca=authority,
            tls_verify_hostname=False,
            sasl_mechanism="SCRAM-SHA-512",
            user="tim",
            password='a"b\\c',
        )
    )
    assert options["kafka.ssl.truststore.type"] == "PEM"
    assert options["kafka.ssl.truststore.location"] == str(authority)
    assert options["kafka.ssl.endpoint.identification.algorithm"] == ""
    assert options["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert options["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="tim" password="a\\"b\\\\c";'
    )
