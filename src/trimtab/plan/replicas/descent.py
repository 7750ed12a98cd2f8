"""Compiled: the search for an even placement: the descent, reverts after it, and random changes.

The descent sheds or fills the broker that is furthest outside its band, until all goals hold or no change
helps. For each broker in turn: leaderships out or in (no bytes), then replicas out, then replicas in, best
gain per byte first and each gain computed again when its turn comes; when none of these helps, the best
exchange of two replicas.

The descent stops where no change of one or two replicas helps. In a small cluster with a few heavy partitions
that is soon, and the better placement lies several changes away, each of which makes things worse at first.
Such placements are found by simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983).
"""

import numpy as np

from trimtab.plan.replicas.board import (
    HOST_ROW,
    LEAVING,
    NOTHING,
    RACK,
    RECEIVES,
    add_topic_keys,
    burden,
    copies_more,
    gain,
    give_lead,
    holds,
    initial_slot,
    known,
    may_move,
    may_take_lead,
    move,
    outcome,
    relief,
    row_of,
    side,
)
from trimtab.plan.search.board import (
    LONG_LIST,
    NEGLIGIBLE,
    PARTNERS,
    STALE,
    VISITS,
    accepted,
    drop_first,
    helps,
    likeness,
    next_broker,
    order_queue,
    sample,
    sink,
    strain,
    want,
)
from trimtab.plan.search.compiled import entry, inner, leaf


@inner
def fit_takers(g, h, probe):
    """Shape (brokers,): cost of a probe load on each broker, infinite for `h` and closed brokers."""
    keys = np.full(len(g.broker_traits), np.inf)
    mine = g.broker_traits[h, HOST_ROW]
    for b in range(len(keys)):
        if b == h or not g.broker_traits[b, RECEIVES]:
            continue
        keys[b] = strain(g.band, b, probe)
        host = g.broker_traits[b, HOST_ROW]
        # A destination on the host of `h` relieves no host; any other loads its own host and relieves that of
        # `h`.
        if host != mine:
            if host >= 0:
                keys[b] += strain(g.band, host, probe)
            if mine >= 0:
                keys[b] += strain(g.band, mine, -probe)
    if len(g.spreads) > 0:
        add_topic_keys(g.counts, g.bounds, g.counted, g.potentials, h, keys)
    return keys


@inner
def fit_donors(g, h):
    """Shape (brokers,): cost of giving away the load that `h` or its host lacks, infinite for `h`."""
    keys = np.full(len(g.broker_traits), np.inf)
    mine = g.broker_traits[h, HOST_ROW]
    for b in range(len(keys)):
        if b != h:
            keys[b] = want(g.band, h, b)
            host = g.broker_traits[b, HOST_ROW]
            if host != mine and host >= 0 and mine >= 0:
                keys[b] += want(g.band, mine, host)
    if len(g.spreads) > 0:
        add_topic_keys(g.counts, g.bounds, g.counted, g.potentials, h, keys)
    return keys


@inner
def fit_opposites(g, h):
    """The `PARTNERS` brokers that deviate most, with their hosts, in the direction opposite to `h`."""
    keys = np.full(len(g.broker_traits), np.inf)
    mine = g.broker_traits[h, HOST_ROW]
    for b in range(len(keys)):
        if b != h:
            keys[b] = likeness(g.band, h, b)
            host = g.broker_traits[b, HOST_ROW]
            if host != mine and host >= 0 and mine >= 0:
                keys[b] += likeness(g.band, mine, host)
    if len(g.spreads) > 0:
        add_topic_keys(g.counts, g.bounds, g.counted, g.potentials, h, keys)
    return np.argsort(keys, kind="mergesort")[: min(PARTNERS, len(keys) - 1)]


@leaf
def _lead_gain(g, p, s):
    """Fall of potential with guidance if slot `s` took the lead; 0 if that is forbidden or does not help."""
    old = g.lead[p]
    b = g.place[p, s]
    if old < 0 or old == s or b < 0 or not may_take_lead(g.broker_traits, g.initial, g.flags, p, b):
        return 0.0
    return max(gain(g, g.place[p, old], b, 2 * p + 1, 2 * p)[1], 0.0)


@leaf
def _best_lead_change(g, p, s):
    """Best (gain, slot that takes the lead) for a partition that sits on the broker in slot `s`."""
    best = 0.0
    slot = -1
    if not g.movable[p]:
        return best, slot
    # If `h` leads, any other replica may take the lead; if it follows, only `h` itself can.
    if g.lead[p] == s:
        for t in range(g.place.shape[1]):
            found = _lead_gain(g, p, t)
            if found > best:
                best, slot = found, t
    else:
        found = _lead_gain(g, p, s)
        if found > 0.0:
            best, slot = found, s
    return best, slot


@leaf
def _list_codes(g, b, codes, reads, size):
    """Append the codes of what broker `b` holds to the first `size`; returns how many there are now."""
    code = g.head[b]
    while code >= 0:
        p = code // g.width
        # The sum has no meaning: it reads in advance what valuations need. Here the processor waits for many
        # of these reads at a time, there for each in turn, which took a quarter of the descent.
        reads[size] = g.use[2 * p, 0] + g.size[p] + g.rule[p, 0] + g.initial[p, 0] + g.flags[p, 0]
        reads[size] += g.place[p, 0] + g.lead[p]
        codes[size] = code
        size += 1
        code = g.links[code, 0]
    return size


@leaf
def _list_leaderships(g, h, keys, items, targets):
    """Fill a queue with the changes of leader that help broker `h`; returns its size."""
    size = 0
    pressure = np.sqrt(burden(g, h))
    for i in range(_list_codes(g, h, items, keys, 0)):
        code = items[i]
        best, slot = _best_lead_change(g, code // g.width, code % g.width)
        if best > 0.0:
            keys[size], items[size], targets[size] = best / pressure, code, slot
            size += 1
    order_queue(keys, items, targets, size)
    return size


@leaf
def _pull_leaderships(g, h, keys, items, targets, size):
    """Process the queue while `h` is outside its band; returns how many leaders changed."""
    changed = 0
    while size > 0 and burden(g, h) > NEGLIGIBLE:
        p, s = items[0] // g.width, items[0] % g.width
        best, slot = _best_lead_change(g, p, s)
        pressure = np.sqrt(burden(g, h))
        # Gains are computed again when an entry is taken, not after each change. An entry whose gain has
        # fallen much is queued again, so that better ones precede it.
        if best > 0.0 and best < STALE * keys[0] * pressure:
            keys[0], targets[0] = best / pressure, slot
        else:
            if best > 0.0:
                give_lead(g, p, slot)
                changed += 1
            size = drop_first(keys, items, targets, size)
        sink(keys, items, targets, size, 0)
    return changed


@leaf
def change_leaders(g, h, keys, items, targets):
    """Give away or take leaderships, best first, while broker `h` is out of its band; returns how many."""
    size = _list_leaderships(g, h, keys, items, targets)
    return _pull_leaderships(g, h, keys, items, targets, size)


CANDIDATES = 12
"""Number of brokers that are examined on the other side, per group (same rack, any other)."""

ENOUGH = 10 * LONG_LIST
"""Number of candidate replicas for a broker that lacks load; no further source is read after them."""


@inner
def _nearest(g, h, keys):
    """The brokers of smallest key: some in the rack of `h`, then some in other racks; never infinite keys."""
    chosen = np.full(2 * CANDIDATES, -1, np.int32)
    near = 0
    far = CANDIDATES
    # Of both kinds: with full racks only brokers of the same rack may receive a replica; otherwise others may
    # be emptier.
    for b in np.argsort(keys, kind="mergesort"):
        if keys[b] == np.inf or (near == CANDIDATES and far == 2 * CANDIDATES):
            break
        if g.broker_traits[b, RACK] != g.broker_traits[h, RACK]:
            if far < 2 * CANDIDATES:
                chosen[far] = b
                far += 1
        elif near < CANDIDATES:
            chosen[near] = b
            near += 1
    return chosen[chosen >= 0]


@leaf
def _best_destination(g, p, s, destinations, floor):
    """Best (gain per byte, broker) for a slot."""
    best = 0.0
    target = -1
    here = g.place[p, s]
    row = row_of(g.lead, p, s)
    # The giving side is the same for all destinations and is valued once.
    v1, g1 = side(g, here, NOTHING, row)
    for b in destinations:
        found = known(g, here, b, row, NOTHING, v1, g1)[1]
        if found <= 0.0:
            continue
        # Gain per byte. `floor` is the cost of the move itself: without it the least gain of a free move
        # would beat every copy.
        worth = found / (floor + max(copies_more(g.initial, g.place, p, s, b), 0) * g.size[p])
        if worth > best and may_move(g, p, s, b):
            best, target = worth, b
    return best, target


@leaf
def _list_replicas(g, h, floor, first, codes, probe):
    """The replicas whose departure would help `h`, with the help per byte (negative), and their mean load."""
    size = 0
    for i in range(_list_codes(g, h, codes, first, 0)):
        code = codes[i]
        p, s = code // g.width, code % g.width
        if g.movable[p]:
            # Without a destination: this only ranks replicas, and destinations are searched only for the
            # first ones.
            row = row_of(g.lead, p, s)
            fall = relief(g, h, row)
            if helps(fall, burden(g, h)):
                copied = g.size[p] if initial_slot(g.initial, p, h) >= 0 else 0.0
                first[size] = -fall / (floor + copied)
                codes[size] = code
                size += 1
                for r in range(len(probe)):
                    probe[r] += g.use[row, r]
    for r in range(len(probe)):
        probe[r] /= max(size, 1)
    return size


@leaf
def _list_departures(g, h, floor, ranked, codes, destinations, keys, items, targets):
    """Fill a queue with the best destination of each replica in `ranked`; returns its size."""
    size = 0
    pressure = np.sqrt(burden(g, h))
    for i in ranked:
        worth, b = _best_destination(g, codes[i] // g.width, codes[i] % g.width, destinations, floor)
        if b >= 0:
            keys[size], items[size], targets[size] = worth / pressure, codes[i], b
            size += 1
    order_queue(keys, items, targets, size)
    return size


@leaf
def _pull_gain(g, p, s, h, floor):
    """Gain per byte of fetching a slot to `h`; 0 if it does not help or is not allowed."""
    found = gain(g, h, g.place[p, s], NOTHING, row_of(g.lead, p, s))[1]
    if found <= 0.0 or not may_move(g, p, s, h):
        return 0.0
    return found / (floor + max(copies_more(g.initial, g.place, p, s, h), 0) * g.size[p])


@leaf
def _work_off(g, h, floor, destinations, keys, items, targets, size):
    """Process the queue while `h` is outside its band; returns how many replicas moved.

    Without destinations they are fetched to `h`.
    """
    changed = 0
    while size > 0 and burden(g, h) > NEGLIGIBLE:
        p, s = items[0] // g.width, items[0] % g.width
        pressure = np.sqrt(burden(g, h))
        if len(destinations):
            worth, b = _best_destination(g, p, s, destinations, floor)
        else:
            worth = _pull_gain(g, p, s, h, floor)
            b = h if worth > 0.0 else -1
        if b >= 0 and worth < STALE * keys[0] * pressure:
            keys[0], targets[0] = worth / pressure, b
        else:
            if b >= 0:
                move(g, p, s, b)
                changed += 1
            size = drop_first(keys, items, targets, size)
        sink(keys, items, targets, size, 0)
    return changed


@inner
def shed(g, h, floor, first, codes):
    """Send replicas of `h` away, best gain per byte first, while it is out of its band; returns how many."""
    probe = np.zeros(g.band.shape[2])
    size = _list_replicas(g, h, floor, first, codes, probe)
    if size == 0:
        return 0
    # One ranking of the destinations for all replicas, by their mean load: a ranking for each replica would
    # cost more than it gains.
    destinations = _nearest(g, h, fit_takers(g, h, probe))
    ranked = np.argsort(first[:size], kind="mergesort")[:LONG_LIST]
    keys = np.empty(len(ranked))
    items = np.empty(len(ranked), np.int32)
    targets = np.empty(len(ranked), np.int32)
    size = _list_departures(g, h, floor, ranked, codes, destinations, keys, items, targets)
    return _work_off(g, h, floor, destinations, keys, items, targets, size)


@leaf
def _list_arrivals(g, h, floor, givers, first, codes):
    """The givers' replicas that would help `h`, with the gain per byte (negative); returns how many."""
    size = 0
    for b in givers:
        if size >= ENOUGH:
            break
        for i in range(size, _list_codes(g, b, codes, first, size)):
            code = codes[i]
            p, s = code // g.width, code % g.width
            if g.movable[p]:
                worth = _pull_gain(g, p, s, h, floor)
                if worth > 0.0:
                    first[size], codes[size] = -worth, code
                    size += 1
    return size


@inner
def pull(g, h, floor, first, codes):
    """Fetch replicas from brokers that can spare them while `h` is out of its band; returns how many."""
    if g.broker_traits[h, RECEIVES] == 0:
        return 0
    size = _list_arrivals(g, h, floor, _nearest(g, h, fit_donors(g, h)), first, codes)
    ranked = np.argsort(first[:size], kind="mergesort")[: 2 * LONG_LIST]
    # In units of the root of the potential: all gains at `h` shrink with it, so earlier keys stay comparable.
    keys = -first[ranked] / np.sqrt(burden(g, h))
    items = codes[ranked]
    targets = np.full(len(ranked), h, np.int32)
    order_queue(keys, items, targets, len(ranked))
    return _work_off(g, h, floor, targets[:0], keys, items, targets, len(ranked))


@leaf
def _best_pair(g, h, b, floor, own, others, least):
    """The exchange of `h` and `b` that is worth most per byte, more than `least`: (worth, code, code)."""
    best, best_mine, best_other = least, -1, -1
    for x in own:
        p, s = x // g.width, x % g.width
        rp = row_of(g.lead, p, s)
        for y in others:
            q, t = y // g.width, y % g.width
            rq = row_of(g.lead, q, t)
            if p == q:
                continue
            fall = gain(g, h, b, rp, rq)[0]
            if fall == 0.0:
                continue
            copied = max(copies_more(g.initial, g.place, p, s, b), 0) * g.size[p]
            copied += max(copies_more(g.initial, g.place, q, t, h), 0) * g.size[q]
            worth = fall / (2 * floor + copied)
            if worth > best and may_move(g, p, s, b) and may_move(g, q, t, h):
                best, best_mine, best_other = worth, x, y
    return best, best_mine, best_other


@inner
def exchange(g, h, floor):
    """Make the best exchange of a replica of `h` against one of another broker; returns whether it did."""
    mine = sample(g.head, g.links, g.movable, g.width, h)
    best = 0.0
    best_mine = -1
    best_other = -1
    for b in fit_opposites(g, h):
        worth, x, y = _best_pair(g, h, b, floor, mine, sample(g.head, g.links, g.movable, g.width, b), best)
        if x >= 0:
            best, best_mine, best_other = worth, x, y
    if best_mine < 0:
        return False
    q, t = best_other // g.width, best_other % g.width
    b = g.place[q, t]
    move(g, best_mine // g.width, best_mine % g.width, b)
    move(g, q, t, h)
    return True


@entry
def balance(g, floor, rounds):
    """Make the potentials fall until all are negligible or no change of one or two replicas helps.

    Parameters
    ----------
    floor
        Fixed cost of a move in bytes, besides its copy, so that fewer moves win among equals.
    rounds
        Number of times that stuck brokers are tried again after others have changed.
    """
    brokers = len(g.broker_traits)
    stuck = np.zeros(brokers, np.bool_)
    burdens = np.empty((brokers, 1))
    tries = np.array([rounds, 0])
    # Shared by all visits, and large enough for all replicas: counting those of the brokers that a visit
    # reads took over a quarter of the descent, and unused memory is never touched.
    keys = np.empty(len(g.links))
    items, targets = np.empty(len(g.links), np.int32), np.empty(len(g.links), np.int32)
    for _ in range(VISITS * brokers + 1000):
        for b in range(brokers):
            burdens[b, 0] = burden(g, b)
        h = next_broker(burdens, stuck, tries)
        if h < 0:
            break
        # In the order of their cost: leaderships copy nothing, shedding and pulling one replica, an exchange
        # two.
        changed = change_leaders(g, h, keys, items, targets)
        if burden(g, h) > NEGLIGIBLE:
            changed += shed(g, h, floor, keys, items)
        if burden(g, h) > NEGLIGIBLE:
            changed += pull(g, h, floor, keys, items)
        # Pairs are many: they are examined only if no single change helps.
        if changed == 0:
            changed = 1 if exchange(g, h, floor) else 0
        stuck[h] = changed == 0
        tries[1] += changed


@entry
def revert_partition(g, order, home_lead):
    """Undo every move and every change of leader that the goals do not need; returns how many.

    Parameters
    ----------
    order
        Partitions, biggest first: reverting a big one saves more than the small ones that it blocks.
    home_lead
        Shape (partitions,): slot that led in the snapshot.
    """
    undone = 0
    for p in order:
        for s in range(g.place.shape[1]):
            home = g.initial[p, s]
            here = g.place[p, s]
            if here < 0 or here == home or g.flags[p, s] & LEAVING or holds(g.place, p, home):
                continue
            if not may_move(g, p, s, home):
                continue
            row = row_of(g.lead, p, s)
            before, after = outcome(g, here, home, row, NOTHING)
            # No tolerance is needed: a revert saves bytes and cannot happen twice.
            if after <= before:
                move(g, p, s, home)
                undone += 1
    for p in order:
        s = home_lead[p]
        old = g.lead[p]
        if s < 0 or old < 0 or old == s or g.place[p, s] != g.initial[p, s]:
            continue
        b = g.place[p, s]
        if not may_take_lead(g.broker_traits, g.initial, g.flags, p, b):
            continue
        before, after = outcome(g, g.place[p, old], b, 2 * p + 1, 2 * p)
        if after <= before:
            give_lead(g, p, s)
            undone += 1
    return undone


LEADERSHIP, REPLICA = 0.35, 0.3
"""Shares of the changes tried that pass a leadership on or move one replica; the rest are exchanges."""


@leaf
def _try_leadership(g, p, s, heat, chance):
    old = g.lead[p]
    b = g.place[p, s]
    if old < 0 or old == s or b < 0 or not may_take_lead(g.broker_traits, g.initial, g.flags, p, b):
        return
    before, after = outcome(g, g.place[p, old], b, 2 * p + 1, 2 * p)
    if accepted(after - before, heat, chance):
        give_lead(g, p, s)


@leaf
def _try_replica(g, p, s, b, price, heat, chance):
    here = g.place[p, s]
    if here < 0 or here == b:
        return
    before, after = outcome(g, here, b, row_of(g.lead, p, s), NOTHING)
    rise = after - before + price[p] * copies_more(g.initial, g.place, p, s, b)
    if accepted(rise, heat, chance) and may_move(g, p, s, b):
        move(g, p, s, b)


@leaf
def _try_exchange(g, p, s, q, t, price, heat, chance):
    a, b = g.place[p, s], g.place[q, t]
    if p == q or a < 0 or b < 0 or a == b or not g.movable[q]:
        return
    before, after = outcome(g, a, b, row_of(g.lead, p, s), row_of(g.lead, q, t))
    copied = price[p] * copies_more(g.initial, g.place, p, s, b)
    copied += price[q] * copies_more(g.initial, g.place, q, t, a)
    rise = after - before + copied
    # The partitions differ, so neither move changes the rules for the other.
    if accepted(rise, heat, chance) and may_move(g, p, s, b) and may_move(g, q, t, a):
        move(g, p, s, b)
        move(g, q, t, a)


@entry
def anneal(g, price, heats, chances):
    """Try one random change per row of `chances`.

    Parameters
    ----------
    price
        Shape (partitions,): weight of one more copy of the partition, in units of the potential.
    heats
        Shape (changes,): how much worse a change may make things, with odds 1 : e; it should fall.
    chances
        Shape (changes, 6): uniform in [0, 1).
    """
    partitions, width = g.place.shape
    brokers = len(g.broker_traits)
    # All random numbers are arguments, a row for each change: the same seed gives the same plan.
    for i in range(len(chances)):
        kind, chance, heat = chances[i, 0], chances[i, 5], heats[i]
        p = int(chances[i, 1] * partitions)
        s = int(chances[i, 2] * width)
        if not g.movable[p]:
            continue
        if kind < LEADERSHIP:
            _try_leadership(g, p, s, heat, chance)
        elif kind < LEADERSHIP + REPLICA:
            _try_replica(g, p, s, int(chances[i, 3] * brokers), price, heat, chance)
        else:
            q, t = int(chances[i, 3] * partitions), int(chances[i, 4] * width)
            _try_exchange(g, p, s, q, t, price, heat, chance)
