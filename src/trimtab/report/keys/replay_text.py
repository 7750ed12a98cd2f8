"""Key policies side by side over recorded records, as a table and as plain JSON values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from trimtab.report.formats import duration_text, figure_text
from trimtab.report.tables import figures_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trimtab.history.keys.compare import KeyPolicyResult
    from trimtab.history.keys.stream import KeyStream


def replay_text(
    stream: KeyStream, outcomes: Mapping[str, KeyPolicyResult], how: str
) -> Iterator[RenderableType]:
    """A row for each scheme.

    Parameters
    ----------
    how
        The world that all schemes share, in a few words.
    """
    records = len(stream.at)
    keys = len(set(stream.which))
    yield (
        f"{records:,} records of {keys:,} keys over {duration_text(stream.at[-1] - stream.at[0])}, the most "
        f"frequent with {_share(stream):.1%}; {how}"
    )
    table = figures_table(
        ["policy"], ["max/mean", "delay: p50", "p99", "overtaken", "partitions a key", "added", "most waited"]
    )
    table.columns[0].no_wrap = True
    for name, one in outcomes.items():
        table.add_row(
            escape(name),
            figure_text(one.max_over_mean, ".2f"),
            _seconds(one.p50_seconds),
            _seconds(one.p99_seconds),
            f"{one.overtaken:.1%}" if one.overtaken else "none",
            figure_text(one.partitions_per_key, ".2f"),
            f"{one.added:,}",
            f"{one.waiting.max():,.0f}",
        )
    yield table
    yield (
        "[dim]max/mean: records of the fullest partition over the mean; delay: from sent to effect; "
        "overtaken: records that took effect before an earlier one of their key; "
        "partitions a key: mean over records; most waited: records in one partition at a time[/]"
    )


def _share(stream: KeyStream) -> float:
    counts = [0] * len(stream.keys)
    for one in stream.which:
        counts[one] += 1
    return max(counts) / len(stream.which)


def _seconds(seconds: float) -> str:
    return (
        f"{1000 * seconds:.3g} ms"
        if seconds < 1
        else f"{seconds:,.3g} s"
        if seconds < 1000
        else duration_text(seconds)
    )


def replay_document(stream: KeyStream, outcomes: Mapping[str, KeyPolicyResult]) -> dict[str, Any]:
    """The same as plain JSON values, with what waits in each partition over time."""
    return {
        "records": len(stream.at),
        "seconds": stream.at[-1] - stream.at[0],
        "keys": len(set(stream.which)),
        "policies": [
            {
                "name": name,
                "max_over_mean": one.max_over_mean,
                "p50_seconds": one.p50_seconds,
                "p99_seconds": one.p99_seconds,
                "overtaken": one.overtaken,
                "partitions_per_key": one.partitions_per_key,
                "added": one.added,
                "records": list(one.records),
                "over_time": {"at": one.at.tolist(), "waiting": one.waiting.tolist()},
            }
            for name, one in outcomes.items()
        ],
    }
