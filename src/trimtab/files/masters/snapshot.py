"""Snapshots of the balancer `masters` in files: `trimtab/masters-snapshot/1`."""

from __future__ import annotations

from typing import Any, Final

from trimtab.files.small_snapshot import RowTable, small_format
from trimtab.files.snapshot_source import SnapshotSource
from trimtab.model.masters.snapshot import NO_MASTER, MasterGroupLoad, MastersSnapshot, NodeLoad
from trimtab_common.documents import Count, Name
from trimtab_common.errors import InputError

HEAD: Final[dict[str, Any]] = {"system": Name, "version": Count, "scheme": str}
"""The balancer's own fields of the head, with their types."""


def _check_places(source: SnapshotSource) -> None:
    """Refuse groups that tell of nodes that are not there."""
    nodes = len(source.records["nodes"])
    for row, one in enumerate(source.records["groups"]):
        for name, places in (("master", (one.master,)), ("preferred", (one.preferred,)), ("able", one.able)):
            for place in places:
                if not NO_MASTER <= place < nodes:
                    raise InputError(
                        f"{source.file('groups')}: row {row + 1} has {name} {place}, expected a place among "
                        f"the {nodes} nodes, or -1; correct it"
                    )


def _described(one: MastersSnapshot) -> str:
    where = f"{one.reference.cluster}, {one.reference.taken_at}"
    return f"{len(one.nodes)} nodes and {len(one.groups)} groups of {where}"


FORMAT: Final = small_format(
    "trimtab/masters-snapshot/1",
    MastersSnapshot,
    head=HEAD,
    tables={"nodes": RowTable(NodeLoad, "node"), "groups": RowTable(MasterGroupLoad, "group")},
    described=_described,
    check=_check_places,
)
