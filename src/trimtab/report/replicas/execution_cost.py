"""The price of an execution: what was copied, which roles were handed over, how long it took."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.model.replicas.receipt import ReplicasReceipt
from trimtab.report.formats import bytes_text, counted


@dataclass(frozen=True)
class ExecutionCost:
    """The cost of the balancing, as carried out; `led_along` leader roles went with a copied replica.

    `log_dir_moves` replicas changed the log dir on their broker, which copied `log_dir_bytes` between disks.
    `added` and `dropped` replicas are counted in no other number; the bytes of the added are copied ones.
    """

    replica_moves: int
    leader_moves: int
    bytes_copied: int
    seconds: float
    led_along: int = 0
    log_dir_moves: int = 0
    log_dir_bytes: int = 0
    added: int = 0
    dropped: int = 0


def spent(receipt: ReplicasReceipt | None) -> ExecutionCost:
    """The price of an execution."""
    if receipt is None:
        return ExecutionCost(0, 0, 0, 0.0)
    done = receipt.done
    copies = [outcome for outcome in done if outcome.kind == "copy"]
    # Each copy ends with an election; where the first of the list has not changed, nobody takes a role over.
    new_first = {(one.topic, one.partition) for one in copies if one.before[0] != one.after[0]}
    leads = [outcome for outcome in done if outcome.kind == "lead"]
    along = [one for one in leads if not one.moves and (one.topic, one.partition) in new_first]
    return ExecutionCost(
        replica_moves=sum(len(set(one.before) - set(one.after)) for one in copies) - receipt.dropped_replicas,
        leader_moves=sum(bool(one.moves) for one in leads),
        bytes_copied=receipt.copied_bytes,
        seconds=receipt.seconds,
        led_along=len(along),
        log_dir_moves=sum(outcome.kind == "log_dir" for outcome in done),
        log_dir_bytes=receipt.log_dir_bytes,
        added=receipt.added_replicas,
        dropped=receipt.dropped_replicas,
    )


def spent_text(receipt: ReplicasReceipt | None) -> str:
    """The same in a sentence."""
    return cost_text(spent(receipt))


def cost_text(spent: ExecutionCost) -> str:
    """Moves, bytes and seconds in one sentence."""
    rate = (
        f", {bytes_text(spent.bytes_copied / spent.seconds)}/s"
        if spent.bytes_copied and spent.seconds
        else ""
    )
    dirs = (
        f"{counted(spent.log_dir_moves, 'replica')} to another log dir ({bytes_text(spent.log_dir_bytes)}), "
        if spent.log_dir_moves
        else ""
    )
    copied = f"{bytes_text(spent.bytes_copied)}{rate}"
    if spent.added or spent.dropped:
        moved = f"{counted(spent.replica_moves, 'replica')} copied, " if spent.replica_moves else ""
        made = f"{counted(spent.added, 'replica')} added ({copied}), {moved}{spent.dropped} dropped, {dirs}"
    else:
        made = f"{counted(spent.replica_moves, 'replica')} copied ({copied}), {dirs}"
    along = f", {spent.led_along} more along with their replica" if spent.led_along else ""
    return f"{made}{counted(spent.leader_moves, 'leader role')} handed over{along}, in {spent.seconds:.1f} s"
