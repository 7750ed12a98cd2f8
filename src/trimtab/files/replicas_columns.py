"""The partitions of a snapshot file as columns, whatever the file's form, and what must hold of them.

All checks are made on whole columns: 300,000 replicas take tens of milliseconds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trimtab.files.columns import LEFT_OUT, Lists, LongArray
from trimtab.files.document import shown
from trimtab.model.errors import InputError
from trimtab.model.load import RESOURCES, FloatArray, IntArray
from trimtab.model.replicas import NOBODY, Brokers, BrokerState, LogDirs, LogDirState, Partitions

Where = Callable[[int, str, int | None], str]
"""Names a place for a message: (row in the file, field, index in its list or None)."""


@dataclass(frozen=True, eq=False)
class PartitionColumns:
    """Partitions in the order of the file, with Kafka's ids; types are checked, contents are not.

    Attributes
    ----------
    topics, topic
        Distinct names, ascending, and the index of each row's name.
    number, leader
        Shape (rows,); `LEFT_OUT` is a leader that is null.
    replicas, in_sync
        Broker ids.
    log_dirs, paths
        Index into `paths` of each replica's log dir, `LEFT_OUT` for null.
    leader_load, follower_load
        Shape (rows, resources), in `UNITS`.
    """

    topics: tuple[str, ...]
    topic: LongArray
    number: LongArray
    leader: LongArray
    replicas: Lists
    in_sync: Lists
    log_dirs: Lists
    paths: tuple[str, ...]
    leader_load: FloatArray
    follower_load: FloatArray


def checked_partitions(
    path: Path, where: Where, columns: PartitionColumns, brokers: Brokers, log_dirs: LogDirs
) -> Partitions:
    """Partitions as the model has them: broker indices, ordered by (topic, number).

    A leader on a dead broker is offline, whatever the file says; a replica on a dead broker or an offline
    log dir is not in sync. Where the file leaves `in_sync` out, all other replicas are.

    Raises
    ------
    InputError
        If the columns contradict each other or the brokers.
    """
    check = _Check(path, where)
    rows = len(columns.number)
    check.loads(columns)
    check.unique_partitions(columns)

    count = columns.replicas.count
    if (empty := _first(count < 1)) is not None:
        raise check.refusal(empty, "replicas", None, "an empty list", "at least one broker id")
    width = int(count.max(initial=1))
    row, column = columns.replicas.row, columns.replicas.column
    held = check.broker_index(columns.replicas.values, row, column, "replicas", brokers)
    replicas = np.full((rows, width), NOBODY, dtype=np.int32)
    replicas[row, column] = held
    check.no_repeats(columns.replicas, replicas, row, column)

    leader = check.leader(columns, replicas, brokers)
    in_sync = check.in_sync(columns, replicas, brokers)
    log_dir = check.log_dir(columns, replicas, brokers, log_dirs)
    dead = brokers.state == BrokerState.DEAD
    offline = (replicas != NOBODY) & dead[replicas]
    if len(log_dirs):
        offline |= (log_dir != NOBODY) & (log_dirs.state == LogDirState.OFFLINE)[log_dir]
    leader = np.where((leader != NOBODY) & dead[leader], NOBODY, leader).astype(np.int32)

    order = np.lexsort((columns.number, columns.topic))
    return Partitions(
        topics=columns.topics,
        topic=columns.topic[order].astype(np.int32),
        number=columns.number[order].astype(np.int32),
        replicas=np.ascontiguousarray(replicas[order]),
        leader=leader[order],
        in_sync=np.ascontiguousarray((in_sync & ~offline)[order]),
        log_dir=np.ascontiguousarray(log_dir[order]),
        leader_load=np.ascontiguousarray(columns.leader_load[order]),
        follower_load=np.ascontiguousarray(columns.follower_load[order]),
    )


class _Check:
    """One method for each thing that can be wrong; each finds the first offender and names its place."""

    def __init__(self, path: Path, where: Where) -> None:
        self.path = path
        self.where = where

    def refusal(
        self,
        row: int,
        field: str,
        item: int | None,
        found: object,
        expected: str,
        remedy: str = "correct it there",
    ) -> InputError:
        text = found if isinstance(found, str) else shown(found)
        return InputError(
            f"{self.path}: {self.where(row, field, item)} is {text}, expected {expected}; {remedy}"
        )

    def loads(self, columns: PartitionColumns) -> None:
        for field, load in (("leader_load", columns.leader_load), ("follower_load", columns.follower_load)):
            sound = np.isfinite(load) & (load >= 0)
            if not sound.all():
                row, resource = (int(index) for index in np.argwhere(~sound)[0])
                place = f"{field}.{RESOURCES[resource]}"
                raise self.refusal(row, place, None, f"{load[row, resource]:g}", "a finite number, 0 or more")

    def unique_partitions(self, columns: PartitionColumns) -> None:
        order = np.lexsort((columns.number, columns.topic))
        twin = (np.diff(columns.topic[order]) == 0) & (np.diff(columns.number[order]) == 0)
        if (first := _first(twin)) is not None:
            one, other = sorted((int(order[first]), int(order[first + 1])))
            name = f"{columns.topics[columns.topic[one]]}-{columns.number[one]}"
            places = f"{self.where(one, '', None)} and {self.where(other, '', None)}"
            raise InputError(f"{self.path}: {places} both describe partition {name}; keep one of them")

    def broker_index(
        self, ids: LongArray, row: LongArray, column: LongArray, field: str, brokers: Brokers
    ) -> IntArray:
        index = np.minimum(np.searchsorted(brokers.id, ids), len(brokers) - 1)
        if (first := _first(brokers.id[index] != ids)) is not None:
            expected = "the id of a broker in this file"
            remedy = "add the broker (state dead if it is gone) or correct the list"
            found = None if ids[first] == LEFT_OUT else int(ids[first])
            raise self.refusal(int(row[first]), field, int(column[first]), found, expected, remedy)
        return index.astype(np.int32)

    def no_repeats(self, lists: Lists, replicas: IntArray, row: LongArray, column: LongArray) -> None:
        for later in range(1, replicas.shape[1]):
            for earlier in range(later):
                same = (replicas[:, later] == replicas[:, earlier]) & (replicas[:, later] != NOBODY)
                if (first := _first(same)) is not None:
                    at = int(np.flatnonzero((row == first) & (column == later))[0])
                    expected = "each broker once in a list of replicas"
                    raise self.refusal(first, "replicas", later, int(lists.values[at]), expected)

    def leader(self, columns: PartitionColumns, replicas: IntArray, brokers: Brokers) -> IntArray:
        offline = columns.leader == LEFT_OUT
        index = np.minimum(np.searchsorted(brokers.id, columns.leader), len(brokers) - 1).astype(np.int32)
        known = (brokers.id[index] == columns.leader) & (replicas == index[:, None]).any(axis=1)
        if (first := _first(~offline & ~known)) is not None:
            expected = "one of its replicas, or null"
            raise self.refusal(first, "leader", None, int(columns.leader[first]), expected)
        return np.where(offline, NOBODY, index).astype(np.int32)

    def in_sync(self, columns: PartitionColumns, replicas: IntArray, brokers: Brokers) -> NDArray[np.bool_]:
        given = columns.in_sync.count != LEFT_OUT
        in_sync = np.asarray((replicas != NOBODY) & ~given[:, None])
        row, column = columns.in_sync.row, columns.in_sync.column
        index = np.minimum(np.searchsorted(brokers.id, columns.in_sync.values), len(brokers) - 1)
        known = brokers.id[index] == columns.in_sync.values
        match = (replicas[row] == index[:, None]) & known[:, None]
        if (first := _first(~match.any(axis=1))) is not None:
            value = int(columns.in_sync.values[first])
            raise self.refusal(int(row[first]), "in_sync", int(column[first]), value, "one of its replicas")
        in_sync[row, match.argmax(axis=1)] = True
        if (repeated := _first(given & (in_sync.sum(axis=1) != columns.in_sync.count))) is not None:
            ids = columns.in_sync.values[row == repeated].tolist()
            raise self.refusal(repeated, "in_sync", None, ids, "each replica at most once")
        return in_sync

    def log_dir(
        self, columns: PartitionColumns, replicas: IntArray, brokers: Brokers, log_dirs: LogDirs
    ) -> IntArray:
        lists = columns.log_dirs
        wrong = (lists.count != LEFT_OUT) & (lists.count != columns.replicas.count)
        if (first := _first(wrong)) is not None:
            expected = f"{columns.replicas.count[first]}, one for each replica"
            raise self.refusal(first, "log_dirs", None, f"a list of {lists.count[first]}", expected)
        place_of = np.full((len(brokers), len(columns.paths) + 1), NOBODY, dtype=np.int32)
        code_of = {path: code for code, path in enumerate(columns.paths)}
        for place, path in enumerate(log_dirs.path):
            if path in code_of:
                place_of[log_dirs.broker[place], code_of[path]] = place
        row, column = lists.row, lists.column
        holder = replicas[row, column]
        found = place_of[holder, lists.values]  # null is -1: the last column, which knows no place
        declares = np.bincount(log_dirs.broker, minlength=len(brokers)) > 0
        if (first := _first((found == NOBODY) & (lists.values != LEFT_OUT) & declares[holder])) is not None:
            path = columns.paths[lists.values[first]]
            expected = f"a log dir that broker {brokers.id[holder[first]]} declares"
            remedy = "declare it there or write null"
            raise self.refusal(int(row[first]), "log_dirs", int(column[first]), shown(path), expected, remedy)
        log_dir = np.full(replicas.shape, NOBODY, dtype=np.int32)
        log_dir[row, column] = found
        return log_dir


def _first(offending: NDArray[np.bool_]) -> int | None:
    """The first True, or None."""
    if not len(offending):
        return None
    first = int(offending.argmax())
    return first if offending[first] else None
