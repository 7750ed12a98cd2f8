"""The whole service in virtual time on a simulated Kafka: no invariant breaks over weeks of faults."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulate.served_hours import play
from tiers import by_tier

pytestmark = pytest.mark.slow
SEEDS, HOURS = by_tier((1, 40.0), (1, 40.0), (5, 500.0))
DAYS, QUIET_DAYS = by_tier((0.2, 0.2), (0.2, 0.2), (2.0, 7.0))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory, where there is one: nothing here is about losing the machine."""
    memory = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(prefix="trimtab-", dir=memory if memory.is_dir() else None))
    yield made
    shutil.rmtree(made)


@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
def test_no_invariant_breaks_in_hours_of_the_whole_service(seed: int, folder: Path) -> None:
    """Everything fails now and then; afterwards a balanced cluster is left alone."""
    served = play(seed, HOURS, DAYS, QUIET_DAYS, folder)
    kinds = Counter(one.kind for one in served.record.decisions)
    assert kinds["execute"] and kinds["measured"], served.counts


def test_a_seed_repeats_its_trace(folder: Path) -> None:
    """The same seed gives the same decisions and orders at the same times."""
    first, second = (play(2, 20.0, 0.1, 0.05, _made(folder / name)) for name in "ab")
    assert first.record.trace == second.record.trace
    assert first.record.documents > 100


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
