"""The thread beside an application, on a side connection that is made up."""

import threading
import time
from typing import cast

import pytest

from trimtab.dataplane.keys import follower as module
from trimtab.dataplane.keys.follower import Follower
from trimtab.dataplane.keys.settings import Following
from trimtab.dataplane.keys.side import SideConnection, Topic
from trimtab.files.keys.heartbeat import Heartbeat


class Side:
    """A topic that stays as it is, without tables."""

    def __init__(self, *_: object) -> None:
        self.closed = False

    def topic(self) -> Topic:
        return Topic("id", 3)

    def close(self) -> None:
        self.closed = True


def beat() -> Heartbeat:
    """Of a consumer."""
    return Heartbeat(
        process="p",
        role="consumer",
        client="c",
        topic="t",
        topic_id="",
        at=0.0,
        version=0,
        partitions=3,
        wrapped=True,
    )


def test_tables_are_looked_at_however_much_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions that come faster than they are answered keep nobody from following a table."""
    monkeypatch.setattr(module, "SideConnection", Side)
    looks = threading.Semaphore(0)

    def look(*_: object) -> None:
        looks.release()

    follower = Follower(Following({}), "t", look, beat)

    def ask_again(side: SideConnection) -> None:
        time.sleep(0.001)
        follower.ask(ask_again)

    follower.start()
    follower.ask(ask_again)
    try:
        assert all(looks.acquire(timeout=30) for _ in range(4))
    finally:
        follower.stop()
    assert cast("Side", follower._side).closed


def test_a_turn_is_taken_though_no_table_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is filled in it; a topic of tables that is away must not leave places open."""

    class Away(Side):
        def read(self, *_: object) -> dict[bytes, bytes]:
            raise OSError("away")

        def tell(self, *_: object) -> None:
            """Nobody hears it."""

    monkeypatch.setattr(module, "SideConnection", Away)
    looks = threading.Semaphore(0)

    def look(*_: object) -> str:
        looks.release()
        return "grown"

    follower = Follower(Following({}, tables_topic="tables"), "t", look, beat)
    follower.start()
    try:
        assert all(looks.acquire(timeout=30) for _ in range(2))
        assert follower.trouble == "away; grown"
    finally:
        follower.stop()
