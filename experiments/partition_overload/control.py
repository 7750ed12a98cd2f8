"""What the processes of a run on brokers are told, and tell one another: small files in its folder."""

from __future__ import annotations

import argparse
import json
import struct
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from streams import CONSUMER_PER_SECOND, PARTITIONS, drawn, zipf

from trimtab.history.keys.simulation import KeyStream
from trimtab_common.files import write_atomically

GROUP, TABLES = "readers", "trimtab-tables"
BROKERS, PRODUCERS, MEMBERS = 3, 3, 3
"""Three consumers, as in the paper; each has a worker for every partition that is its."""
SLOWER = 4
"""One of C producers sends a record in four seconds, a worker does a quarter of 260 a second."""
WORKER_PER_SECOND = CONSUMER_PER_SECOND / SLOWER
MAX_PARTITIONS = 2 * PARTITIONS
"""IPOOA may have so many, as in virtual time."""
QUARTER = 4
"""Before a load begins, a quarter of it has come in for a while: the load steps up."""
LEARN_SECONDS = 240.0
"""Of that quarter no more is drawn: it comes again then."""
VALUE = struct.Struct("<iIId")
"""Number of a record in its stream (-1 before the step), index of its key, which of its key, when sent."""
RECORD_BYTES = 100


@dataclass(frozen=True)
class Task:
    """One run, as each of its processes is told of it.

    Attributes
    ----------
    topic, bootstrap, folder
        Where records go, and where files do.
    policy
        A name of `POLICIES` in `senders`.
    exponent, seconds, seed
        Of the stream.
    producers
        As many as it is of: C.
    one
        Which producer this is.
    """

    topic: str
    bootstrap: str
    folder: str
    policy: str
    exponent: float
    producers: float
    seconds: float
    seed: int
    one: int = 0

    def text(self) -> str:
        """As an argument."""
        return json.dumps(asdict(self))

    @property
    def guarded(self) -> bool:
        """Whether tables are followed."""
        return self.policy.startswith("tables")

    @property
    def shared(self) -> bool:
        """Whether the partitions of a consumer share what it can do, as in the paper."""
        return self.policy.startswith("paper: ")

    @property
    def adds(self) -> bool:
        """Whether the policy may have partitions added: IPOOA's step 6."""
        return "IPOOA" in self.policy

    @property
    def add_seconds(self) -> float:
        """From an added partition to the next; the paper has no such pause."""
        return 10.0 if self.policy.endswith("added every 10 s") else 1.0

    @property
    def by_load(self) -> bool:
        """Whether consumers are assigned by load after a while."""
        return self.policy in ("CL", "paper: CL")

    @property
    def per_second(self) -> float:
        """Records a second, of all producers together."""
        return self.producers / SLOWER

    def stream(self) -> KeyStream:
        """What is measured."""
        return drawn(zipf(self.exponent), self.seed, self.per_second, self.seconds)

    def before(self) -> KeyStream:
        """What comes before it: another draw of the same keys, of a quarter of the load."""
        learnt = drawn(zipf(self.exponent), 1000 + self.seed, self.per_second / QUARTER, LEARN_SECONDS)
        named = drawn(zipf(self.exponent), self.seed, 1.0, 100.0)
        return KeyStream(learnt.at, learnt.which, named.keys)


def told(description: str) -> Task:
    """The run that a process was started for, from its command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("task", help="a run, as JSON; on_brokers.py hands it over")
    return Task(**json.loads(parser.parse_args().task))


def say(folder: str, what: str, value: float = 0.0) -> None:
    """Tell."""
    write_atomically(Path(folder) / what, repr(value).encode())


def heard(folder: str, what: str) -> float | None:
    """What was told; None while nothing was."""
    path = Path(folder) / what
    return float(path.read_text()) if path.exists() else None


def wait_for(folder: str, what: str, seconds: float) -> float:
    """Wait until something is told.

    Raises
    ------
    TimeoutError
        If it is not within so long.
    """
    until = time.monotonic() + seconds
    while (value := heard(folder, what)) is None:
        if time.monotonic() > until:
            raise TimeoutError(f"{what} was not told in {folder} within {seconds:g} s")
        time.sleep(0.05)
    return value
