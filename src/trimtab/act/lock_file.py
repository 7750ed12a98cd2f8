"""The part of a lease on this machine: an exclusively locked file in the state folder, one for each cluster.

The kernel gives the lock up the moment its holder dies, so it cannot go stale.
"""

import fcntl
from pathlib import Path
from typing import TextIO

from trimtab.act.holder import Holder, holder_text, parse_holder, refusal


class LockFile:
    """The lock of one cluster.

    Parameters
    ----------
    folder
        Where the file lives.
    cluster_id
        Of the cluster.
    """

    def __init__(self, folder: Path, cluster_id: str) -> None:
        self._path = _path(folder, cluster_id)
        self._cluster_id = cluster_id
        self._file: TextIO | None = None

    def lock(self, me: Holder) -> None:
        """Lock it, and say in it by whom.

        Raises
        ------
        ActError
            Naming the holder and since when, if another process holds it.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            holder = parse_holder(file.read())
            file.close()
            raise refusal(holder, self._cluster_id) from error
        file.seek(0)
        file.truncate()
        file.write(holder_text(me))
        file.flush()
        self._file = file

    def unlock(self) -> None:
        """Give it up, if it is ours."""
        if self._file is not None:
            # Emptied, not deleted: deleting would let two processes lock two files of the same name.
            self._file.truncate(0)
            self._file.close()
            self._file = None


def locked(folder: Path, cluster_id: str) -> bool:
    """Whether some process of this machine, with this state folder, holds the lease of a cluster now."""
    path = _path(folder, cluster_id)
    if not path.exists():
        return False
    with path.open("r", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _path(folder: Path, cluster_id: str) -> Path:
    return folder / f"{cluster_id}.lease"
