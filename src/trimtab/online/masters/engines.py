"""The engines behind the seam, by name."""

from __future__ import annotations

from typing import Final

from trimtab.online.masters.log import Engine
from trimtab.online.masters.replica import Replica
from trimtab.online.masters.settings import MOST_VOTERS
from trimtab.online.masters.stored import StoredLog

EMBEDDED: Final = Engine("embedded", Replica, MOST_VOTERS)
"""Paxos among the nodes themselves, on their own disks."""
ETCD: Final = Engine("etcd", StoredLog, None)
"""Slots are keys of an etcd cluster; nodes keep nothing."""
ENGINES: Final = {engine.name: engine for engine in (EMBEDDED, ETCD)}
