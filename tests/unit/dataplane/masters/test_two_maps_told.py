"""What a node says when another one has a different map of the same version."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trimtab.dataplane.masters.notices import Notices
from trimtab.dataplane.masters.process import NodeProcess
from trimtab.files.masters.configuration import FORMAT, NodeConfiguration
from trimtab.files.masters.frames import HEAD, decoded, encoded
from trimtab.online.masters.maps import Maps
from trimtab.online.masters.messages import Beat, MapSeen, Received
from trimtab.online.masters.settings import MasterSettings
from trimtab.online.masters.token import CLUSTER

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

LINE = (
    "nodes 0 and {other} have different maps of version {version}: no group is taken over meanwhile; "
    "publish a map with version {next} or higher, the same for all nodes"
)


def line(other: int, version: int) -> str:
    """What is said."""
    return LINE.format(other=other, version=version, next=version + 1)


def test_a_node_names_both_the_version_and_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As soon as the other has said which map it has, over the wire; once, however often that one says it."""
    given = NodeConfiguration(
        format=FORMAT, cluster="c", node=0, addresses=["h:1", "h:2"], folder=str(tmp_path), groups=1
    )

    async def story() -> None:
        node = NodeProcess(given)
        for seen in (MapSeen(1, (1,)), MapSeen(3, (0,))):
            node._tell(seen)
        frame = encoded((CLUSTER, Beat((), 3, 7)))
        _, crc = HEAD.unpack_from(frame)
        group, beat = decoded(frame[HEAD.size :], crc)
        for _ in range(3):
            node._tell(Received(1, group, beat))
        assert node._timer is not None and node._failure is None
        node._timer.cancel()
        node._log.close()

    asyncio.run(story())
    assert capsys.readouterr().err.splitlines() == [line(1, 3)]


def test_each_is_told_once_and_again_when_it_is_so_again(capsys: pytest.CaptureFixture[str]) -> None:
    """A third node, a further version, one that agreed meanwhile; nothing where all agree."""
    notices, maps, others = Notices(0, MasterSettings()), Maps(1), {1: Maps(1), 2: Maps(1)}

    def hear(other: int, seen: MapSeen) -> list[str]:
        others[other].look(seen)
        maps.heard(other, others[other].beat(()))
        notices.compared(maps)
        return capsys.readouterr().err.splitlines()

    maps.look(MapSeen(4, (0,)))
    assert hear(1, MapSeen(3, (1,))) == []
    assert hear(1, MapSeen(4, (0,))) == []
    assert hear(2, MapSeen(4, (2,))) == [line(2, 4)]
    maps.look(MapSeen(5, (1,)))
    assert hear(1, MapSeen(5, (0,))) == [line(1, 5)]
    assert hear(2, MapSeen(5, (0,))) == [line(2, 5)]
    assert hear(1, MapSeen(6, (0,))) == []
    others[1] = Maps(1)
    assert hear(1, MapSeen(5, (0,))) == [line(1, 5)]
