"""Whether a cluster can be used at all is told in one sentence, without the client's own long wait."""

import socket
from collections.abc import Iterator

import pytest

from trimtab.connect.kafka import reach, tls_context
from trimtab.connect.settings import KafkaConnection
from trimtab.model.errors import ConnectError, SettingsError


@pytest.fixture
def mute_port() -> Iterator[int]:
    """A port that accepts connections and never says anything."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


@pytest.fixture
def closed_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def test_every_address_is_named_when_none_answers(closed_port):
    """An operator with a typing error sees which address failed and how."""
    connection = KafkaConnection((f"127.0.0.1:{closed_port}", "absent.invalid:9092"))
    with pytest.raises(ConnectError) as caught:
        reach(connection)
    assert f"127.0.0.1:{closed_port}: Connection refused" in str(caught.value)
    assert "absent.invalid:9092: no such host" in str(caught.value)


def test_one_address_that_answers_is_enough(closed_port, mute_port):
    """A dead broker at the head of the list does not keep a client out."""
    reach(KafkaConnection((f"127.0.0.1:{closed_port}", f"127.0.0.1:{mute_port}")))


def test_a_silent_tls_port_ends_in_time(mute_port):
    """A port that never completes the handshake is given up after the connection's own timeout."""
    connection = KafkaConnection((f"127.0.0.1:{mute_port}",), security_protocol="SSL", timeout_seconds=0.2)
    with pytest.raises(ConnectError, match=r"no answer in 0\.2 s"):
        reach(connection)


def test_a_file_that_is_no_certificate_is_named(tmp_path):
    """A key pasted into the wrong file is found before any connection."""
    wrong = tmp_path / "ca.pem"
    wrong.write_text("not a certificate")
    with pytest.raises(SettingsError, match=r"ca\.pem cannot be used"):
        tls_context(KafkaConnection(("b:1",), security_protocol="SSL", tls_ca=wrong))
