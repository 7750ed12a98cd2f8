"""Metrics of the commands that sample and stream, for Prometheus: an HTTP server while the command runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trimtab.extras import missing_extra_named
from trimtab.observe.collect.sampler import TickResult
from trimtab.observe.lake.columns import SECOND
from trimtab.report.formats import print_progress
from trimtab_common.errors import SettingsError

if TYPE_CHECKING:
    # It imports Spark, which `trimtab collect` does not need.
    from trimtab.observe.steps.stream import BatchResult


@dataclass(frozen=True, slots=True)
class CommandMetric:
    """A metric of a command; `kind` is that of Prometheus."""

    name: str
    kind: str
    text: str
    labels: tuple[str, ...] = ()


COLLECT_METRICS: Final = (
    CommandMetric(
        "trimtab_collect_ticks_total", "counter", "Ticks that were written, lost or missed.", ("result",)
    ),
    CommandMetric("trimtab_collect_rows_total", "counter", "Rows of samples."),
    CommandMetric("trimtab_collect_problems_total", "counter", "What is missing in samples, and lost ticks."),
    CommandMetric("trimtab_collect_tick_seconds", "summary", "Time to take and write the samples of a tick."),
    CommandMetric("trimtab_collect_brokers", "gauge", "Brokers in the newest tick, by answer.", ("state",)),
    CommandMetric(
        "trimtab_collect_newest_tick_age_seconds", "gauge",
        "Time since the newest tick that was written; before the first one, since the start.",
    ),
)  # fmt: skip
STREAM_METRICS: Final = (
    CommandMetric("trimtab_stream_batch_seconds", "summary", "Time of a micro-batch.", ("balancer",)),
    CommandMetric("trimtab_stream_rows_total", "counter", "Samples in micro-batches.", ("balancer",)),
    CommandMetric("trimtab_stream_late_rows_total", "counter", "Samples that came too late.", ("balancer",)),
    CommandMetric(
        "trimtab_stream_newest_tick_age_seconds", "gauge",
        "Time since the newest tick that was published; before the first one, since the start.",
        ("balancer",),
    ),
)  # fmt: skip


@contextmanager
def collect_metrics(address: str | None) -> Iterator[Callable[[TickResult], None]]:
    """A function that counts ticks; it does nothing without an address.

    Raises
    ------
    SettingsError
        If the address is no address and port of this machine, or in use.
    MissingExtraError
        If prometheus_client is not installed.
    """
    if address is None:
        yield lambda _: None
        return
    with _instruments(address, COLLECT_METRICS) as made:
        newest = time.time()
        made["trimtab_collect_newest_tick_age_seconds"].set_function(lambda: time.time() - newest)
        for result in ("written", "lost", "missed"):
            made["trimtab_collect_ticks_total"].labels(result)

        def count(tick: TickResult) -> None:
            nonlocal newest
            ticks, sample = made["trimtab_collect_ticks_total"], tick.sample
            ticks.labels("written" if tick.problem is None else "lost").inc()
            ticks.labels("missed").inc(tick.missed)
            if tick.problem is None:
                newest = tick.tick.timestamp()
            problems = 0 if tick.problem is None else 1
            if sample is not None:
                problems += len(sample.problems)
                made["trimtab_collect_rows_total"].inc(sample.rows)
                made["trimtab_collect_tick_seconds"].observe(sample.seconds + tick.write_seconds)
                made["trimtab_collect_brokers"].labels("answered").set(sample.answered)
                made["trimtab_collect_brokers"].labels("silent").set(sample.brokers - sample.answered)
            made["trimtab_collect_problems_total"].inc(problems)

        yield count


@contextmanager
def stream_metrics(address: str | None) -> Iterator[Callable[[BatchResult], None]]:
    """A function that counts micro-batches; it does nothing without an address.

    Raises
    ------
    SettingsError, MissingExtraError
        As `collect_metrics`.
    """
    if address is None:
        yield lambda _: None
        return
    with _instruments(address, STREAM_METRICS) as made:
        newest: dict[str, float] = {}
        begun = time.time()

        def count(batch: BatchResult) -> None:
            name = batch.balancer
            if name not in newest:
                newest[name] = begun
                made["trimtab_stream_newest_tick_age_seconds"].labels(name).set_function(
                    lambda: time.time() - newest[name]
                )
            if batch.newest_tick is not None:
                newest[name] = batch.newest_tick / SECOND
            made["trimtab_stream_batch_seconds"].labels(name).observe(batch.seconds)
            made["trimtab_stream_rows_total"].labels(name).inc(batch.rows)
            made["trimtab_stream_late_rows_total"].labels(name).inc(batch.late_rows)

        yield count


@contextmanager
def _instruments(address: str, metrics: tuple[CommandMetric, ...]) -> Iterator[dict[str, Any]]:
    """The instruments of these metrics, served at an address until the end of the block."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise SettingsError(f"--metrics is {address!r}: write an address and a port like 127.0.0.1:9230")
    with missing_extra_named():
        import prometheus_client as client
    registry = client.CollectorRegistry()
    client.ProcessCollector(registry=registry)
    kinds = {"counter": client.Counter, "gauge": client.Gauge, "summary": client.Summary}
    made = {one.name: kinds[one.kind](one.name, one.text, one.labels, registry=registry) for one in metrics}
    try:
        server, thread = client.start_http_server(int(port), host.strip("[]"), registry)
    except OSError as error:
        raise SettingsError(
            f"--metrics is {address!r}: no server can listen there ({error.strerror or error}); name a free "
            "port and an address of this machine"
        ) from None
    print_progress(f"metrics at http://{host}:{server.server_port}/metrics")
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
