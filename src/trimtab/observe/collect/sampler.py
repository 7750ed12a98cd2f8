"""Collectors of a system as a value: the seam between a system and the engine that samples tick after tick.

Collectors belong to a system, not to a balancer: every balancer on the system reads the same samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from trimtab.model.errors import ObserveError
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.observe.collect.sinks import Columns, RowBatch, SampleSink
from trimtab_common.errors import SettingsError


class RequestError(ObserveError):
    """A broker did not answer a request, or answered that it will not."""


@dataclass(frozen=True)
class TickSample:
    """The samples of one tick.

    Attributes
    ----------
    cluster
        The name the samples are filed under.
    answered, brokers
        Brokers that answered, of those registered.
    scraped, endpoints
        Metrics endpoints that answered, of those asked.
    dropped_values
        Metric values that were NaN, infinite, negative or unreadable.
    problems
        What is missing and why, one sentence each.
    """

    cluster: str
    batches: tuple[RowBatch, ...]
    answered: int
    brokers: int
    scraped: int
    endpoints: int
    dropped_values: int
    problems: tuple[str, ...]
    seconds: float

    @property
    def rows(self) -> int:
        """Number of rows in all."""
        return sum(len(batch) for batch in self.batches)

    def rows_of(self, kind: str) -> Iterator[dict[str, Any]]:
        """Rows of one kind, values that are not there left out."""
        return (row for batch in self.batches if batch.kind == kind for row in batch.rows())


class Sampler(Protocol):
    """A collector of any system, connected to one cluster."""

    def sample(self) -> TickSample:
        """Ask everything once.

        Raises
        ------
        Unanswered
            If no broker at all tells what the cluster is; one broker's failure is a row, not an error.
        """
        ...


@dataclass(frozen=True)
class SystemSampler:
    """The collectors of a system.

    Attributes
    ----------
    columns
        Name and type of each column of its raw rows.
    open
        A connection of the system, and how to sample, to a collector while the block lasts. Raises
        `ConnectError` if no broker can be reached now.
    warnings
        Sentences for people when collecting begins: what these settings leave out.
    recorder
        A landing that adds samples to a file as well, in a form that replays read; None where a system has
        no such form.
    """

    columns: Columns
    open: Callable[[Any, CollectSettings, CapacitySettings], AbstractContextManager[Sampler]]
    warnings: Callable[[CollectSettings], tuple[str, ...]] = lambda _: ()
    recorder: Callable[[SampleSink, Path], SampleSink] | None = None

    @contextmanager
    def recording(self, sink: SampleSink, path: Path | None) -> Iterator[SampleSink]:
        """Record samples as well, where a file is given.

        Raises
        ------
        SettingsError
            If the system's samples cannot be recorded.
        InputError
            If the file is there and is no recording.
        ObserveError
            If it cannot be written.
        """
        if path is None:
            yield sink
            return
        if self.recorder is None:
            raise SettingsError(f"samples of this system cannot be recorded in {path}: leave --record out")
        with closing(self.recorder(sink, path)) as both:
            yield both
