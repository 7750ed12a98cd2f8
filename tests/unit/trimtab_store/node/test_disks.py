"""Three nodes, one of them on a small disk of its own that is full, or read-only: a real one, in memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path

import msgspec
import pytest

from support.masters_nodes import free_addresses, node_configuration, nodes_running
from trimtab_store.clients.cluster import StoreConfig, masters_of, query_group_status
from trimtab_store.clients.consumer import Consumer
from trimtab_store.clients.producer import Producer

SMALL = 1
"""The node on the small disk, and preferred master of the only group."""
DISK_KILOBYTES = 512
STORY_SECONDS = 120.0


def mount(*arguments: str) -> None:
    """Mount something, or skip the test where that is not permitted."""
    try:
        done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount on this system")
    if done.returncode:
        pytest.skip(f"a small tmpfs cannot be mounted here ({done.stderr.strip()}): run this as root")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of half a megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount("-t", "tmpfs", "-o", f"size={DISK_KILOBYTES}k", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


class Place:
    """Three nodes: two in this process, and the one on the small disk in its own, to be killed.

    Attributes
    ----------
    lines
        What the one on the small disk has said, of all its lives.
    """

    def __init__(self, folder: Path, small: Path) -> None:
        addresses = free_addresses(3)
        self.cluster = StoreConfig("c", tuple(addresses), 1)
        self._given = [
            node_configuration(small if node == SMALL else folder, node, addresses, preferred_nodes=[SMALL])
            for node in range(3)
        ]
        self.folder = self._given[SMALL].folder
        self._file, self._logged = folder / "node.json", folder / "said.txt"
        self._file.write_bytes(msgspec.json.encode(asdict(self._given[SMALL])))

    @asynccontextmanager
    async def two_running(self) -> AsyncIterator[list[asyncio.Task[None]]]:
        """The others, until the end."""
        async with nodes_running([one for one in self._given if one.node != SMALL]) as tasks:
            yield tasks

    @asynccontextmanager
    async def small_one(self) -> AsyncIterator[asyncio.subprocess.Process]:
        """The one on the small disk; killed in the end, if it has not ended by itself."""
        with self._logged.open("a") as said:
            command = sys.executable, "-m", "trimtab", "masters", "node", "--config", str(self._file)
            process = await asyncio.create_subprocess_exec(*command, stderr=said)
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    @property
    def errors(self) -> list[str]:
        """Why the one on the small disk has ended, a line each."""
        return [line for line in self._logged.read_text().splitlines() if line.startswith("trimtab: ")]

    async def mastered_by_small_one(self) -> None:
        """Wait until it is master: what it has then is what clients are told."""
        while masters_of(await query_group_status(self.cluster), 1) != [SMALL]:
            await asyncio.sleep(0.1)

    async def read_back(self, count: int) -> list[int]:
        """What a new consumer gets, from the beginning."""
        async with Consumer(self.cluster, "t", "reader") as consumer:
            return [int((await consumer.receive()).payload) for _ in range(count)]


def test_a_node_whose_disk_is_full_ends_and_the_others_continue(tmp_path: Path, small_disk: Path) -> None:
    """The master, in one sentence; every acknowledged message is read back, and with free space it has them
    all.
    """
    place = Place(tmp_path, small_disk)

    async def story() -> None:
        async with place.two_running() as others, Producer(place.cluster, "t") as producer:
            sent = 0
            async with place.small_one() as small:
                await producer.send(b"0")
                await place.mastered_by_small_one()
                while small.returncode is None:
                    sent += 1
                    await producer.send(b"%d" % sent + b" " * 8000)
                assert small.returncode == 1
            assert 8000 * sent > DISK_KILOBYTES * 1000 // 2
            assert len(place.errors) == 1
            assert place.errors[0].startswith(
                f"trimtab: node {SMALL} of cluster c ends: the disk of {place.folder} is full: free space"
            )
            for _ in range(10):
                sent += 1
                await producer.send(b"%d" % sent)
            assert not any(task.done() for task in others)
            assert await place.read_back(sent + 1) == [*range(sent + 1)]
            mount("-o", f"remount,size={64 * DISK_KILOBYTES}k", str(small_disk))
            async with place.small_one():
                await place.mastered_by_small_one()
                assert await place.read_back(sent + 1) == [*range(sent + 1)]

    asyncio.run(asyncio.wait_for(story(), STORY_SECONDS))


def test_a_node_whose_disk_is_read_only_does_not_start_and_the_others_continue(
    tmp_path: Path, small_disk: Path
) -> None:
    """One sentence; once the disk is writable again, the node has all earlier and newer entries."""
    place = Place(tmp_path, small_disk)

    async def story() -> None:
        async with place.two_running() as others, Producer(place.cluster, "t") as producer:
            async with place.small_one():
                for number in range(10):
                    await producer.send(b"%d" % number)
                await place.mastered_by_small_one()
                await producer.send(b"10")
            # A file system can be made so only while nothing on it is open for writing.
            mount("-o", "remount,ro", str(small_disk))
            async with place.small_one() as small:
                assert await small.wait() == 1
            assert len(place.errors) == 1
            assert place.errors[0].startswith(f"trimtab: the disk of {place.folder} is read-only: see why ")
            for number in range(11, 20):
                await producer.send(b"%d" % number)
            assert not any(task.done() for task in others)
            mount("-o", "remount,rw", str(small_disk))
            async with place.small_one():
                await place.mastered_by_small_one()
                assert await place.read_back(20) == [*range(20)]

    asyncio.run(asyncio.wait_for(story(), STORY_SECONDS))
