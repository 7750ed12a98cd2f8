"""Compiled: the brokers that one out of its band had best trade with; hosts that bear load have a say."""

import numpy as np

from trimtab.plan.replicas.board import HOST_ROW, RECEIVES
from trimtab.plan.replicas.topics import add_topic_keys
from trimtab.plan.search.board import PARTNERS, likeness, strain, want
from trimtab.plan.search.compiled import inner


@inner
def fit_takers(g, h, probe):
    """Shape (brokers,): how badly each would bear a probe load, infinite for `h` and closed brokers."""
    keys = np.full(len(g.broker_traits), np.inf)
    mine = g.broker_traits[h, HOST_ROW]
    for b in range(len(keys)):
        if b == h or not g.broker_traits[b, RECEIVES]:
            continue
        keys[b] = strain(g.band, b, probe)
        host = g.broker_traits[b, HOST_ROW]
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
    """Shape (brokers,): how badly each can spare what `h` or its host lacks, infinite for `h`."""
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
    """The `PARTNERS` brokers that lie, with their hosts, furthest on the other side of the mean than `h`."""
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
