"""Messages reach a datagram socket, as systemd listens on one."""

import os
import socket
from pathlib import Path

import pytest

from trimtab.serve.systemd import notify, watchdog_seconds


@pytest.mark.parametrize("is_abstract", [False, True])
def test_messages_reach_the_socket(tmp_path: Path, is_abstract: bool) -> None:
    """Sockets of files and of the abstract namespace both receive the text as it is."""
    name = f"@trimtab-test-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind("\0" + name[1:] if is_abstract else name)
        receiver.settimeout(5)
        assert notify("READY=1", {"NOTIFY_SOCKET": name})
        assert receiver.recv(100) == b"READY=1"


def test_nothing_is_sent_without_systemd(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without a socket nothing happens; a socket that is gone is logged and ends nothing."""
    assert not notify("READY=1", {})
    assert not caplog.records
    assert not notify("STOPPING=1", {"NOTIFY_SOCKET": str(tmp_path / "gone")})
    assert "does not take STOPPING=1" in caplog.text


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "60000000"}, 20.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 20.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),
    ],
)
def test_the_watchdog_is_fed_three_times_within_its_limit(
    environment: dict[str, str], seconds: float | None
) -> None:
    """Two lost messages do not restart the service; another process's watchdog is not ours."""
    assert watchdog_seconds(environment) == seconds
