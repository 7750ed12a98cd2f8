"""Bundles that come back to a broker which they had been unloaded from: a pure function of what was moved.

Whoever moved them, be it a replay, an execution, or the brokers' own balancing as far as it was seen: the
record of moves is all that is asked for.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class UnloadEvent:
    """A bundle was unloaded.

    Attributes
    ----------
    at
        Seconds since 1970.
    bundle, source
        What was unloaded, and the broker that had it.
    target
        Where it went; None where nobody knows.
    """

    at: float
    bundle: str
    source: str
    target: str | None = None


@dataclass(frozen=True)
class Oscillation:
    """A bundle that went back to a broker which it had been unloaded from.

    Attributes
    ----------
    bundle
        What moved.
    source, target
        The broker that it was on last, None where nobody knows, and the one that it came back to.
    at
        Seconds since 1970: when it came back, or was first known to be back.
    away_seconds
        Since it was last unloaded from `target`.
    through
        The brokers that it was on in between, as far as they are known, in order of time; the last of them
        is `source`.
    """

    bundle: str
    source: str | None
    target: str
    at: float
    away_seconds: float
    through: tuple[str, ...] = ()

    @property
    def left_at(self) -> float:
        """The time at which it was unloaded from `target`, seconds since 1970."""
        return self.at - self.away_seconds


@dataclass
class _BundleHistory:
    """The history of one bundle: when it left where, and where it has been; None is a place unknown."""

    left: dict[str, float] = field(default_factory=dict)
    places: list[str | None] = field(default_factory=list)


def oscillations(moves: Iterable[UnloadEvent]) -> Iterator[Oscillation]:
    """Every return of a bundle, in order of time.

    A bundle that is unloaded from a broker where no recorded move has brought it was brought there by
    somebody else, or by a lookup; if it had left that broker, it has come back by then, and that is a return
    like any other.

    Parameters
    ----------
    moves
        In order of time.

    Yields
    ------
    Oscillation
        Once for every return. Where a bundle had been before its first move is not known, so that its first
        arrival anywhere is no return.
    """
    journeys: dict[str, _BundleHistory] = {}
    for move in moves:
        journey = journeys.setdefault(move.bundle, _BundleHistory())
        if not journey.places or journey.places[-1] != move.source:
            yield from _arrived(move, journey, move.source)
        journey.left[move.source] = move.at
        if move.target is None:
            journey.places.append(None)
        else:
            yield from _arrived(move, journey, move.target)


def _arrived(move: UnloadEvent, journey: _BundleHistory, broker: str) -> Iterator[Oscillation]:
    """A bundle is at a broker, by this move at the latest."""
    if broker in journey.left:
        last = len(journey.places) - 1 - journey.places[::-1].index(broker)
        through = tuple(place for place in journey.places[last + 1 :] if place is not None)
        source = through[-1] if through else None
        away = move.at - journey.left[broker]
        yield Oscillation(move.bundle, source, broker, move.at, away, through)
    journey.places.append(broker)
