"""The keys of a Kafka cluster: valid values, and errors for others."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from kafka.errors import NodeNotReadyError

from support.settings import cluster_table
from trimtab.act.execution.port import PortError
from trimtab.systems.kafka import calls
from trimtab.systems.kafka.settings import (
    KafkaConnection,
    kafka_connection,
    split_address,
)
from trimtab_common.errors import SettingsError


def connection_from_table(table, environment=None, folder=Path()):
    """The connection of a settings file in `folder` with the table `[clusters.prod]`."""
    return kafka_connection(cluster_table(table, environment, folder))


SCRAM = {
    "bootstrap": "b:9092",
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "user": "ann",
}


def test_an_address_takes_several_brokers():
    """An operator passes the same comma-separated list as to Kafka's own tools."""
    assert connection_from_table({"bootstrap": "a:1, b:2"}).bootstrap == ("a:1", "b:2")


def test_bootstrap_may_be_a_list():
    """In a settings file a list reads better than one long string."""
    assert connection_from_table({"bootstrap": ["a:1", "[::1]:2"]}).bootstrap == ("a:1", "[::1]:2")


def test_ipv6_hosts_stand_in_brackets():
    """An IPv6 address is full of colons, and the last one belongs to the port."""
    assert split_address("[::1]:9092") == ("::1", 9092)


def test_password_is_read_from_the_environment():
    """A password need not stand in any file."""
    assert connection_from_table(SCRAM, {"TRIMTAB_KAFKA_PASSWORD": "s"}).password == "s"


def test_password_file_is_read_without_its_line_end(tmp_path):
    """A secret mounted as a file usually ends in a newline that is not part of it."""
    (tmp_path / "secret").write_text("p w\n")
    connection = connection_from_table(SCRAM | {"password_file": "secret"}, {}, tmp_path)
    assert connection.password == "p w"


def test_password_from_the_environment_precedes_the_file(tmp_path):
    """As with every setting."""
    (tmp_path / "secret").write_text("old", encoding="utf-8")
    table = SCRAM | {"password_file": "secret"}
    assert connection_from_table(table, {"TRIMTAB_KAFKA_PASSWORD": "new"}, tmp_path).password == "new"


def test_a_password_is_taken_as_it_is_written():
    """A value that resembles a number, a list or a quoted text is a text."""
    for word in ("1234", "true", '"quoted"', "a,b"):
        assert connection_from_table(SCRAM, {"TRIMTAB_KAFKA_PASSWORD": word}).password == word


def test_password_is_not_printed():
    """A connection that gets into a log does not give the password away."""
    assert "hush" not in repr(connection_from_table(SCRAM | {"password": "hush"}))


def test_relative_files_count_from_the_settings_file(tmp_path):
    """A settings file and its certificates can be moved together."""
    (tmp_path / "ca.pem").write_text("")
    table = {"bootstrap": "b:1", "security_protocol": "SSL", "tls_ca": "ca.pem"}
    assert connection_from_table(table, {}, tmp_path).tls_ca == tmp_path / "ca.pem"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"bootstrap": []}, "no bootstrap broker is named"),
        ({"bootstrap": "broker"}, "'broker' is not host:port"),
        ({"bootstrap": "broker:0"}, "is not host:port"),
        ({"bootstrap": "broker:99999"}, "is not host:port"),
        ({"bootstrap": 9092}, "bootstrap is 9092"),
        ({"bootstrap": "b:1", "bootstrp": "x"}, "did you mean clusters.prod.bootstrap"),
        ({"bootstrap": "b:1", "security_protocol": "TLS"}, "PLAINTEXT, SSL"),
        ({"bootstrap": "b:1", "security_protocol": 3}, "security_protocol is 3, expected text in quotes"),
        ({"bootstrap": "b:1", "user": "ann"}, "security_protocol is PLAINTEXT"),
        ({"bootstrap": "b:1", "security_protocol": "SASL_SSL"}, "sasl_mechanism is missing"),
        (SCRAM | {"sasl_mechanism": "GSSAPI", "password": "x"}, "SCRAM-SHA-512"),
        (SCRAM | {"user": "", "password": "x"}, "user is missing"),
        (SCRAM, "no password for Kafka user 'ann'"),
        (SCRAM | {"password": "a", "password_file": __file__}, "keep one"),
        (SCRAM | {"password_file": "absent"}, "no such file"),
        ({"bootstrap": "b:1", "tls_ca": __file__}, "set it to SSL or SASL_SSL"),
        ({"bootstrap": "b:1", "security_protocol": "SSL", "tls_certificate": __file__}, "go together"),
        ({"bootstrap": "b:1", "tls_verify_hostname": "no"}, 'is "no", expected true or false'),
        ({"bootstrap": "b:1", "timeout_seconds": "5"}, 'is "5", expected a number'),
        ({"bootstrap": "b:1", "timeout_seconds": 0}, "above 0"),
        ({"bootstrap": "b:1", "timeout_seconds": float("nan")}, "is nan, expected a finite number"),
        ({"bootstrap": "b:1", "timeout_seconds": True}, "is true, expected a number"),
    ],
)
def test_invalid_settings_are_rejected_with_a_remedy(table, said, tmp_path):
    """An error in the table is reported by name before any connection."""
    with pytest.raises(SettingsError) as caught:
        connection_from_table(table, {}, tmp_path)
    assert said in str(caught.value)
    assert "clusters.prod" in str(caught.value)


def test_a_secret_of_the_wrong_type_is_not_quoted():
    """An error message must not carry a password into a terminal's history."""
    with pytest.raises(SettingsError) as caught:
        connection_from_table(SCRAM | {"password": 12345})
    assert "12345" not in str(caught.value)


def test_own_keys_are_left_alone():
    """Keys that begin with x_ are the user's own."""
    assert connection_from_table({"bootstrap": "b:1", "x_note": 1}) == KafkaConnection(("b:1",))


def test_a_missing_certificate_is_reported_by_path(tmp_path):
    """The path in the message is the one that was opened."""
    table = {"bootstrap": "b:1", "security_protocol": "SSL", "tls_ca": "ca.pem"}
    with pytest.raises(SettingsError, match=str(Path(tmp_path / "ca.pem"))):
        connection_from_table(table, {}, tmp_path)


def test_a_call_waits_for_the_next_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that pauses between two connections has sent nothing, so the call is safe to repeat."""
    monkeypatch.setattr(calls, "RECONNECT_SECONDS", 0.0)
    answers = [NodeNotReadyError(4), None, NodeNotReadyError(4), NodeNotReadyError(4)]

    def call() -> str:
        error = answers.pop(0)
        if error is not None:
            raise error
        return "done"

    admin = calls.AdminCalls(SimpleNamespace(_controller_id=4))
    assert admin(call) == "done"
    with pytest.raises(PortError) as refused:
        admin(call)
    assert refused.value.failure.transient
