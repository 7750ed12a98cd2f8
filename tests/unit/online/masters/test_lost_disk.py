"""A node that comes back with an empty folder: when that loses what was acknowledged, and when not."""

from __future__ import annotations

import pytest

from support.masters_bench import Bench
from trimtab.online.masters.entries import Record
from trimtab.online.masters.messages import AskStanding, Publish, Published, Standing


def acknowledged_beside_one_that_is_cut_off() -> tuple[Bench, int, int, int]:
    """A message stands on the master and on one node more; those two, and the third, which heard nothing."""
    bench = Bench()
    master = bench.elected()
    second, cut_off = (node for node in range(3) if node != master)
    bench.holds = lambda sender, receiver, message: (
        isinstance(receiver, int) and sender != receiver and cut_off in (sender, receiver)
    )
    bench.send(master, Publish("client", Record("t", "p", 1, b"")))
    bench.run(0.1)
    assert bench.heard[-1] == (master, 0, Published("t", "p", 1, "stored", master))
    return bench, master, second, cut_off


def slots_behind(bench: Bench, master: int, other: int) -> int:
    """As `trimtab status --paxos` has it from the nodes."""
    ((one,), (two,)) = (bench.send(node, AskStanding("client")) for node in (master, other))
    assert isinstance(one, Standing) and isinstance(two, Standing) and one.holds
    return one.applied - two.applied


def messages_after_the_masters_end(bench: Bench, master: int, emptied: int) -> int:
    """How many are left once the master ends while a node comes back empty, and another one is master."""
    bench.written[emptied] = {}
    bench.restart(emptied, life=2)
    bench.down.add(master)
    bench.held.clear()
    bench.let_go()
    bench.run(2 * (bench.settings.lease_seconds + bench.settings.renewal_seconds))
    (now,) = bench.masters()
    (told,) = bench.send(now, AskStanding("client"))
    return int(told.messages)


def test_a_majority_of_the_others_is_not_enough() -> None:
    """Two of two are sound, one of them behind: the message stood on the master and on the lost disk."""
    bench, master, second, cut_off = acknowledged_beside_one_that_is_cut_off()
    assert slots_behind(bench, master, cut_off) > 0
    assert messages_after_the_masters_end(bench, master, second) == 0


@pytest.mark.parametrize("which", ["second", "cut off"])
def test_where_all_others_are_caught_up_an_empty_folder_loses_nothing(which: str) -> None:
    """Whichever of them it is, and though the master ends at once."""
    bench, master, second, cut_off = acknowledged_beside_one_that_is_cut_off()
    emptied, left = (second, cut_off) if which == "second" else (cut_off, second)
    bench.down.add(emptied)
    if which == "second":
        bench.held.clear()
        bench.holds = lambda sender, receiver, message: False
    bench.run(bench.settings.renewal_seconds)
    assert slots_behind(bench, master, left) == 0
    assert messages_after_the_masters_end(bench, master, emptied) == 1
