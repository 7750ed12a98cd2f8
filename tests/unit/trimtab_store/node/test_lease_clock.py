"""The clock that leases are counted on, and what a node says when it stood still."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from trimtab.lab.sandbox.masters.sandbox import settings_for
from trimtab.lab.sandbox.processes import free_ports
from trimtab_store.clients.cluster import StoreConfig
from trimtab_store.clients.producer import Producer
from trimtab_store.core.messages import DescribeGroup, FetchRequest, FetchResponse, GroupStatus, Received
from trimtab_store.core.settings import StoreSettings
from trimtab_store.format.configuration import CONFIGURATION_FORMAT, NodeConfiguration
from trimtab_store.format.wire import FRAME_HEAD, decoded
from trimtab_store.node import process
from trimtab_store.node.health_monitor import HealthMonitor
from trimtab_store.node.process import NodeProcess

ASLEEP_SECONDS = 3600.0


class Heard:
    """A client's connection, as a node writes to it."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.transport = self

    def get_write_buffer_size(self) -> int:
        """Nothing waits."""
        return 0

    def write(self, frame: bytes) -> None:
        """Take a frame in."""
        _, crc = FRAME_HEAD.unpack_from(frame)
        self.messages.append(decoded(frame[FRAME_HEAD.size :], crc)[1])


def sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine is suspended for an hour: of all clocks that never go back, one counts that."""
    real = time.clock_gettime
    monkeypatch.setattr(
        time,
        "clock_gettime",
        lambda which: real(which) + ASLEEP_SECONDS * (which == time.CLOCK_BOOTTIME),
    )


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no CLOCK_BOOTTIME")
def test_a_node_that_slept_is_master_of_nothing_and_reports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever arrives first after it: a consumer does not receive data of an hour ago."""
    given = NodeConfiguration(
        format=CONFIGURATION_FORMAT,
        cluster="c",
        node=0,
        addresses=[f"127.0.0.1:{free_ports(1)[0]}"],
        folder=str(tmp_path / "node"),
        groups=1,
        settings=settings_for(2.0),
    )

    async def story() -> None:
        node, heard = NodeProcess(given), Heard()
        running = asyncio.create_task(node.run())
        async with Producer(StoreConfig("c", tuple(given.addresses), 1), "t") as producer:
            await producer.send(b"")
            node._clients["heard"] = heard  # type: ignore[assignment]
            # Nothing else happens between these: no timer is called before the event loop is.
            ask, pull = DescribeGroup("heard"), FetchRequest("heard", "reader", "t", 1, 0, 1)
            node._process_event(Received("heard", 0, ask))
            sleeps(monkeypatch)
            node._process_event(Received("heard", 0, pull))
            node._process_event(Received("heard", 0, ask))
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        before, answer, after = heard.messages
        assert isinstance(before, GroupStatus) and before.holds
        assert isinstance(answer, FetchResponse) and answer.verdict == "moved" and not answer.records
        assert isinstance(after, GroupStatus) and not after.holds

    asyncio.run(story())
    told = [line for line in capsys.readouterr().err.splitlines() if "stood still for 3,600." in line]
    assert len(told) == 1 and told[0].endswith("whatever it was master of has been taken over by now")


@pytest.mark.parametrize("lacking", ["of the language", "of the system"])
def test_without_a_clock_that_counts_sleep_the_other_one_is_used(
    monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    """Once and for all: seconds of two clocks are never compared."""

    def refused(_: int) -> float:
        raise OSError(22, "Invalid argument")

    with monkeypatch.context() as patch:
        if lacking == "of the language":
            patch.delattr(time, "CLOCK_BOOTTIME", raising=False)
        else:
            patch.setattr(time, "clock_gettime", refused)
        assert process.chosen_clock() is time.monotonic


def test_a_paused_node_reports_the_pause_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each pause of more than R, not for one of R: a mastership is lost by a whole lease."""
    notices = HealthMonitor(1, StoreSettings())
    for now in (100.0, 102.5, 105.01, 105.02, 117.02, 117.03):
        notices.record_progress(now)
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert told[0].startswith("node 1 stood still for 2.5 s: ")
    assert told[0].endswith("; the lease is 10 s, so it may have lost what it was master of")
    assert told[1].startswith("node 1 stood still for 12.0 s: ")
    assert told[1].endswith("; whatever it was master of has been taken over by now")
