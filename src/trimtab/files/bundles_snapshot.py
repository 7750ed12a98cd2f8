"""Bundles snapshots in files: `trimtab/bundles-snapshot/1`, as `.json`, `.json.gz` or a Parquet folder."""

from dataclasses import replace
from pathlib import Path

from trimtab.files.snapshot_forms import is_folder_name, json_text, write_json_text
from trimtab.model.bundles_snapshot import BundlesSnapshot
from trimtab.model.snapshot import SnapshotReference


def read_bundles_snapshot(path: Path) -> BundlesSnapshot:
    """Read and check a snapshot.

    Parameters
    ----------
    path
        A JSON file, plain or compressed by gzip, or a folder with `meta.json`, `brokers.parquet`,
        `bundles.parquet` and `topics.parquet`.

    Raises
    ------
    InputError
        If there is none, or it is malformed or contradicts itself; one line that names the file, the place
        in it, the value found, what was expected, and the remedy.
    """
    if path.is_dir():
        from trimtab.files.bundles_folder import snapshot_from_folder  # imports pyarrow

        return snapshot_from_folder(path)
    from trimtab.files.bundles_json import snapshot_from_json

    return snapshot_from_json(path, *json_text(path))


def write_bundles_snapshot(snapshot: BundlesSnapshot, path: Path) -> SnapshotReference:
    """Write a snapshot; the form is chosen by the name: `.json`, `.json.gz`, else a folder.

    The same snapshot gives the same bytes. The file or folder appears as a whole or not at all. The time of
    departures is kept to the microsecond.

    Returns
    -------
    SnapshotReference
        Of what was written: its digest may differ from that of the snapshot given.

    Raises
    ------
    InputError
        If the place cannot be written.
    """
    if is_folder_name(path):
        from trimtab.files.bundles_folder import write_snapshot_folder  # imports pyarrow

        return replace(snapshot.reference, sha256=write_snapshot_folder(snapshot, path))
    from trimtab.files.bundles_json import json_from_snapshot

    return replace(snapshot.reference, sha256=write_json_text(path, json_from_snapshot(snapshot)))
