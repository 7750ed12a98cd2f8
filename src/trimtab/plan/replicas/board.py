"""Compiled: a placement that changes one replica or one leadership at a time, and who may go where.

What a change is worth is the arithmetic of `trimtab.plan.search.board`.
"""

from typing import NamedTuple

import numpy as np

from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.plan.replicas.arrays import ReplicasArrays
from trimtab.plan.replicas.topics import NO_TOPICS, SPREAD, TopicTable, topic_potential, transfer_topic_counts
from trimtab.plan.search.board import INVERSE, USAGE, blank_band, carry, lists, refresh, set_limits
from trimtab.plan.search.compiled import entry, leaf
from trimtab.plan.search.limits import UsageLimits

RECEIVES, LEADS, RACK, HOST, HOST_ROW = range(5)
READY, LEAVING, STAYING = 1, 2, 4
RACK_CAP, HOST_CAP, PINNED, TOPIC = range(4)


class ReplicasBoard(NamedTuple):
    """Problem and placement side by side; compiled code writes into `band` and what follows it.

    Attributes
    ----------
    use
        Shape (2 · partitions, columns): loads of its follower and of its leader, partition by partition.
    movable
        Shape (partitions,).
    size
        Shape (partitions,): bytes of a copy.
    seat
        Shape (brokers, 5): may receive, may lead, rack, host, the host's row in `band` (-1 for none).
    initial
        Shape (partitions, width): broker of each slot in the snapshot, -1 in padding.
    flags
        Shape of `home`: bits `READY` (in sync and online), `LEAVING` and `STAYING`.
    rule
        Shape (partitions, 4): most replicas a rack, most replicas a host, slot that must stay, row of its
        topic (-1 where no goal is about it).
    width
        Slots of a partition; the code of a replica is partition · width + slot.
    band, worth, head, links
        As in `trimtab.plan.search.board`; where hosts bear load of their own, `band` and `worth` have a row
        for each after those of the brokers. `worth` has a third column: what rests on a broker by its topics.
    place
        Shape of `home`: broker of each slot now.
    lead
        Shape (partitions,): slot that leads, -1 for none.
    tiers
        Empty where brokers alone bear load, else one number, that of the hosts. Its length is part of the
        type, so that kernels are compiled for each, and hosts cost nothing where there are none.
    counts, bounds, counted
        As in `trimtab.plan.replicas.topics.TopicTable`.
    spreads
        As `tiers`: one number, that of the topics, where goals are about some.
    """

    use: FloatArray
    movable: BoolArray
    size: FloatArray
    broker_traits: IntArray
    initial: IntArray
    flags: IntArray
    rule: IntArray
    width: int
    band: FloatArray
    potentials: FloatArray
    place: IntArray
    lead: IntArray
    head: IntArray
    links: IntArray
    tiers: tuple[int, ...]
    counts: IntArray
    bounds: FloatArray
    counted: BoolArray
    spreads: tuple[int, ...]


@leaf
def row_of(lead, p, s):
    """Row of `use` for the replica in the slot, by its role."""
    return 2 * p + (lead[p] == s)


@leaf
def holds(place, p, b):
    """True if broker `b` holds a replica of the partition."""
    for s in range(place.shape[1]):  # noqa: SIM110 - compiled code knows no generators
        if place[p, s] == b:
            return True
    return False


@leaf
def fits_groups(lock, rule, place, p, s, b):
    """True if the slot may go to `b` without worsening rack or host spread."""
    here = place[p, s]
    in_rack = 0
    in_host = 0
    for t in range(place.shape[1]):
        other = place[p, t]
        if other < 0 or t == s:
            continue
        if lock[other, RACK] == lock[b, RACK]:
            in_rack += 1
        if lock[other, HOST] == lock[b, HOST]:
            in_host += 1
    if in_rack >= rule[p, RACK_CAP] and lock[here, RACK] != lock[b, RACK]:
        return False
    return not (in_host >= rule[p, HOST_CAP] and lock[here, HOST] != lock[b, HOST])


@leaf
def initial_slot(home, p, b):
    """Slot that broker `b` holds in the snapshot, -1 if none."""
    for s in range(home.shape[1]):
        if home[p, s] == b:
            return s
    return -1


@leaf
def may_take_lead(lock, home, flags, p, b):
    """True if leadership may go to `b`: by its state, and in sync (as every fresh copy is)."""
    if lock[b, LEADS] == 0:
        return False
    s = initial_slot(home, p, b)
    return s < 0 or (flags[p, s] & READY) != 0


@leaf
def may_move(g, p, s, b):
    """True if every hard rule allows the slot's replica, with its role, to go to `b`."""
    if g.rule[p, PINNED] == s or holds(g.place, p, b):
        return False
    t = initial_slot(g.initial, p, b)
    if t < 0:
        if g.broker_traits[b, RECEIVES] == 0:
            return False
    elif g.flags[p, t] & LEAVING:
        return False
    if g.lead[p] == s and (g.broker_traits[b, LEADS] == 0 or (t >= 0 and (g.flags[p, t] & READY) == 0)):
        return False
    return fits_groups(g.broker_traits, g.rule, g.place, p, s, b)


@leaf
def copies_more(home, place, p, s, b):
    """Copies that the plan has more if the slot's replica goes to `b`: 1, 0, or -1 when it goes back home."""
    return (initial_slot(home, p, b) < 0) * 1 - (initial_slot(home, p, place[p, s]) < 0) * 1


@leaf
def move(g, p, s, b):
    """Put the slot's replica, with its role, on broker `b`."""
    here = g.place[p, s]
    g.place[p, s] = b
    row = row_of(g.lead, p, s)
    carry(g, p * g.width + s, row, here, b)
    if len(g.tiers) > 0:
        _hosts_trade(g, g.broker_traits[here, HOST_ROW], g.broker_traits[b, HOST_ROW], row, -1)
    if len(g.spreads) > 0 and g.rule[p, TOPIC] >= 0:
        transfer_topic_counts(
            g.counts, g.bounds, g.counted, g.potentials, g.rule[p, TOPIC], here, b, 1, row - 2 * p
        )


@leaf
def _hosts_trade(g, one, two, gives, gets):
    """Let two hosts' rows (-1: none) follow a trade of their brokers."""
    if one == two:
        return
    for r in range(g.band.shape[2]):
        load = g.use[gives, r] - (g.use[gets, r] if gets >= 0 else 0.0)
        if one >= 0:
            g.band[one, USAGE, r] -= load * g.band[one, INVERSE, r]
        if two >= 0:
            g.band[two, USAGE, r] += load * g.band[two, INVERSE, r]
    if one >= 0:
        refresh(g, one)
    if two >= 0:
        refresh(g, two)


@leaf
def give_lead(g, p, s):
    """Let the slot lead."""
    old = g.lead[p]
    there = g.place[p, s]
    for r in range(g.band.shape[2]):
        more = g.use[2 * p + 1, r] - g.use[2 * p, r]
        g.band[there, USAGE, r] += more * g.band[there, INVERSE, r]
        if old >= 0:
            here = g.place[p, old]
            g.band[here, USAGE, r] -= more * g.band[here, INVERSE, r]
    g.lead[p] = s
    if old >= 0:
        refresh(g, g.place[p, old])
    refresh(g, there)
    if len(g.tiers) > 0:
        here = g.broker_traits[g.place[p, old], HOST_ROW] if old >= 0 else -1
        _hosts_trade(g, here, g.broker_traits[there, HOST_ROW], 2 * p + 1, 2 * p)
    if len(g.spreads) > 0 and g.rule[p, TOPIC] >= 0:
        giver = g.place[p, old] if old >= 0 else -1
        transfer_topic_counts(
            g.counts, g.bounds, g.counted, g.potentials, g.rule[p, TOPIC], giver, there, 0, 1
        )


def new_board(
    arrays: ReplicasArrays,
    place: IntArray,
    lead: IntArray,
    usage: FloatArray,
    limits: UsageLimits,
    topic: IntArray | None = None,
    table: TopicTable = NO_TOPICS,
) -> ReplicasBoard:
    """A board of its own for a placement; `usage` is that of the rows of `arrays.inverse` under it.

    Parameters
    ----------
    topic
        Shape (partitions,): row of `table`, -1 for none; None where no goal is about topics.
    table
        Of the same placement; changed with the board.
    """
    row = np.full(len(place), -1, dtype=np.int32) if topic is None else topic
    head, links = lists(place, len(arrays.rack))
    board = ReplicasBoard(
        use=arrays.use.reshape(-1, arrays.use.shape[2]),
        movable=arrays.movable,
        size=arrays.price,
        broker_traits=_columns(
            arrays.may_receive, arrays.may_lead, arrays.rack, arrays.host, arrays.host_row
        ),
        initial=arrays.initial,
        flags=np.ascontiguousarray(
            READY * arrays.initial_in_sync + LEAVING * arrays.leaving + STAYING * arrays.staying,
            dtype=np.int32,
        ),
        rule=_columns(arrays.rack_cap, arrays.host_cap, arrays.pinned, row),
        width=place.shape[1],
        band=blank_band(arrays.inverse),
        potentials=np.zeros((len(usage), 3)),
        place=place.copy(),
        lead=lead.copy(),
        head=head,
        links=links,
        tiers=(len(usage) - len(arrays.rack),) if len(usage) > len(arrays.rack) else (),
        counts=table.counts,
        bounds=table.bounds,
        counted=table.counted,
        spreads=() if topic is None else (len(table.counts),),
    )
    set_limits(board, usage, limits)
    set_topics(board, table)
    return board


def set_topics(board: ReplicasBoard, table: TopicTable) -> None:
    """Take other bounds of topics, for the placement that the board has."""
    if board.spreads:
        board.bounds[:] = table.bounds
        board.potentials[: len(board.counted), SPREAD] = topic_potential(table)


def _columns(*columns: BoolArray | IntArray) -> IntArray:
    return np.ascontiguousarray(np.stack(columns, axis=1), dtype=np.int32)


@entry
def move_interpreted(g, p, s, b):
    """`move`, for callers that are not compiled."""
    move(g, p, s, b)


@entry
def give_lead_interpreted(g, p, s):
    """`give_lead`, for callers that are not compiled."""
    give_lead(g, p, s)
