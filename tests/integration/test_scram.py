"""Brokers that demand SCRAM over TLS: the way in, and each way of getting it wrong."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from support.settings import cluster_table
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.kafka.topics import create_topics
from trimtab.lab.sandbox.kafka.workload import KafkaTopicLoad, KafkaWorkload
from trimtab.systems.kafka.client import admin_client, consumer, producer
from trimtab.systems.kafka.settings import KafkaConnection, kafka_connection
from trimtab_common.errors import ConnectError

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaSandbox]:
    """Two brokers whose only listener is SASL_SSL with SCRAM-SHA-512, for clients and for each other."""
    with KafkaSandbox.start(2, scram=True, prometheus=False) as sandbox:
        yield sandbox


def test_the_settings_table_lets_us_in(guarded, tmp_path):
    """A table [clusters.NAME] with a password file gives an admin client that sees both brokers."""
    (tmp_path / "password").write_text(f"{guarded.connection.password}\n")
    connection = kafka_connection(
        cluster_table(
            {
                "bootstrap": guarded.bootstrap,
                "security_protocol": "SASL_SSL",
                "tls_ca": str(guarded.connection.tls_ca),
                "sasl_mechanism": "SCRAM-SHA-512",
                "user": guarded.connection.user,
                "password_file": "password",
            },
            {},
            tmp_path,
        )
    )
    admin = admin_client(connection)
    assert {broker["broker_id"] for broker in admin.describe_cluster()["brokers"]} == {1, 2}
    admin.close()


def test_records_go_through_and_are_copied(guarded):
    """Producer and consumer come in the same way, and the brokers copy to each other over it."""
    create_topics(
        guarded.connection, KafkaWorkload((KafkaTopicLoad("secret", (0.0,), replication_factor=2),))
    )
    sender = producer(guarded.connection, acks="all")
    sender.send("secret", b"hello", partition=0).get(120)
    sender.close()
    from kafka import TopicPartition

    receiver = consumer(guarded.connection, auto_offset_reset="earliest", group_id=None)
    where = TopicPartition("secret", 0)
    receiver.assign([where])
    receiver.seek_to_beginning(where)
    received = receiver.poll(timeout_ms=120_000)
    receiver.close()
    assert [record.value for batch in received.values() for record in batch] == [b"hello"]


@pytest.mark.parametrize("make", [admin_client, producer, consumer])
def test_a_wrong_password_is_reported_with_its_user(guarded, make):
    """Every kind of client names the rejected user, instead of an unreachable cluster."""
    with pytest.raises(ConnectError, match="refuses user 'trimtab' with SCRAM-SHA-512: check"):
        make(replace(guarded.connection, password="wrong"))


def test_an_unsupported_mechanism_is_reported(guarded):
    """A cluster with SCRAM-SHA-512 alone does not let SCRAM-SHA-256 in, and the message names the setting."""
    with pytest.raises(
        ConnectError, match="does not offer SCRAM-SHA-256 but SCRAM-SHA-512: set sasl_mechanism"
    ):
        admin_client(replace(guarded.connection, sasl_mechanism="SCRAM-SHA-256"))


def test_an_untrusted_certificate_is_reported(guarded):
    """Without the cluster's authority the message names the setting that takes it."""
    with pytest.raises(ConnectError, match="is not trusted .* tls_ca"):
        admin_client(replace(guarded.connection, tls_ca=None))


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT", "SSL"])
def test_the_wrong_protocol_is_reported(guarded, protocol):
    """Without TLS or without a user the brokers hang up, and the message names the setting."""
    wrong = replace(
        guarded.connection, security_protocol="SSL", sasl_mechanism=None, user=None, password=None
    )
    if protocol != "SSL":
        wrong = KafkaConnection(guarded.connection.bootstrap)
    if protocol == "SASL_PLAINTEXT":
        wrong = replace(guarded.connection, security_protocol=protocol, tls_ca=None)
    with pytest.raises(ConnectError, match="security_protocol"):
        admin_client(replace(wrong, timeout_seconds=1.0))


def test_tls_towards_plain_brokers_is_reported(three_brokers, guarded):
    """The other way round: TLS in the settings, none on the listener."""
    with pytest.raises(ConnectError, match="does not speak Kafka over SASL_SSL: set security_protocol"):
        admin_client(replace(guarded.connection, bootstrap=three_brokers.connection.bootstrap))
