"""Snapshots of the balancer `balls` in files."""

import msgspec
import numpy as np

from trimtab.files.snapshot_format import SnapshotContents, SnapshotFormat, SnapshotSource
from trimtab.model.balls.snapshot import BallsSnapshot
from trimtab.model.documents import Amount
from trimtab_common.documents import Name


class BoxRecord(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One box."""

    name: Name
    capacity: Amount


class BallRecord(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One ball."""

    name: Name
    box: Name
    weight: Amount


def _build(source: SnapshotSource) -> BallsSnapshot:
    boxes, balls = source.records["boxes"], source.records["balls"]
    source.check_unique("boxes", [one.name for one in boxes])
    place = {one.name: number for number, one in enumerate(boxes)}
    for row, ball in enumerate(balls):
        if ball.box not in place:
            raise source.error("balls", row, "box", ball.box, f"one of {', '.join(place)}")
    return BallsSnapshot(
        source.reference,
        source.quality,
        tuple(place),
        np.array([one.capacity for one in boxes]),
        tuple(one.name for one in balls),
        np.array([place[one.box] for one in balls], dtype=np.int32),
        np.array([one.weight for one in balls]),
    )


def _contents(snapshot: BallsSnapshot) -> SnapshotContents:
    boxes = zip(snapshot.boxes, snapshot.capacity.tolist(), strict=True)
    balls = zip(snapshot.balls, snapshot.box.tolist(), snapshot.weight.tolist(), strict=True)
    records = {
        "boxes": [BoxRecord(name=name, capacity=capacity) for name, capacity in boxes],
        "balls": [
            BallRecord(name=name, box=snapshot.boxes[box], weight=weight) for name, box, weight in balls
        ],
    }
    return SnapshotContents({}, records, {})


FORMAT = SnapshotFormat(
    name="trimtab/balls-snapshot/1",
    kind=BallsSnapshot,
    head=(),
    records={"boxes": BoxRecord, "balls": BallRecord},
    columns={},
    build=_build,
    contents=_contents,
    described=lambda one: f"{len(one.boxes)} boxes and {len(one.balls)} balls of {one.reference.cluster}",
)
