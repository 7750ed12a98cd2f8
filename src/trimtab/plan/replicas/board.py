"""Compiled: the board of a search: replicas and leaders, permitted changes, and their values.

The value of a change includes the brokers, their hosts and, with goals per topic, the numbers of each topic.
A topic's term of a broker's potential is weight · (distance from the bounds)², of replicas and of leaders
each.
"""

from typing import NamedTuple

import numpy as np

from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.replicas.topics import TopicGoals
from trimtab.plan.replicas.arrays import ReplicasArrays
from trimtab.plan.search.board import (
    INVERSE,
    NEGLIGIBLE,
    USAGE,
    blank_band,
    carry,
    helps,
    lists,
    refresh,
    set_limits,
    value,
)
from trimtab.plan.search.compiled import entry, leaf
from trimtab.plan.search.limits import UsageLimits

LOW, HIGH, WEIGHT = range(3)
SPREAD = 2
"""Column of `potentials` with the part of a broker's potential by its topics."""

SMALL = 10.0
"""For small topics, a surplus replica weighs as a tenth of the mean."""

UNIT = 2.0**-30
"""Weights are multiples of this, and distances whole numbers: sums are exact, so that additions alone
maintain the potential of topics.
"""


class TopicTable(NamedTuple):
    """Numbers of topics as a board has them.

    Attributes
    ----------
    counts
        Shape (rows, brokers, 2): replicas and leaders; changed as they move.
    bounds
        Shape (rows, 2, 3): least, most, weight.
    counted
        Shape (brokers, 2): whether the bounds apply there.
    """

    counts: IntArray
    bounds: FloatArray
    counted: BoolArray


NO_TOPICS = TopicTable(np.zeros((0, 0, 2), np.int32), np.zeros((0, 2, 3)), np.zeros((0, 2), np.bool_))


def topic_table(request: TopicGoals, replicas: IntArray, leader: IntArray, share: float = 1.0) -> TopicTable:
    """The numbers of a placement, with bounds around its own means of `share` of ε."""
    counts = request.counts(replicas, leader)
    bounds = np.empty((len(request.name), 2, 3))
    bounds[:, :, :WEIGHT] = request.bounds(counts, share)
    weight = 1.0 / np.maximum(request.mean(counts), SMALL) ** 2
    bounds[:, :, WEIGHT] = np.maximum(np.rint(weight / UNIT), 1.0) * UNIT
    return TopicTable(counts, bounds, request.counted)


def topic_potential(table: TopicTable) -> FloatArray:
    """Shape (brokers,): the sum of the terms of all topics."""
    found = np.zeros(len(table.counted))
    _weigh(table.counts, table.bounds, table.counted, found)
    return found


def topic_rise(table: TopicTable, t: int, change: IntArray) -> float:
    """Rise of all potentials if a topic's numbers changed by so much, of shape (brokers, 2)."""
    rows = np.flatnonzero(change.any(axis=1))
    low, high, weight = (table.bounds[t, :, column] for column in (LOW, HIGH, WEIGHT))
    before = table.counts[t, rows]
    was, now = (
        (weight * np.maximum(np.maximum(one - high, low - one), 0.0) ** 2 * table.counted[rows]).sum()
        for one in (before, before + change[rows])
    )
    return float(now - was)


@leaf
def topic_term(counts, bounds, counted, t, b, replicas, leaders):
    """A topic's part of a broker's potential, if it had so many replicas and leaders more."""
    total = 0.0
    for what in range(2):
        if counted[b, what]:
            number = counts[t, b, what] + (replicas if what == 0 else leaders)
            off = max(number - bounds[t, what, HIGH], bounds[t, what, LOW] - number, 0.0)
            total += bounds[t, what, WEIGHT] * off * off
    return total


@leaf
def topic_trade(counts, bounds, counted, t, a, b, replicas, leaders):
    """Terms of a topic at `a` and `b` (-1: nobody) before and after `a` hands so many to `b`."""
    before, after = 0.0, 0.0
    if a >= 0:
        before += topic_term(counts, bounds, counted, t, a, 0, 0)
        after += topic_term(counts, bounds, counted, t, a, -replicas, -leaders)
    if b >= 0:
        before += topic_term(counts, bounds, counted, t, b, 0, 0)
        after += topic_term(counts, bounds, counted, t, b, replicas, leaders)
    return before, after


@leaf
def transfer_topic_counts(counts, bounds, counted, worth, t, a, b, replicas, leaders):
    """Update the numbers and the potentials of both brokers after a change."""
    # Updated by additions, unlike the potential of loads: these terms are exact (see `UNIT`).
    if a >= 0:
        worth[a, SPREAD] += topic_term(counts, bounds, counted, t, a, -replicas, -leaders) - topic_term(
            counts, bounds, counted, t, a, 0, 0
        )
        counts[t, a, 0] -= replicas
        counts[t, a, 1] -= leaders
    worth[b, SPREAD] += topic_term(counts, bounds, counted, t, b, replicas, leaders) - topic_term(
        counts, bounds, counted, t, b, 0, 0
    )
    counts[t, b, 0] += replicas
    counts[t, b, 1] += leaders


@leaf
def add_topic_keys(counts, bounds, counted, worth, h, keys):
    """Add to each broker's key its unsuitability as a partner of `h`, by the topics outside their bounds
    there.

    A suitable partner has few replicas of the topics in surplus on `h`, or many of the topics lacking there.
    """
    if worth[h, SPREAD] <= NEGLIGIBLE:
        return
    for t in range(len(counts)):
        for what in range(2):
            if not counted[h, what]:
                continue
            mine = counts[t, h, what]
            off = max(mine - bounds[t, what, HIGH], 0.0) - max(bounds[t, what, LOW] - mine, 0.0)
            if off != 0.0:
                for b in range(len(keys)):
                    keys[b] += bounds[t, what, WEIGHT] * off * (counts[t, b, what] - mine)


@entry
def _weigh(counts, bounds, counted, out):
    for t in range(len(counts)):
        for b in range(len(out)):
            out[b] += topic_term(counts, bounds, counted, t, b, 0, 0)


RECEIVES, LEADS, RACK, HOST, HOST_ROW = range(5)
READY, LEAVING, STAYING = 1, 2, 4
RACK_CAP, HOST_CAP, PINNED, TOPIC = range(4)


class ReplicasBoard(NamedTuple):
    """Problem and placement; compiled code writes into `band` and the fields after it.

    Attributes
    ----------
    use
        Shape (2 · partitions, columns): loads of its follower and of its leader, partition by partition.
    movable
        Shape (partitions,).
    size
        Shape (partitions,): price of a copy, in bytes.
    broker_traits
        Shape (brokers, 5): may receive, may lead, rack, host, the host's row in `band` (-1 for none).
    initial
        Shape (partitions, width): broker of each slot in the snapshot, -1 in padding.
    flags
        Shape of `initial`: bits `READY` (in sync and online), `LEAVING` and `STAYING`.
    rule
        Shape (partitions, 4): most replicas a rack, most replicas a host, slot that must stay, row of its
        topic (-1 where no goal is about it).
    width
        Slots of a partition; the code of a replica is partition · width + slot.
    band, potentials, head, links
        As in `trimtab.plan.search.board`; where hosts bear load of their own, `band` and `potentials` have a
        row for each after those of the brokers. The third column of `potentials` is the part by topics.
    place
        Shape of `initial`: broker of each slot now.
    lead
        Shape (partitions,): slot that leads, -1 for none.
    tiers
        Empty if only brokers have load, otherwise one number, that of the hosts. Its length is part of the
        type, so kernels are compiled for both cases, and hosts cost nothing if there are none.
    counts, bounds, counted
        As in `trimtab.plan.replicas.board.TopicTable`.
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
    # A partition has a handful of slots: a scan needs no index that moves would have to keep.
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
    # Within a rack or host a move changes no count, so it is allowed even if there are too many replicas.
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
    # A fresh copy is in sync when it arrives; a replica that was there before may lag behind.
    if g.lead[p] == s and (g.broker_traits[b, LEADS] == 0 or (t >= 0 and (g.flags[p, t] & READY) == 0)):
        return False
    # Last, because it reads the racks and hosts of all slots.
    return fits_groups(g.broker_traits, g.rule, g.place, p, s, b)


@leaf
def copies_more(home, place, p, s, b):
    """Additional copies of the plan if the slot's replica moves to `b`: 1, 0, or -1 for a return."""
    return (initial_slot(home, p, b) < 0) * 1 - (initial_slot(home, p, place[p, s]) < 0) * 1


@leaf
def move(g, p, s, b):
    """Put the slot's replica, with its role, on broker `b`."""
    here = g.place[p, s]
    g.place[p, s] = b
    row = row_of(g.lead, p, s)
    carry(g, p * g.width + s, row, here, b)
    # The length of a tuple is part of its type: without hosts or topics these branches cost nothing.
    if len(g.tiers) > 0:
        _hosts_trade(g, g.broker_traits[here, HOST_ROW], g.broker_traits[b, HOST_ROW], row, -1)
    if len(g.spreads) > 0 and g.rule[p, TOPIC] >= 0:
        transfer_topic_counts(
            g.counts, g.bounds, g.counted, g.potentials, g.rule[p, TOPIC], here, b, 1, row - 2 * p
        )


@leaf
def _hosts_trade(g, one, two, gives, gets):
    """Update the rows of two hosts (-1: none) after a trade of their brokers."""
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
    """Make slot `s` the leader of partition `p`, and update the loads."""
    old = g.lead[p]
    there = g.place[p, s]
    # Nothing changes its list: only the difference between the two roles moves.
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
    """Make a board for a placement; `usage` is the utilisation of the rows of `arrays.inverse` under it.

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
        # The search uses the price of a copy; limits in bytes use `arrays.size` later.
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
    """Replace the bounds of topics for the current placement."""
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


NOTHING, NO_BROKER = -1, -1
"""Row of a side without a change, and a side without goals."""


@leaf
def side(g, b, add, drop):
    """Potential and guidance of a row if it gained one row of load and lost one."""
    return value(g.use, g.band, b, add, drop)


@leaf
def burden(g, b):
    """The potential of a broker and its host, which a descent lowers."""
    total = g.potentials[b, 0]
    if len(g.tiers) > 0 and g.broker_traits[b, HOST_ROW] >= 0:
        total += g.potentials[g.broker_traits[b, HOST_ROW], 0]
    if len(g.spreads) > 0:
        total += g.potentials[b, SPREAD]
    return total


@leaf
def relief(g, a, row):
    """Fall of the potential of broker `a` and its host if the row moved to another host."""
    fall = g.potentials[a, 0] - side(g, a, NOTHING, row)[0]
    if len(g.tiers) > 0:
        before, after, _ = at_hosts(
            g.use, g.band, g.potentials, g.broker_traits[a, HOST_ROW], -1, row, NOTHING
        )
        fall += before - after
    if len(g.spreads) > 0:
        before, after = at_topics(g, a, NO_BROKER, row, NOTHING)
        fall += before - after
    return fall


@leaf
def potential_increase(g, b, add, drop):
    """Rise of potential with guidance at broker `b` if it gained one row and lost one, from anywhere."""
    potential, guidance = side(g, b, add, drop)
    worse = potential + guidance - g.potentials[b, 0] - g.potentials[b, 1]
    if len(g.tiers) > 0:
        before, after, guided = at_hosts(
            g.use, g.band, g.potentials, -1, g.broker_traits[b, HOST_ROW], add, drop
        )
        worse += after - before - guided
    if len(g.spreads) > 0:
        before, after = at_topics(g, NO_BROKER, b, add, drop)
        worse += after - before
    return worse


@leaf
def at_hosts(use, band, worth, one, two, gives, gets):
    """Potentials of two hosts (-1: none) before and after a trade, and the fall of their guidance.

    0 if both brokers are on one host: its load does not change.
    """
    before, after, guided = 0.0, 0.0, 0.0
    if one == two:
        return before, after, guided
    if one >= 0:
        potential, guidance = value(use, band, one, gets, gives)
        before, after, guided = worth[one, 0], potential, worth[one, 1] - guidance
    if two >= 0:
        potential, guidance = value(use, band, two, gives, gets)
        before += worth[two, 0]
        after += potential
        guided += worth[two, 1] - guidance
    return before, after, guided


@leaf
def at_topics(g, a, b, gives, gets):
    """Terms of the topics at two brokers (`NO_BROKER`: none) before and after a trade."""
    given, got = -1, -1
    if gives >= 0:
        given = g.rule[gives // 2, TOPIC]
    if gets >= 0:
        got = g.rule[gets // 2, TOPIC]
    before, after = 0.0, 0.0
    if given >= 0 and given == got:
        # An exchange within a topic, or a leadership: as many replicas here and there as before.
        return topic_trade(g.counts, g.bounds, g.counted, given, a, b, 0, gives % 2 - gets % 2)
    if given >= 0:
        before, after = topic_trade(g.counts, g.bounds, g.counted, given, a, b, 1, gives % 2)
    if got >= 0:
        one, other = topic_trade(g.counts, g.bounds, g.counted, got, a, b, -1, -(gets % 2))
        before += one
        after += other
    return before, after


@leaf
def known(g, a, b, gives, gets, v1, g1):
    """`gain` where the potential and guidance of `a` after the trade (`side`) are known already."""
    was = g.potentials[a, 0] + g.potentials[b, 0]
    before, after, guided = 0.0, 0.0, 0.0
    if len(g.tiers) > 0:
        one, two = g.broker_traits[a, HOST_ROW], g.broker_traits[b, HOST_ROW]
        before, after, guided = at_hosts(g.use, g.band, g.potentials, one, two, gives, gets)
    if len(g.spreads) > 0:
        those, these = at_topics(g, a, b, gives, gets)
        before += those
        after += these
    # The potential of `b` cannot fall below 0. If everything else is no better than before, `b` need not be
    # valued; most trades end here.
    if v1 + after >= was + before:
        return 0.0, 0.0
    v2, g2 = side(g, b, gives, gets)
    fall = was - v1 - v2 + (before - after)
    if not helps(fall, was + before):
        return 0.0, 0.0
    # Guidance ranks changes that help; it makes no change acceptable.
    return fall, fall + g.potentials[a, 1] + g.potentials[b, 1] - g1 - g2 + guided


@leaf
def gain(g, a, b, gives, gets):
    """Fall of the potentials by a trade, and the same with guidance; both 0 where there is none.

    Parameters
    ----------
    gives, gets
        Rows of `use` that `a` gives to `b`, and receives in return (`NOTHING`: none).
    """
    v1, g1 = side(g, a, gets, gives)
    return known(g, a, b, gives, gets, v1, g1)


@leaf
def outcome(g, a, b, gives, gets):
    """The potentials that a trade changes, before and after it."""
    was = g.potentials[a, 0] + g.potentials[b, 0]
    now = side(g, a, gets, gives)[0] + side(g, b, gives, gets)[0]
    if len(g.tiers) > 0:
        one, two = g.broker_traits[a, HOST_ROW], g.broker_traits[b, HOST_ROW]
        before, after, _ = at_hosts(g.use, g.band, g.potentials, one, two, gives, gets)
        was += before
        now += after
    if len(g.spreads) > 0:
        before, after = at_topics(g, a, b, gives, gets)
        was += before
        now += after
    return was, now
