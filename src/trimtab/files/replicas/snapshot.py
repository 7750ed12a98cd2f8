"""Replicas snapshots in files: `trimtab/replicas-snapshot/1`, as `.json`, `.json.gz` or a Parquet folder."""

from trimtab.files.replicas.brokers import broker_records, checked_brokers
from trimtab.files.replicas.partitions import checked_partitions, partition_columns
from trimtab.files.replicas.records import BrokerRecord, PartitionRecord
from trimtab.files.snapshot_format import Contents, SnapshotFormat
from trimtab.files.snapshot_source import Source
from trimtab.model.replicas.snapshot import ReplicasSnapshot


def _build(source: Source) -> ReplicasSnapshot:
    brokers, log_dirs = checked_brokers(source)
    partitions = checked_partitions(source, brokers, log_dirs)
    extra = source.document.extra
    return ReplicasSnapshot(source.reference, source.quality, brokers, log_dirs, partitions, extra)


def _contents(snapshot: ReplicasSnapshot) -> Contents:
    return Contents(
        head=dict(snapshot.extra),
        records={"brokers": broker_records(snapshot.brokers, snapshot.log_dirs)},
        columns={"partitions": partition_columns(snapshot)},
    )


def _described(snapshot: ReplicasSnapshot) -> str:
    return (
        f"{len(snapshot.brokers)} brokers, {len(snapshot.partitions)} partitions of "
        f"{snapshot.reference.cluster}, taken at {snapshot.reference.taken_at}"
    )


FORMAT = SnapshotFormat(
    name="trimtab/replicas-snapshot/1",
    kind=ReplicasSnapshot,
    head=(),
    records={"brokers": BrokerRecord},
    columns={"partitions": PartitionRecord},
    build=_build,
    contents=_contents,
    described=_described,
)

read_snapshot, write_snapshot = FORMAT.read, FORMAT.write
