"""The origin of a snapshot and how far it can be trusted; the same for every balancer."""

from dataclasses import dataclass

from trimtab_common.documents import Name


@dataclass(frozen=True)
class Quality:
    """The trust that a snapshot's loads deserve.

    Attributes
    ----------
    valid_share
        Share of the expected samples that were there and sound, 0 to 1.
    oldest_sample_seconds
        Age of the oldest sample used, at the time the snapshot was taken.
    cpu
        "measured" (a fitted model of measured broker CPU), "shares" (measured broker CPU split by fixed
        shares) or "absent" (no CPU signal: CPU is not balanced).
    extra
        Further facts, by names that begin with `x_` in files.
    """

    valid_share: float = 1.0
    oldest_sample_seconds: float = 0.0
    cpu: str = "measured"
    extra: tuple[tuple[str, object], ...] = ()

    @property
    def nominal_capacity(self) -> tuple[str, ...]:
        """Resources of which no capacity is known: all brokers got the same made-up one, to compare them."""
        named = dict(self.extra).get("x_nominal_capacity", ())
        return tuple(str(name) for name in named) if isinstance(named, list | tuple) else ()


@dataclass(frozen=True)
class SnapshotReference:
    """The snapshot that a plan was made from.

    Attributes
    ----------
    taken_at
        RFC 3339, UTC.
    sha256
        Hex digest of the snapshot's bytes (of a folder: of its files' digests in name order).
    """

    cluster: Name
    taken_at: Name
    sha256: Name
