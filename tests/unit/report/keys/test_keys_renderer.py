"""The sentences of the balancer `keys` that people decide by."""

from __future__ import annotations

import re
from dataclasses import replace

from support.key_snapshots import a_key, a_snapshot
from trimtab.act.executor import PlanDrift, PreparedPlan
from trimtab.act.keys.state import KeysExecutionSettings as ActSettings
from trimtab.act.keys.state import RoutingStep, RoutingStepKind, TableLocation
from trimtab.files.keys.settings import KeysSettings
from trimtab.model.keys import KeysReceipt, KeysSnapshot, RoutingOutcome
from trimtab.plan.keys.trim import plan_keys
from trimtab.report import keys
from trimtab.report.keys import status_document, status_text

LONG = "k" * 500
HOT = {0: 90.0, **{group: 10.0 for group in range(1, 13)}}
"""Group 0 is one key. Partitions get 120, 30, 30, 30; mean 52.5."""


def hot(name: str = "ann", **head: object) -> KeysSnapshot:
    """That snapshot, with a backlog of 1,000 in partition 0."""
    found = a_snapshot(HOT, replace(a_key(name, 0, 90.0, 0, share=0.43), consumer=0.9), **head)  # type: ignore[arg-type]
    return replace(
        found, partitions=(replace(found.partitions[0], backlog=1000, isc=0.95), *found.partitions[1:])
    )


def glance(snapshot: KeysSnapshot) -> str:
    """As `trimtab status` prints it."""
    return "\n".join(map(str, status_text(snapshot)))


def line(text: str, start: str) -> list[str]:
    """The words of the one line that begins so."""
    (found,) = (one for one in text.splitlines() if one.strip().startswith(start))
    return found.split()


def test_live_status_lists_keys_their_cost_and_the_balance_of_partitions() -> None:
    """Who reads the topic, the fullest partition, what a consumer can do, and the hot key's share."""
    text = glance(hot(capacity=100.0))
    assert "orders of here at 2026-11-23T04:00:00Z, read by billing: 4 partitions, table 0 over 4" in text
    assert "fullest partition: 2.29 times the mean" in text
    assert "one consumer can do 100.0 records/s, 100.0 in one partition" in text
    assert line(text, "ann") == ["ann", "0", "90.0", "43.0%", "90%", "0"]
    assert line(text, "partition 0")[2:] == ["120%", "(+129%)", "120.0", "1,000", "–", "0.95", "–"]
    assert "without a key" not in text


def test_live_status_with_little_information() -> None:
    """No group, no capacity: no shares of it are made up."""
    text = glance(hot(consumers=""))
    assert "read by no group" in text
    assert "one consumer can do" not in text
    assert line(text, "partition 0")[2] == "(+129%)", "no use of a capacity that nobody knows"


def test_records_without_a_key_are_printed() -> None:
    """Of a topic that has some; in the document always."""
    found = hot(capacity=100.0)
    some = replace(found, quality=replace(found.quality, extra=(("x_keyless_share", 0.256),)))
    assert ", 25.6% of the records without a key" in glance(some)
    assert status_document(some)["keyless_share"] == 0.256
    assert status_document(found)["keyless_share"] == 0.0


def test_records_outside_the_table_are_printed() -> None:
    """If the snapshot contains them."""
    found = hot(capacity=100.0)
    some = replace(found, quality=replace(found.quality, extra=(("x_placed_share", 0.256),)))
    assert "; 25.6% of those with a key lie where the table puts them" in glance(some)
    assert status_document(some)["placed_share"] == 0.256
    assert "lie where" not in glance(found)
    assert status_document(found)["placed_share"] is None


def test_a_long_key_is_shortened_in_every_text() -> None:
    """In the table of keys, among moves, in problems; two that begin alike differ in comparisons."""
    found = hot(LONG, capacity=80.0)
    plan = plan_keys(found, KeysSettings())
    shown = "k" * 40 + "… (500 characters)"
    text = keys.plan_text(plan, found)
    assert text.count(shown) >= 3
    assert LONG not in text
    assert shown in glance(found)
    (move,) = (one for one in plan.moves if one.name == LONG)
    changes = {keys.move_text(move), keys.move_text(replace(move, name="k" * 499 + "j"))}
    assert len(changes) == 2
    assert all(len(one) < 120 for one in changes)


def test_a_plan_lists_moves_and_their_effect() -> None:
    """Cost, the fullest partition before and after, what waits (120 a second come, 100 are done), reasons."""
    plan = plan_keys(hot(capacity=100.0), KeysSettings())
    text = keys.plan_text(plan)
    assert "Plan by trim: balanced: every goal holds after these moves" in text
    assert (
        "cost: 4 key groups to move, 1 key to split differently; 85 records/s change their partition" in text
    )
    assert "fullest partition: 2.29 times the mean, 1.05 after" in text
    assert re.search(r"\n +0 +1,000 +120\.0 +55\.0 +never or unknown +22 s\n", text)
    assert (
        "the key has 90 records/s, 43.0% of all and 90% of the capacity of a partition (100); "
        "splits it over 2 partitions (45 records/s each)"
    ) in text
    assert "0 → 0, 1" in text
    more = plan_keys(hot(capacity=60.0), replace(KeysSettings(), max_partitions=8))
    assert "4 → 5 partitions" in keys.plan_text(more)
    assert ", 1 partition to add; " in keys.plan_cost(more)


def step(number: int, kind: RoutingStepKind, **routes: tuple[int, ...]) -> RoutingStep:
    """Of a plan for orders."""
    place = TableLocation("orders", "kafka:trimtab-tables", "billing")
    return RoutingStep(number, kind, place, 4, 5, {f"split_key/{key}": its for key, its in routes.items()})


def test_a_forecast_names_each_step_and_skipped_steps() -> None:
    """Partitions first, then a table, then one without earlier places."""
    steps = (
        step(1, RoutingStepKind.ADD),
        step(2, RoutingStepKind.PUBLISH, ann=(0, 1)),
        step(3, RoutingStepKind.SETTLE),
    )
    standing = {"split_key/ann": "to do", "split_key/bob": "already done"}
    prepared = PreparedPlan(None, "here", None, PlanDrift(standing, ("split_key/eve goes to 2",)), steps)
    text = keys.forecast_text(prepared, steps, ActSettings(), False)
    assert "add: orders to 5 partitions" in text
    assert "publish: a table with 0 key groups and 1 keys elsewhere" in text
    assert "settle: earlier partitions out of the table, once consumers have passed what lies there" in text
    assert "1 of 2 routes stand so already" in text
    assert "left out: split_key/eve goes to 2" in text
    assert keys.forecast_text(prepared, (), ActSettings(), False).startswith("  nothing to do")


def receipt(*outcomes: RoutingOutcome, status: str) -> KeysReceipt:
    """Of an execution of a quarter of a minute."""
    return KeysReceipt(7, "orders", "id", status, "", 100.0, 115.0, 2, outcomes)


def test_a_receipt_names_the_table_in_force_and_remaining_steps() -> None:
    """The newest version; or that there is none, and what did not follow."""
    done = RoutingOutcome("publish", "done", "", (1,), 100.0, 110.0, "a table", 4)
    settled = RoutingOutcome("settle", "done", "", (), 110.0, 115.0, "earlier partitions out", 5)
    told = keys.receipt_text(receipt(done, settled, status="finished"))
    assert "routing table 5 is in force, in 15 s" in told
    assert "left" not in told
    late = RoutingOutcome(
        "publish", "failed", "1 do not follow version 4", (1,), 100.0, 115.0, "a table", None
    )
    told = keys.receipt_text(receipt(late, status="incomplete"))
    assert "no table was published, in 15 s" in told
    assert "left: publish: a table: failed, 1 do not follow version 4" in told
    assert "trimtab plan keys --cluster orders --out next.json" in told
