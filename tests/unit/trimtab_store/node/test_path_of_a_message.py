"""The path of one stored message through the code: few modules, and no other package."""

import asyncio
import sys
from pathlib import Path
from types import FrameType

from support.masters_nodes import cluster_of, free_addresses, node_configuration, nodes_running, with_log
from trimtab_store.clients.producer import Producer

MODULES_MAX = 20
SOURCE = "/src/trimtab"


def test_a_stored_message_passes_few_modules_of_one_package(tmp_path: Path) -> None:
    """From the producer through the node and its log and back; a colleague can follow it with a debugger."""
    found: list[str] = []

    def record(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and SOURCE in frame.f_code.co_filename:
            found.append(frame.f_code.co_filename.rpartition("/src/")[2])

    async def story() -> None:
        given = [with_log(node_configuration(tmp_path, 0, free_addresses(1), lease_seconds=1.0))]
        async with nodes_running(given), Producer(cluster_of(given[0]), "t") as producer:
            for _ in range(3):
                await producer.send(b"before")
            sys.setprofile(record)
            try:
                await producer.send(b"measured")
            finally:
                sys.setprofile(None)

    asyncio.run(story())
    assert {path.partition("/")[0] for path in found} == {"trimtab_store"}
    assert 10 < len(set(found)) <= MODULES_MAX
