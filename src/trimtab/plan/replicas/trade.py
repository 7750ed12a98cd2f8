"""Compiled: what a change between two brokers is worth, the one place that says so.

Every change is a trade: broker `a` hands a row of load to broker `b`, and may get one for it. A replica that
moves is a row without return; a leadership is the leader's row for the follower's of the same partition; an
exchange is two replicas' rows. What a trade is worth is the fall of the potentials of those who bear it: the
two brokers, and where hosts bear load of their own and the brokers stand on different ones, the two hosts.
Where goals are about topics, the numbers of the topics that are traded weigh on the brokers too.
"""

from trimtab.plan.replicas.board import HOST_ROW, TOPIC
from trimtab.plan.replicas.topics import SPREAD, topic_trade
from trimtab.plan.search.board import helps, value
from trimtab.plan.search.compiled import leaf

NOTHING, NO_BROKER = -1, -1
"""The row of a side that gains or loses none, and a side that nothing is asked of."""


@leaf
def side(g, b, add, drop):
    """Potential and guidance of a row if it gained one row of load and lost one."""
    return value(g.use, g.band, b, add, drop)


@leaf
def burden(g, b):
    """The potential that rests on a broker and its host: what a descent is to bring down there."""
    total = g.potentials[b, 0]
    if len(g.tiers) > 0 and g.broker_traits[b, HOST_ROW] >= 0:
        total += g.potentials[g.broker_traits[b, HOST_ROW], 0]
    if len(g.spreads) > 0:
        total += g.potentials[b, SPREAD]
    return total


@leaf
def relief(g, a, row):
    """Fall of the potential that rests on broker `a` if the row went elsewhere, to another host."""
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

    0 where both brokers stand on one host: it bears what it bore.
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
    if v1 + after >= was + before:
        return 0.0, 0.0
    v2, g2 = side(g, b, gives, gets)
    fall = was - v1 - v2 + (before - after)
    if not helps(fall, was + before):
        return 0.0, 0.0
    return fall, fall + g.potentials[a, 1] + g.potentials[b, 1] - g1 - g2 + guided


@leaf
def gain(g, a, b, gives, gets):
    """Fall of the potentials by a trade, and the same with guidance; both 0 where there is none.

    Parameters
    ----------
    gives, gets
        Rows of `use` that `a` hands to `b`, and is handed for it (`NOTHING`: none).
    """
    v1, g1 = side(g, a, gets, gives)
    return known(g, a, b, gives, gets, v1, g1)


@leaf
def outcome(g, a, b, gives, gets):
    """The potentials on which a trade bears, before and after it."""
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
