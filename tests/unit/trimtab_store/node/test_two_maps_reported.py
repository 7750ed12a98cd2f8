"""What a node says when another one has a different map of the same version."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from zlib import crc32

from trimtab_store.core.messages import MapChanged, NodeHeartbeat, Received, TimerExpired
from trimtab_store.core.node import StoreNode
from trimtab_store.core.settings import StoreSettings
from trimtab_store.core.token import CLUSTER
from trimtab_store.format.configuration import CONFIGURATION_FORMAT, NodeConfiguration
from trimtab_store.format.wire import FRAME_HEAD, decoded, encoded
from trimtab_store.node.health_monitor import HealthMonitor
from trimtab_store.node.process import NodeProcess

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
    """As soon as the other has sent its map, over the wire; once, however often it is sent."""
    given = NodeConfiguration(
        format=CONFIGURATION_FORMAT,
        cluster="c",
        node=0,
        addresses=["h:1", "h:2"],
        folder=str(tmp_path),
        groups=1,
    )

    async def story() -> None:
        node = NodeProcess(given)
        for seen in (MapChanged(1, (1,)), MapChanged(3, (0,))):
            node._process_event(seen)
        frame = encoded((CLUSTER, NodeHeartbeat((), 3, 7)))
        _, crc = FRAME_HEAD.unpack_from(frame)
        group, beat = decoded(frame[FRAME_HEAD.size :], crc)
        for _ in range(3):
            node._process_event(Received(1, group, beat))
        assert node._timer is not None and node._failure is None
        node._timer.cancel()
        node._log.close()

    asyncio.run(story())
    assert capsys.readouterr().err.splitlines() == [line(1, 3)]


class Story:
    """Node 0 of three, which looks at maps and hears of those of others; what it says on standard error."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *, map_in_store: bool = False) -> None:
        self._capsys = capsys
        self.now = 0.0
        settings = StoreSettings()
        self.node = StoreNode(0, 3, 1, incarnation=1, now=0.0, settings=settings, map_in_store=map_in_store)
        self._health = HealthMonitor(0, StoreSettings())

    def look(self, seen: MapChanged) -> None:
        """A map is published."""
        self.node.handle(self.now, seen)

    def hear(self, other: int, seen: MapChanged, resting: tuple[int, ...] = ()) -> list[str]:
        """Another node says which map it has."""
        checksum = crc32(repr(seen.preferred).encode())
        self.node.handle(
            self.now, Received(other, CLUSTER, NodeHeartbeat((), seen.version, checksum, resting))
        )
        self._health.compared(self.node)
        return self._capsys.readouterr().err.splitlines()


def test_each_dispute_is_reported_once_and_again_on_recurrence(capsys: pytest.CaptureFixture[str]) -> None:
    """A third node, a further version, one that agreed meanwhile; nothing where all agree."""
    story = Story(capsys)
    hear, look = story.hear, story.look
    look(MapChanged(4, (0,)))
    assert hear(1, MapChanged(3, (1,))) == []
    assert hear(1, MapChanged(4, (0,))) == []
    assert hear(2, MapChanged(4, (2,))) == [line(2, 4)]
    look(MapChanged(5, (1,)))
    assert hear(1, MapChanged(5, (0,))) == [line(1, 5)]
    assert hear(2, MapChanged(5, (0,))) == [line(2, 5)]
    assert hear(1, MapChanged(6, (0,))) == []
    assert hear(1, MapChanged(5, (0,))) == [line(1, 5)]


def test_a_node_that_stays_at_an_old_map_is_named_by_all_with_the_remedy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Once, after two renewals: until then it may be slightly late. The node reports the same
    about itself.
    """
    story = Story(capsys)
    story.look(MapChanged(3, (1,)))
    assert story.hear(1, MapChanged(2, (0,))) == story.hear(2, MapChanged(4, (0,))) == []
    story.now = 6.0
    assert story.hear(1, MapChanged(2, (0,))) == [
        "node 1 stays at version 2 of the map, node 0 has version 3: groups that it gives to node 1 stay "
        'where they are; correct "map" in the configuration of node 1, or what keeps it from reading the map'
    ]
    assert story.hear(2, MapChanged(4, (0,))) == [
        "node 0 stays at version 3 of the map, node 2 has version 4: node 0 takes no group over; correct "
        '"map" in its configuration, or what keeps it from reading the map'
    ]
    assert story.hear(1, MapChanged(2, (0,))) == story.hear(2, MapChanged(4, (0,))) == []
    story.look(MapChanged(4, (0,)))
    assert story.hear(1, MapChanged(4, (0,))) == story.hear(2, MapChanged(4, (0,))) == []
    assert story.node.passed_over == story.node.outdated_by == {}


def test_a_node_without_a_majority_reports_its_map(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the map is in the store: it learns no newer one. Again when it is so again."""
    story = Story(capsys, map_in_store=True)
    same = MapChanged(3, (1,))
    story.look(same)
    assert story.hear(1, same) == []
    for _ in range(2):
        story.now += 6.0
        story.node.handle(story.now, TimerExpired())
        story._health.compared(story.node)
        story._health.compared(story.node)
        assert capsys.readouterr().err.splitlines() == [
            "node 0 hears 1 nodes too few for a majority: it goes on with version 3 of the map and learns no "
            "newer one; start the others, or see what keeps it from them"
        ]
        assert story.hear(1, same) == []


def test_an_excluded_node_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    """With the node that lost it, and for how long."""
    story = Story(capsys)
    story.look(MapChanged(1, (1,)))
    rests = story.node.groups[0].rests
    rests.transferred(0.0, 1)
    rests.mastered(10.0, 2)
    story.now = 10.0
    story.node.handle(10.0, TimerExpired())
    assert story.hear(1, MapChanged(1, (1,))) == [
        "group 0 is not given to node 1 for 15 s: that node took it over and lost it again soon; see why it "
        "stands still or ends, or name another node in the map"
    ]
    assert story.hear(1, MapChanged(1, (1,))) == []
