"""Sources of a replay: a folder that anybody may write, or the tables of the lake."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from pyspark.sql import functions as F

from trimtab.files.replicas.recording import COLUMNS, opened_recording
from trimtab.files.replicas.snapshot import read_snapshot
from trimtab.model.errors import ObserveError
from trimtab.model.replicas.snapshot import NO_BROKER, Partitions, ReplicasSnapshot
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas.pipeline import PIPELINE
from trimtab.observe.spark.tables import SparkTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from trimtab.files.store import Location


class LoadRecording(Protocol):
    """A recording that can be replayed."""

    @property
    def name(self) -> str:
        """Its name in a heading."""
        ...

    def initial_snapshot(self, session: SparkSession) -> ReplicasSnapshot:
        """The brokers, and the placement at the beginning."""
        ...

    def loads(self, session: SparkSession) -> DataFrame:
        """Loads of roles, window by window: the columns `COLUMNS` of `files.replicas.recording`."""
        ...


@dataclass(frozen=True)
class FolderLoadRecording:
    """A recording in a folder (`trimtab/replicas-recording/1`)."""

    path: Path

    @property
    def name(self) -> str:
        """Name of the recording's folder."""
        return self.path.name

    def initial_snapshot(self, session: SparkSession) -> ReplicasSnapshot:
        """As the folder has it; errors as of `opened_recording`."""
        return opened_recording(self.path)[0]

    def loads(self, session: SparkSession) -> DataFrame:
        """As the folder has them."""
        return session.read.parquet(str(opened_recording(self.path)[1])).select(*COLUMNS)


@dataclass(frozen=True)
class LakeLoadRecording:
    """The windows that the pipeline made of samples.

    Attributes
    ----------
    path
        The lake's folder.
    cluster
        May be None where the lake holds one.
    """

    path: Location
    cluster: str | None = None

    @property
    def name(self) -> str:
        """The cluster's, or the lake's."""
        return self.cluster or self.path.name

    def initial_snapshot(self, session: SparkSession) -> ReplicasSnapshot:
        """Brokers as of the newest snapshot, replicas and leaders as they lay first.

        What moved later is not followed, whoever moved it: every strategy begins with the same placement, and
        nothing else moves.
        """
        newest = read_snapshot(Lake(self.path, PIPELINE).newest_snapshot(self.cluster))
        first = (
            self._windows(session, newest.reference.cluster)
            .groupBy("topic", "partition")
            .agg(F.min_by(F.struct("replicas", "leader"), "window_end").alias("placed"))
            .select("topic", "partition", "placed.*")
            .collect()
        )
        placed = {(row.topic, row.partition): (row.replicas, row.leader) for row in first}
        return replace(newest, partitions=_laid(newest, placed))

    def loads(self, session: SparkSession) -> DataFrame:
        """Read the lake's table `attributed`."""
        newest = read_snapshot(Lake(self.path, PIPELINE).newest_snapshot(self.cluster))
        return self._windows(session, newest.reference.cluster).select(*COLUMNS)

    def _windows(self, session: SparkSession, cluster: str) -> DataFrame:
        lake = Lake(self.path, PIPELINE)
        manifest = lake.manifest()
        entries = manifest.tables.get("attributed", ())
        if not entries:
            raise ObserveError(f"lake {self.path} holds no windows: run `trimtab pipeline run` first")
        whole = [(min(one.begin for one in entries), max(one.end for one in entries))]
        found = SparkTables(session, lake, manifest).read("attributed", whole)
        return found.where(F.col("cluster") == cluster)


def _laid(
    snapshot: ReplicasSnapshot, placed: dict[tuple[str, int], tuple[list[int] | None, int | None]]
) -> Partitions:
    """The partitions at their first recorded placement; unknown partitions keep today's placement."""
    parts = snapshot.partitions
    index = {number: row for row, number in enumerate(snapshot.brokers.id.tolist())}
    width = max([parts.replicas.shape[1], *(len(those or ()) for those, _ in placed.values())])
    replicas = np.full((len(parts), width), NO_BROKER, dtype=np.int32)
    replicas[:, : parts.replicas.shape[1]] = parts.replicas
    leader = parts.leader.copy()
    for row, (topic, number) in enumerate(zip(parts.topic.tolist(), parts.number.tolist(), strict=True)):
        those, led = placed.get((parts.topics[topic], number), (None, None))
        if those and led in those and all(one in index for one in those):
            replicas[row] = NO_BROKER
            replicas[row, : len(those)] = [index[one] for one in those]
            leader[row] = index[led]
    return replace(
        parts,
        replicas=replicas,
        leader=leader,
        in_sync=replicas != NO_BROKER,
        log_dir=np.full(replicas.shape, NO_BROKER, dtype=np.int32),
    )


@dataclass(frozen=True)
class ReplayPeriod:
    """The time range that is replayed; earlier records serve profiles only.

    Attributes
    ----------
    since
        None: from the beginning.
    until
        None: to the end.
    """

    since: datetime.datetime | None = None
    until: datetime.datetime | None = None
