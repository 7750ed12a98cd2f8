"""Snapshots of the level `masters` in files: `trimtab/masters-snapshot/1`."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from trimtab.files.records import record_of
from trimtab.files.snapshot_format import Contents, SnapshotFormat
from trimtab.files.snapshot_source import Source
from trimtab.model.errors import InputError
from trimtab.model.masters.snapshot import NOBODY, GroupLoad, MastersSnapshot, NodeLoad
from trimtab.model.values import Count, Name

NODE: Final = record_of(NodeLoad)
GROUP: Final = record_of(GroupLoad)
HEAD: Final[dict[str, Any]] = {"system": Name, "version": Count, "scheme": str}
"""The level's own fields of the head, with their types."""


def _build(source: Source) -> MastersSnapshot:
    head = {name: source.document.part(name, kind) for name, kind in HEAD.items()}
    nodes: list[Any] = source.records["nodes"]
    groups: list[Any] = source.records["groups"]
    source.check_unique("nodes", [one.node for one in nodes])
    source.check_unique("groups", [one.group for one in groups])
    for row, one in enumerate(groups):
        for name, places in (("master", (one.master,)), ("ideal", (one.ideal,)), ("able", one.able)):
            for place in places:
                if not NOBODY <= place < len(nodes):
                    raise InputError(
                        f"{source.file('groups')}: row {row + 1} has {name} {place}, expected a place among "
                        f"the {len(nodes)} nodes, or -1; correct it"
                    )
    return MastersSnapshot(
        source.reference,
        source.quality,
        **head,
        nodes=tuple(msgspec.convert(one, NodeLoad, from_attributes=True) for one in nodes),
        groups=tuple(msgspec.convert(one, GroupLoad, from_attributes=True) for one in groups),
    )


def _contents(snapshot: MastersSnapshot) -> Contents:
    return Contents(
        {name: getattr(snapshot, name) for name in HEAD},
        {
            "nodes": [msgspec.convert(one, NODE, from_attributes=True) for one in snapshot.nodes],
            "groups": [msgspec.convert(one, GROUP, from_attributes=True) for one in snapshot.groups],
        },
        {},
    )


def _described(one: MastersSnapshot) -> str:
    where = f"{one.reference.cluster}, {one.reference.taken_at}"
    return f"{len(one.nodes)} nodes and {len(one.groups)} groups of {where}"


FORMAT: Final = SnapshotFormat(
    name="trimtab/masters-snapshot/1",
    kind=MastersSnapshot,
    head=tuple(HEAD),
    records={"nodes": NODE, "groups": GROUP},
    columns={},
    build=_build,
    contents=_contents,
    described=_described,
)
