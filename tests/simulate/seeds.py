"""Seeds of a simulation: one, or a range of them in several processes, with a line now and then."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import Pool
from typing import TypeVar

T = TypeVar("T")

PROGRESS_SECONDS = 10.0


def add_seeds(parser: argparse.ArgumentParser, default: str) -> None:
    """Take which seeds are asked for, and by how many processes."""
    parser.add_argument("--seed", type=int, help="one seed, with all that is known of it")
    parser.add_argument(
        "--seeds", default=default, help="from the first up to the second, that one left out: %(default)s"
    )
    parser.add_argument("--processes", type=int, default=1, help="so many at once")
    parser.add_argument("--keep-going", action="store_true", help="do not end at the first violation")


def selected_seeds(request: argparse.Namespace) -> range:
    """Which seeds."""
    if request.seed is not None:
        return range(request.seed, request.seed + 1)
    first, _, last = request.seeds.partition(":")
    return range(int(first), int(last))


def played(play: Callable[[int], T], seeds: range, processes: int, sums: Callable[[], object]) -> Iterator[T]:
    """What came of each seed, in their order; every ten seconds what came of all so far is told.

    Parameters
    ----------
    play
        Plays a seed; a function that another process can be told of.
    sums
        What came of all that was handed out so far.
    """
    told = time.perf_counter()
    for number, one in enumerate(_each(play, seeds, processes)):
        if number and time.perf_counter() - told >= PROGRESS_SECONDS:
            told = time.perf_counter()
            print(f"{number} of {len(seeds)} seeds: {sums()}", file=sys.stderr, flush=True)
        yield one


def _each(play: Callable[[int], T], seeds: range, processes: int) -> Iterator[T]:
    one = partial(_one, play)
    if processes <= 1:
        yield from map(one, seeds)
        return
    with Pool(processes) as pool:
        yield from pool.imap(one, seeds, chunksize=4)


def _one(play: Callable[[int], T], seed: int) -> T:
    # A world is one large heap of live objects: to look for garbage in it takes up to half the time.
    gc.disable()
    try:
        return play(seed)
    finally:
        gc.enable()
