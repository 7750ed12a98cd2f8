"""The engines behind the seam, by name."""

from __future__ import annotations

from typing import Final

from trimtab_store.core.log import ConsensusEngine
from trimtab_store.core.replica import PaxosLog
from trimtab_store.core.settings import MAX_VOTERS
from trimtab_store.core.stored import StoreLog

EMBEDDED: Final = ConsensusEngine("embedded", PaxosLog, MAX_VOTERS)
"""Paxos among the nodes themselves, on their own disks."""
ETCD: Final = ConsensusEngine("etcd", StoreLog, None)
"""Slots are keys of an etcd cluster; nodes keep nothing."""
ENGINES: Final = {engine.name: engine for engine in (EMBEDDED, ETCD)}
