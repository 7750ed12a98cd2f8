"""Python work as the tasks of a Spark job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from trimtab.model.errors import ObserveError, PlanError
from trimtab_common.errors import InputError, TrimtabError

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import SparkSession

ROW: Final = "task int, found binary, progress array<string>, error string"
"""`progress` has lines for the user, or the text of the error."""
ERRORS: Final[Mapping[str, type[TrimtabError]]] = {
    one.__name__: one for one in (InputError, PlanError, ObserveError)
}
"""Errors of a task that its user can mend."""


class SparkTask(Protocol):
    """The work of one Spark task; it is sent to the executor."""

    def run(self) -> tuple[bytes, list[str]]:
        """Do the work; the second value has progress lines for the user."""


def run_tasks(session: SparkSession, works: Sequence[SparkTask]) -> list[tuple[bytes, list[str]]]:
    """The outcome of each, in their order, a task each.

    Raises
    ------
    TrimtabError
        The error of a task; of several that failed, the first.
    """
    numbers = session.range(0, len(works), 1, len(works))
    found = sorted(numbers.mapInArrow(_worker(works), ROW).collect())
    for _, _, progress, error in found:
        if error is not None:
            raise ERRORS[error](*progress)
    return [(bytes(one), list(progress)) for _, one, progress, _ in found]


def _worker(works: Sequence[SparkTask]) -> Callable[[Iterable[RecordBatch]], Iterator[RecordBatch]]:
    """The function that Spark calls with the numbers of a worker's tasks."""

    def work(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        import pyarrow

        for batch in batches:
            for number in batch.column(0).to_pylist():
                found, progress, error = _outcome(works[number])
                columns = {
                    "task": pyarrow.array([number], "int32"),
                    "found": pyarrow.array([found], "binary"),
                    "progress": pyarrow.array([progress], pyarrow.list_(pyarrow.string())),
                    "error": pyarrow.array([error], "string"),
                }
                yield pyarrow.RecordBatch.from_arrays(list(columns.values()), list(columns))

    return work


def _outcome(work: SparkTask) -> tuple[bytes | None, list[str], str | None]:
    """Return a user's error as text: Spark would retry the task and hide the error in a stack trace."""
    try:
        found, progress = work.run()
        return found, progress, None
    except TrimtabError as error:
        kind = next((name for name, one in ERRORS.items() if isinstance(error, one)), ObserveError.__name__)
        return None, [str(error)], kind
