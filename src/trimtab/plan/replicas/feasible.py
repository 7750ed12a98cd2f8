"""Compiled: the brokers that may hold a partition by every hard rule, found exactly.

The numbers of replicas on racks and hosts are a flow: a broker is an edge from its rack to its host, and each
has a capacity. Cheapest augmenting paths find the set with the fewest copies. If they find none, there is
none: this proves that a partition has no permitted place.
"""

import numpy as np

from trimtab.plan.replicas.board import (
    HOST,
    HOST_CAP,
    LEADS,
    LEAVING,
    PINNED,
    RACK,
    RACK_CAP,
    READY,
    RECEIVES,
    give_lead,
    initial_slot,
    move,
    potential_increase,
)
from trimtab.plan.search.compiled import entry, inner, leaf

COPY = 1.0
"""Cost of a broker that does not hold the partition yet; the harm to its load decides among equals."""

NOTHING = 1e-12
"""Differences of cost below this are rounding: without it, paths could be improved for ever."""


@leaf
def _path(rack, host, rack_cap, host_cap, cost, fixed, chosen, nodes, links):
    """Add one broker to the chosen ones at the least cost, exchanging others if necessary; inf if impossible.

    `nodes` of shape (4, groups): use of racks and hosts, distance of racks and hosts; `links` of shape
    (2, groups): the broker by which each was reached.
    """
    groups = nodes.shape[1]
    for i in range(groups):
        nodes[2, i] = 0.0 if nodes[0, i] < rack_cap else np.inf
        nodes[3, i] = np.inf
        links[0, i] = -1
        links[1, i] = -1
    # Bellman and Ford: a chosen broker leads back at negative cost, which Dijkstra's algorithm does not
    # allow.
    changed = True
    while changed:
        changed = False
        for b in range(len(cost)):
            if cost[b] == np.inf or b == fixed:
                continue
            if chosen[b]:
                there = nodes[3, host[b]] - cost[b]
                if there < nodes[2, rack[b]] - NOTHING:
                    nodes[2, rack[b]], links[0, rack[b]], changed = there, b, True
            else:
                there = nodes[2, rack[b]] + cost[b]
                if there < nodes[3, host[b]] - NOTHING:
                    nodes[3, host[b]], links[1, host[b]], changed = there, b, True
    end = -1
    least = np.inf
    for i in range(groups):
        if nodes[1, i] < host_cap and nodes[3, i] < least:
            end, least = i, nodes[3, i]
    if end < 0:
        return np.inf
    nodes[1, end] += 1
    # Along the path in reverse: brokers that were free are chosen, and those that were chosen become free.
    while True:
        b = links[1, end]
        chosen[b] = True
        if links[0, rack[b]] < 0:
            nodes[0, rack[b]] += 1
            return least
        b = links[0, rack[b]]
        chosen[b] = False
        end = host[b]


@inner
def cheapest_set(rack, host, rack_cap, host_cap, number, cost, fixed, chosen):
    """Choose `number` brokers, no rack or host holding more than its cap; returns their cost, inf if none.

    Parameters
    ----------
    cost
        Shape (brokers,); infinite for brokers that may not hold the partition.
    fixed
        Broker that must be among them, -1 for none.
    chosen
        Shape (brokers,), written.
    """
    groups = 0
    for b in range(len(chosen)):
        groups = max(groups, rack[b] + 1, host[b] + 1)
        chosen[b] = False
    nodes = np.zeros((4, groups))
    links = np.empty((2, groups), np.int32)
    total = 0.0
    left = number
    if fixed >= 0:
        if cost[fixed] == np.inf or rack_cap < 1 or host_cap < 1:
            return np.inf
        chosen[fixed] = True
        nodes[0, rack[fixed]] += 1
        nodes[1, host[fixed]] += 1
        total += cost[fixed]
        left -= 1
    for _ in range(left):
        more = _path(rack, host, rack_cap, host_cap, cost, fixed, chosen, nodes, links)
        if more == np.inf:
            return np.inf
        total += more
    return total


@leaf
def _copy(values, into):
    for i in range(len(values)):
        into[i] = values[i]


@leaf
def _in_sync(g, p, b):
    s = initial_slot(g.initial, p, b)
    return s >= 0 and (g.flags[p, s] & READY) != 0


@inner
def _best_led(g, p, leader, cost, chosen):
    """The cheapest permitted set with a possible leader: (cost, leader); `chosen` is written."""
    rack, host = g.broker_traits[:, RACK], g.broker_traits[:, HOST]
    rack_cap, host_cap = g.rule[p, RACK_CAP], g.rule[p, HOST_CAP]
    number = 0
    for s in range(g.initial.shape[1]):
        number += g.initial[p, s] >= 0
    trial = np.zeros(len(cost), np.bool_)
    best, who = np.inf, -1
    if cheapest_set(rack, host, rack_cap, host_cap, number, cost, -1, trial) == np.inf:
        return best, who
    # Holders first: a fresh copy leads only if none of them can, and then the first that fits will do.
    for turn in range(2):
        for b in range(len(cost)):
            if cost[b] == np.inf or (cost[b] < COPY) != (turn == 0):
                continue
            if b != leader and not (g.broker_traits[b, LEADS] and (cost[b] >= COPY or _in_sync(g, p, b))):
                continue
            # Another leader costs half a copy: it is preferred to a copied replica, but not for slightly less
            # harm.
            total = cheapest_set(rack, host, rack_cap, host_cap, number, cost, b, trial)
            if total + (b != leader) * 0.5 < best:
                best, who = total + (b != leader) * 0.5, b
                _copy(trial, chosen)
            if turn == 1 and who >= 0:
                break
        if who >= 0:
            break
    return best, who


@inner
def lawful_set(g, p, leader, cost, chosen):
    """The cheapest permitted brokers that moves can reach: (cost, leader), (inf, -1) if there are none.

    Parameters
    ----------
    leader
        Broker index of the leader as it is, -1 if it is offline.
    cost
        Shape (brokers,): below `COPY` for holders that may stay, at least `COPY` for brokers that may receive
        a copy, infinite for others; restored before returning.
    """
    best, who = _best_led(g, p, leader, cost, chosen)
    if who < 0 or g.rule[p, PINNED] < 0 or leader < 0 or chosen[leader]:
        return best, who
    # The leader can leave only after a fresh copy has replaced another replica, which then returns or leaves
    # too.
    for b in g.initial[p]:
        if b >= 0 and b != leader and (cost[b] == np.inf or not chosen[b] or g.broker_traits[b, RECEIVES]):
            return best, who
    trial = np.zeros(len(cost), np.bool_)
    best, who = np.inf, -1
    for b in g.initial[p]:
        if b < 0:
            continue
        # Either the leader stays, or one of the others leaves with it.
        was = cost[b]
        if b == leader:
            rest = _required_replicas(g, p, leader, cost, trial)
        else:
            cost[b] = np.inf
            rest = _best_led(g, p, leader, cost, trial)
            cost[b] = was
        if rest[0] < best:
            best, who = rest
            _copy(trial, chosen)
    return best, who


@inner
def _required_replicas(g, p, leader, cost, chosen):
    """Like `_best_led`, with the current leader."""
    number = 0
    for s in range(g.initial.shape[1]):
        number += g.initial[p, s] >= 0
    rack_cap, host_cap = g.rule[p, RACK_CAP], g.rule[p, HOST_CAP]
    total = cheapest_set(
        g.broker_traits[:, RACK], g.broker_traits[:, HOST], rack_cap, host_cap, number, cost, leader, chosen
    )
    return total, (leader if total < np.inf else -1)


@inner
def costs_of(g, p, cost):
    """Compute the cost of each broker as a holder of the partition, see `lawful_set`."""
    worst = 0.0
    for b in range(len(cost)):
        t = initial_slot(g.initial, p, b)
        cost[b] = np.inf
        if t >= 0:
            if (g.flags[p, t] & LEAVING) == 0:
                cost[b] = 0.0
        elif g.broker_traits[b, RECEIVES]:
            cost[b] = max(potential_increase(g, b, 2 * p, -1), 0.0)
            worst = max(worst, cost[b])
    for b in range(len(cost)):
        if cost[b] < np.inf and initial_slot(g.initial, p, b) < 0:
            # All harm together weighs less than one copy.
            cost[b] = COPY + 0.01 * cost[b] / max(worst, NOTHING)


@inner
def place_exactly(g, p, leader):
    """Place the partition by the hard rules with the fewest copies; returns whether there is a permitted
    place.

    Parameters
    ----------
    leader
        Broker index of the snapshot's leader, -1 if it is offline.
    """
    brokers, width = len(g.broker_traits), g.initial.shape[1]
    cost = np.empty(brokers)
    chosen = np.zeros(brokers, np.bool_)
    costs_of(g, p, cost)
    _, who = lawful_set(g, p, leader, cost, chosen)
    if who < 0:
        return False
    # Replicas that stay keep the slots of the snapshot: a change of slot would look like a move.
    stays = np.zeros(width, np.bool_)
    for s in range(width):
        b = g.initial[p, s]
        if b >= 0 and chosen[b]:
            stays[s] = True
            chosen[b] = False
            if g.place[p, s] != b:
                move(g, p, s, b)
    fresh = 0
    for s in range(width):
        if g.initial[p, s] >= 0 and not stays[s]:
            while not chosen[fresh]:
                fresh += 1
            if g.place[p, s] != fresh:
                move(g, p, s, fresh)
            fresh += 1
    for s in range(width):
        if g.place[p, s] == who and g.lead[p] != s:
            give_lead(g, p, s)
    return True


@entry
def find_places(g, rows, leaders, found):
    """Determine for each partition whether any plan could place it by the hard rules.

    A broker with an offline dir and another online dir counts as a possible holder: the replica may return to
    it by way of another broker.

    Parameters
    ----------
    rows, leaders
        Partitions, and their leaders' broker indices in the snapshot, -1 for none.
    found
        Shape of `rows`, written.
    """
    brokers = len(g.broker_traits)
    cost = np.empty(brokers)
    chosen = np.zeros(brokers, np.bool_)
    for i in range(len(rows)):
        p = rows[i]
        costs_of(g, p, cost)
        detour = False
        for b in range(brokers):
            detour = detour or (cost[b] >= COPY and cost[b] < np.inf)
        if detour:
            for b in g.initial[p]:
                if b >= 0 and cost[b] == np.inf and g.broker_traits[b, RECEIVES]:
                    cost[b] = COPY
        _, who = lawful_set(g, p, leaders[i], cost, chosen)
        found[i] = who >= 0
