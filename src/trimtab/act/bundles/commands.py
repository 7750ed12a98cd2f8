"""What an execution of this level orders besides what all levels do."""

from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.act.execution.commands import Command, Look


@dataclass(frozen=True)
class Observe(Look):
    """Look at owners and boundaries (`BundlesPort.observe`). Answer: `ClusterSeen`.

    Attributes
    ----------
    deep
        Ask also for the switches that are set, and for the health of `destinations`.
    """

    namespaces: tuple[str, ...]
    destinations: tuple[str, ...] = ()
    deep: bool = False


@dataclass(frozen=True)
class ReadBalancing(Look):
    """Find out how the switches stand; `everywhere` asks every broker, too. Answer: `BalancingRead`."""

    everywhere: bool = False


@dataclass(frozen=True)
class WriteBalancing(Command):
    """Set switches for all brokers; None takes a setting away. Answer: `BalancingWritten`."""

    values: Mapping[str, str | None]


@dataclass(frozen=True)
class Unload(Command):
    """Send bundles to these brokers. Answer: `UnloadAnswered`."""

    targets: Mapping[str, str]


@dataclass(frozen=True)
class Split(Command):
    """Cut a bundle at these boundaries, its parts to stay where they are. Answer: `SplitAnswered`."""

    step: int
    bundle: str
    boundaries: tuple[int, ...]


@dataclass(frozen=True)
class LookUp(Command):
    """Ask who serves these bundles, as a client would: one without an owner gets one. Answer: `LookedUp`."""

    bundles: tuple[str, ...]
