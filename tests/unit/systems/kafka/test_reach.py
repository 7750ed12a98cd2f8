"""Whether a cluster can be used at all is told in one sentence, without the client's own long wait."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from trimtab.systems.kafka.client import reach
from trimtab.systems.kafka.settings import KafkaConnection
from trimtab_common.errors import ConnectError, SettingsError


@contextmanager
def _answering(answer: bytes) -> Iterator[int]:
    """A server that gives one answer to whatever it is asked, and hangs up."""

    def serve() -> None:
        link, _ = server.accept()
        with link:
            link.recv(1_000)
            link.sendall(answer)

    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


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


def test_one_address_that_answers_is_enough(closed_port):
    """A dead broker at the head of the list does not keep a client out."""
    # Length, correlation 1, no error, no versions: the shortest answer there is to "which requests".
    with _answering(struct.pack(">iihi", 10, 1, 0, 0)) as port:
        reach(KafkaConnection((f"127.0.0.1:{closed_port}", f"127.0.0.1:{port}")))


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_port_that_does_not_answer_times_out(mute_port, protocol):
    """A port that never answers is given up after the connection's own timeout."""
    connection = KafkaConnection((f"127.0.0.1:{mute_port}",), security_protocol=protocol, timeout_seconds=0.2)
    with pytest.raises(ConnectError, match=r"no answer in 0\.2 s"):
        reach(connection)


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", struct.pack(">i", -1), b"\0\0\0\x05hello"]
)
def test_another_server_on_that_port_is_reported(answer):
    """The port of a web server, or one that closes the connection, is reported as no Kafka."""
    with _answering(answer) as port, pytest.raises(ConnectError, match="does not speak Kafka over PLAINTEXT"):
        reach(KafkaConnection((f"127.0.0.1:{port}",)))


def test_a_file_that_is_no_certificate_is_named(tmp_path):
    """A key pasted into the wrong file is found before any connection."""
    wrong = tmp_path / "ca.pem"
    wrong.write_text("not a certificate")
    with pytest.raises(SettingsError, match=r"ca\.pem cannot be used"):
        KafkaConnection(("b:1",), security_protocol="SSL", tls_ca=wrong).tls_context()
