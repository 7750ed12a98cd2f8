"""The article's three sequences, step by step: lookup and assignment, split, unload.

Each is a process that yields seconds wherever a message travels or a broker works, so that anything may
happen in between: another sequence, the death of a broker, the end of a session. What stands between two
yields happens at once.
"""

from collections.abc import Generator, Sequence
from itertools import count

from trimtab.lab.simulate.pulsar.cutting import cut
from trimtab.lab.simulate.pulsar.leader import UnloadOrder
from trimtab.lab.simulate.pulsar.store import BrokerSession
from trimtab.lab.simulate.pulsar.world_protocol import PulsarWorldProtocol, Steps
from trimtab.model.bundles.range import BundleRange, bundles_between, parse_bundle
from trimtab.model.errors import PlanError
from trimtab.plan.pulsar.split.algorithms import split_positions
from trimtab.plan.pulsar.split.modular import BundleSplit

SPLIT_ATTEMPTS = 7
"""A split is tried so often if others write the namespace's boundaries (`BUNDLE_SPLIT_RETRY_LIMIT`)."""


def lookup(world: PulsarWorldProtocol, namespace: str, topic_hash: int) -> Steps:
    """A client finds the owner of its topic, and is the cause of there being one.

    It asks any broker; that one redirects to the owner, or asks the leader for a broker, which takes the
    ephemeral lock. Whoever comes second finds the lock taken and is redirected to its holder. Whatever fails
    on the way is tried again a little later.
    """
    for failures in count(1):
        yield world.hop()
        asked = world.any_broker()
        if asked is not None:
            bundle = world.store.bundle_of(namespace, topic_hash)
            owner = world.store.owners.get(bundle.key)
            if owner is None:
                owner = yield from _assigned(world, asked, bundle)
            if owner is not None:
                yield world.hop()
                if world.serves(owner, bundle.key):
                    world.connect(bundle, owner)
                    return
        yield world.back_off(failures)


def _assigned(
    world: PulsarWorldProtocol, request: BrokerSession, bundle: BundleRange
) -> Generator[float, None, BrokerSession | None]:
    """Who owns a bundle after the leader has chosen a broker for it; None if something went wrong."""
    leader = world.store.leader
    yield world.hop()
    if leader is None or not world.is_alive(leader) or not world.is_alive(request):
        return None
    chosen = world.choose(bundle.key)
    yield world.hop()
    target = None if chosen is None else world.living.get(chosen)
    # Somebody else may have been faster, and may have split it since.
    if target is None or not world.store.has(bundle):
        return None
    if world.store.lock(bundle.key, target):
        world.begin_serving(bundle, target)
    return world.store.owners.get(bundle.key)


def unload(world: PulsarWorldProtocol, order: UnloadOrder) -> Steps:
    """A bundle's owner closes its clients, and then releases its lock.

    An order that comes when the bundle is gone (moved, split, or its broker has died) does nothing.
    """
    yield world.hop()
    owner = world.living.get(order.owner)
    if owner is None or not world.serves(owner, order.bundle):
        return
    bundle = parse_bundle(order.bundle)
    # It serves no more before it releases: the next owner may begin at once.
    world.end_serving(bundle, owner)
    yield world.closing()
    if world.is_alive(owner):
        world.store.release(order.bundle, owner)
        world.note("released", order.bundle, order.owner)


def split(world: PulsarWorldProtocol, order: BundleSplit) -> Steps:
    """A bundle's owner finds out where to cut, takes the locks of the halves, and writes the boundaries.

    From then on it serves the halves instead, whose clients stay connected, and releases the lock of what was
    cut; the halves are unloaded if the leader wants it. If others have written the namespace's boundaries
    meanwhile, they are read again. Whatever stops it leaves no lock of a half.

    References
    ----------
    Pulsar 4.0, `NamespaceService.splitAndOwnBundle`.
    """
    yield world.hop()
    owner = world.living.get(order.broker)
    if owner is None or not world.serves(owner, order.bundle):
        return
    bundle = parse_bundle(order.bundle)
    positions = split_positions(bundle, world.options, world.topics.flows(bundle))
    if not positions:
        return
    for _ in range(SPLIT_ATTEMPTS):
        version = world.store.versions[bundle.namespace]
        try:
            boundaries = cut(world.store.boundaries[bundle.namespace], bundle, positions)
        except PlanError:
            return
        halves = bundles_between(bundle.namespace, (bundle.low, *sorted(positions), bundle.high))
        yield world.hop()
        # Another split of the same bundle may be on its way, whose locks must not be given back here.
        taken = [half.key for half in halves if world.store.lock(half.key, owner)]
        yield world.hop()
        if len(taken) < len(halves) or not world.serves(owner, order.bundle):
            _give_back(world, taken, owner)
            return
        if world.store.write_boundaries(bundle.namespace, boundaries, version):
            world.replace_by_halves(bundle, halves, owner)
            yield world.hop()
            world.store.release(order.bundle, owner)
            if order.unload:
                for half in halves:
                    world.begin(unload(world, UnloadOrder(half.key, owner.broker, None)))
            return
        _give_back(world, taken, owner)


def _give_back(world: PulsarWorldProtocol, bundles: Sequence[str], owner: BrokerSession) -> None:
    for bundle in bundles:
        world.store.release(bundle, owner)


def expire(world: PulsarWorldProtocol, session: BrokerSession, seconds: float) -> Steps:
    """A dead broker's session ends after a while: its locks are free, and there is a leader again."""
    yield seconds
    world.end_session(session)
