"""Compiled: the arithmetic of a search: the load of brokers, the value of a change, the queue of changes.

The potential of a broker is the sum over columns of weight · (excess over the band² + lack below it²), with a
hundredfold weight for load above θ. A search lowers the potentials. A small term towards the mean, the
guidance, breaks ties between changes that are equally good for the goals. It never decides whether a change
is accepted.

The board of a balancer is a named tuple: the fields of `SearchBoard`, and fields for the rules of the
balancer. The rules for permitted destinations are in the balancer, because numba does not cache functions
that take a kernel as an argument. Items move. They may form groups, as replicas in a partition or nodes of a
group with a master; otherwise a group is one item. A load has a row for each role of an item.

Kernels take only the arrays that they need, if possible: a whole board is many arguments for the compiler.
"""

from typing import Protocol

import numpy as np

from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.plan.search.compiled import entry, inner, leaf
from trimtab.plan.search.limits import THETA_WEIGHT, UsageLimits

LONG_LIST = 400
"""Number of items of a broker that are tried against all destinations at a time."""

STALE = 0.8
"""An entry whose gain has fallen below this share of its key is queued again."""


@leaf
def sink(keys, items, targets, size, i):
    """Move entry `i` down to its place in the heap."""
    # A heap in three parallel arrays, biggest key first: it allocates nothing, and an entry whose gain has
    # become stale gets another key in place.
    while True:
        child = 2 * i + 1
        if child >= size:
            return
        if child + 1 < size and keys[child + 1] > keys[child]:
            child += 1
        if keys[child] <= keys[i]:
            return
        keys[i], keys[child] = keys[child], keys[i]
        items[i], items[child] = items[child], items[i]
        targets[i], targets[child] = targets[child], targets[i]
        i = child


@leaf
def order_queue(keys, items, targets, size):
    """Make a heap of the first `size` entries."""
    for i in range(size // 2 - 1, -1, -1):
        sink(keys, items, targets, size, i)


@leaf
def drop_first(keys, items, targets, size):
    """Remove the biggest entry and return the new size. The caller moves the new first entry down."""
    size -= 1
    keys[0], items[0], targets[0] = keys[size], items[size], targets[size]
    return size


GUIDANCE = 0.02
"""Weight of the guidance, relative to the potential: it ranks changes, and accepts none by itself."""

NEGLIGIBLE = 1e-18
"""A potential below this (a billionth of the mean, squared) is rounding, not load."""

USAGE, INVERSE, HIGH, LOW, THETA, CENTRE, WEIGHT = range(7)
"""Rows of a broker's `band`. A valuation reads all of them, so they are contiguous in memory."""

VISITS = 40
"""Maximum number of visits per broker on average: a descent in ever smaller steps is not worth its time."""

BREADTH, PARTNERS = 64, 8
"""Limits of the search for exchanges: items of each side, and brokers on the other side."""


class SearchBoard(Protocol):
    """The fields that every balancer's board has."""

    @property
    def use(self) -> FloatArray:
        """Shape (rows, columns): loads of the items by role."""

    @property
    def movable(self) -> BoolArray:
        """Shape (groups,): the group's items may move."""

    @property
    def width(self) -> int:
        """Items of a group; the code of an item is group · width + slot."""

    @property
    def band(self) -> FloatArray:
        """Shape (brokers, 7, columns): usage, 1 / capacity, then the limits."""

    @property
    def potentials(self) -> FloatArray:
        """Shape (brokers, 2): potential and guidance."""

    @property
    def head(self) -> IntArray:
        """Shape (brokers,): first code of a doubly linked list of what is on the broker, -1 for none."""

    @property
    def links(self) -> IntArray:
        """Shape (codes, 2): following and preceding code, -1 for none, so that a move is O(1)."""


@leaf
def value(use, band, b, add, drop):
    """Potential and guidance of broker `b` if it gained one row of load and lost one (-1: none)."""
    potential = 0.0
    guidance = 0.0
    # The change is valued without being made: most of the changes that are looked at are not taken.
    for r in range(band.shape[2]):
        weight = band[b, WEIGHT, r]
        level = band[b, USAGE, r]
        if add >= 0:
            level += use[add, r] * band[b, INVERSE, r]
        if drop >= 0:
            level -= use[drop, r] * band[b, INVERSE, r]
        # `HIGH` never exceeds θ, so load above θ counts as excess over the band as well.
        off = max(level - band[b, HIGH, r], band[b, LOW, r] - level, 0.0)
        over = max(level - band[b, THETA, r], 0.0)
        away = level - band[b, CENTRE, r]
        potential += weight * (off * off + THETA_WEIGHT * over * over)
        guidance += weight * away * away
    return potential, GUIDANCE * guidance


@leaf
def helps(fall, was):
    """Whether a fall of a potential from `was` by `fall` is more than rounding; otherwise descents could
    cycle.
    """
    return fall > NEGLIGIBLE + 1e-9 * was


@leaf
def accepted(rise, heat, chance):
    """Metropolis' rule of simulated annealing; `chance` is uniform in [0, 1)."""
    return rise <= 0.0 or chance < np.exp(-rise / heat)


@leaf
def pressure_at(worth, h):
    """Square root of the potential. Near the band the gains at `h` shrink in proportion to it, so queues stay
    in order.
    """
    return np.sqrt(worth[h, 0])


@leaf
def refresh(g, b):
    """Compute potential and guidance of a broker again."""
    # Computed from the usage: a sum of changes would accumulate rounding errors.
    potential, guidance = value(g.use, g.band, b, -1, -1)
    g.potentials[b, 0] = potential
    g.potentials[b, 1] = guidance


@leaf
def carry(g, code, row, here, b):
    """Move an item and its row of load from broker `here` (-1: none) to broker `b`."""
    after, before = g.links[code, 0], g.links[code, 1]
    if here >= 0:
        for r in range(g.band.shape[2]):
            g.band[here, USAGE, r] -= g.use[row, r] * g.band[here, INVERSE, r]
        if before >= 0:
            g.links[before, 0] = after
        else:
            g.head[here] = after
        if after >= 0:
            g.links[after, 1] = before
        refresh(g, here)
    for r in range(g.band.shape[2]):
        g.band[b, USAGE, r] += g.use[row, r] * g.band[b, INVERSE, r]
    # Prepended to the list, in constant time. The order of a list matters only among equals and for the
    # choice of a sample.
    first = g.head[b]
    g.links[code, 0] = first
    g.links[code, 1] = -1
    if first >= 0:
        g.links[first, 1] = code
    g.head[b] = code
    refresh(g, b)


@leaf
def count(head, links, b):
    """Number of items that a broker holds."""
    number = 0
    code = head[b]
    while code >= 0:
        number += 1
        code = links[code, 0]
    return number


@leaf
def worst(worth, stuck):
    """The broker of the highest potential among those that are not stuck; -1 if all are in their bands."""
    h = -1
    most = NEGLIGIBLE
    for b in range(len(worth)):
        if not stuck[b] and worth[b, 0] > most:
            h, most = b, worth[b, 0]
    return h


@leaf
def next_broker(worth, stuck, tries):
    """The next broker of a descent; -1 if all are in their bands or no change helps.

    Parameters
    ----------
    stuck
        Shape (brokers,): brokers for which no change was found since others changed; all are tried again if
        none is left.
    tries
        Remaining retries, and the number of changes since the last retry; both are updated.
    """
    h = worst(worth, stuck)
    # All are stuck, but loads have changed since then, so they are tried again while retries remain.
    while h < 0 and tries[0] > 0 and tries[1] > 0:
        tries[0] -= 1
        tries[1] = 0
        stuck[:] = False
        h = worst(worth, stuck)
    return h


@leaf
def strain(band, b, probe):
    """Cost of a probe load for a row."""
    key = 0.0
    for r in range(band.shape[2]):
        was = band[b, USAGE, r]
        level = was + probe[r] * band[b, INVERSE, r]
        off = max(level - band[b, HIGH, r], band[b, LOW, r] - level, 0.0)
        # The change counts, not the final state.
        off_before = max(was - band[b, HIGH, r], band[b, LOW, r] - was, 0.0)
        away = level - band[b, CENTRE, r]
        away_before = was - band[b, CENTRE, r]
        # The difference from the current state: a broker outside its band is not a worse destination for
        # that. The guidance, a tenth, ranks the many brokers that stay within their bands.
        key += band[b, WEIGHT, r] * (
            off * off - off_before * off_before + 0.1 * (away * away - away_before * away_before)
        )
    return key


@leaf
def want(band, h, b):
    """Cost for row `b` of giving away the load that `h` lacks."""
    key = 0.0
    for r in range(band.shape[2]):
        lack = max(band[h, LOW, r] - band[h, USAGE, r], 0.0)
        if lack > 0.0 and band[b, WEIGHT, r] > 0.0:
            key -= band[b, WEIGHT, r] * lack * (band[b, USAGE, r] - band[b, LOW, r])
    return key


@leaf
def likeness(band, h, b):
    """Degree to which two rows deviate from the mean in the same direction."""
    key = 0.0
    for r in range(band.shape[2]):
        mine = band[h, USAGE, r] - band[h, CENTRE, r]
        key += band[h, WEIGHT, r] * mine * (band[b, USAGE, r] - band[b, CENTRE, r])
    return key


@inner
def takers(band, h, probe, opened):
    """Shape (brokers,): cost of a probe load on each broker, infinite for `h` and closed brokers."""
    keys = np.empty(len(band))
    for b in range(len(band)):
        keys[b] = np.inf
        if b == h or not opened[b]:
            continue
        keys[b] = strain(band, b, probe)
    return keys


@inner
def donors(band, h):
    """Shape (brokers,): cost of giving away the load that `h` lacks, infinite for `h`."""
    keys = np.empty(len(band))
    for b in range(len(band)):
        keys[b] = np.inf if b == h else want(band, h, b)
    return keys


@inner
def opposites(band, h):
    """The `PARTNERS` brokers that deviate most from the mean in the direction opposite to `h`."""
    keys = np.empty(len(band))
    for b in range(len(band)):
        keys[b] = np.inf if b == h else likeness(band, h, b)
    # Stable, so that equal brokers are in the order of their numbers: the same snapshot gives the same plan.
    return np.argsort(keys, kind="mergesort")[: min(PARTNERS, len(keys) - 1)]


@inner
def sample(head, links, movable, width, b):
    """Codes of at most `BREADTH` movable items of a broker, evenly sampled from its list."""
    number = 0
    code = head[b]
    while code >= 0:
        number += movable[code // width]
        code = links[code, 0]
    # Evenly from the whole list: its first items arrived last and are often similar.
    stride = max(1, number // BREADTH)
    chosen = np.empty(min(number, BREADTH), np.int32)
    size = 0
    seen = 0
    code = head[b]
    while code >= 0 and size < len(chosen):
        if movable[code // width]:
            if seen % stride == 0:
                chosen[size] = code
                size += 1
            seen += 1
        code = links[code, 0]
    return chosen[:size]


def blank_band(inverse: FloatArray) -> FloatArray:
    """A band without limits yet, of shape (brokers, 7, columns); `inverse` is 1 / capacity."""
    band = np.zeros((len(inverse), 7, inverse.shape[1]))
    band[:, INVERSE] = inverse
    return band


def set_limits(board: SearchBoard, usage: FloatArray, limits: UsageLimits) -> None:
    """Replace limits and usage, so that rounding errors do not accumulate."""
    for row, values in (
        (USAGE, usage),
        (HIGH, limits.high),
        (LOW, limits.low),
        (THETA, limits.theta),
        (CENTRE, limits.centre),
        (WEIGHT, limits.weight),
    ):
        board.band[:, row] = values
    _value_all(board.use, board.band, board.potentials)


@entry
def _value_all(use, band, worth):
    for b in range(len(worth)):
        potential, guidance = value(use, band, b, -1, -1)
        worth[b, 0] = potential
        worth[b, 1] = guidance


def lists(place: IntArray, brokers: int) -> tuple[IntArray, IntArray]:
    """`head` and `links` of a placement, each list in ascending order of codes.

    Parameters
    ----------
    place
        Shape (codes,) or one that flattens to it: broker of each item, -1 for none.
    """
    flat = place.ravel()
    codes = np.flatnonzero(flat >= 0).astype(np.int32)
    # NumPy sorts numbers of 16 bits by their digits, wider ones by comparisons.
    width = np.uint16 if brokers <= 1 << 16 else np.uint32
    codes = codes[np.argsort(flat[codes].astype(width), kind="stable")]
    holder = flat[codes]
    links = np.full((flat.size, 2), -1, dtype=np.int32)
    head = np.full(brokers, -1, dtype=np.int32)
    same = holder[1:] == holder[:-1]
    links[codes[:-1][same], 0] = codes[1:][same]
    links[codes[1:][same], 1] = codes[:-1][same]
    if len(codes):
        starts: BoolArray = np.concatenate([[True], ~same])
        head[holder[starts]] = codes[starts]
    return head, links
