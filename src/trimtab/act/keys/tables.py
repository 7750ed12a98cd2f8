"""Which table comes next: with other routes, without earlier places, or out of two that came at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trimtab.act.keys.observation import KeysObservation
from trimtab.model.keys.naming import key_bytes
from trimtab.model.keys.plan import Places, RoutingMoveKind
from trimtab.model.keys.routing import Route, RoutingTable, group_count
from trimtab.online.keys.murmur2 import key_group


def in_force(found: KeysObservation, base: int) -> RoutingTable:
    """The table that the next one is made of, by the newest version that is known.

    Parameters
    ----------
    found
        What lies there. Without a table that is the plain hash; where one was damaged and nobody knows what
        it named, records may wait in any partition, and a run of a producer that begins must wait for all.
    base
        Partitions that the hash divides by, where no table says so.
    """
    count = len(found.ends)
    if found.table is None:
        places = tuple(range(count)) if found.damaged else ()
        homes = range(group_count(base)) if found.damaged else ()
        groups = {group: Route((group % base,), places) for group in homes}
        return RoutingTable(found.newest, base, count, groups)
    table = found.table if found.foreign_table is None else joined(found.table, found.foreign_table)
    return replace(table, version=max(table.version, found.newest))


def joined(table: RoutingTable, rival: RoutingTable) -> RoutingTable:
    """One table out of two that were published at once: routes that either names, places of both as earlier.

    Each producer follows one of the two, so that records may wait where either says. Where both name a route,
    that of the one which lies last counts.
    """

    def both(last: Route, other: Route, named: bool) -> Route:
        places = (last if named else other).partitions
        earlier = {*last.earlier, *other.earlier, *last.partitions, *other.partitions}
        same = last == other
        return last if same else Route(places, tuple(sorted(earlier)))

    groups = {
        group: both(table.group_route(group), rival.group_route(group), group in table.groups)
        for group in sorted({*table.groups, *rival.groups})
    }
    keys = {}
    for key in sorted({*table.keys, *rival.keys}):
        group = key_group(key, table.base)
        keys[key] = both(table.route(group, key), rival.route(group, key), key in table.keys)
    version, partitions = max(table.version, rival.version), max(table.partitions, rival.partitions)
    return RoutingTable(version, table.base, partitions, groups, keys)


def route_in(table: RoutingTable, key: str) -> Places:
    """The partitions of `kind/name` by a table."""
    kind, _, name = key.partition("/")
    if kind == RoutingMoveKind.GROUP:
        return table.group_route(int(name)).partitions
    raw = key_bytes(name)
    return table.route(key_group(raw, table.base), raw).partitions


def with_routes(table: RoutingTable, routes: Mapping[str, Places], partitions: int) -> RoutingTable:
    """The next table: other routes (`kind/name` to partitions), which name where older records may wait."""
    groups, keys = dict(table.groups), dict(table.keys)
    for key, places in routes.items():
        kind, _, name = key.partition("/")
        if kind == RoutingMoveKind.GROUP:
            groups[int(name)] = table.group_route(int(name)).moved(places)
        else:
            raw = key_bytes(name)
            keys[raw] = table.route(key_group(raw, table.base), raw).moved(places)
    return RoutingTable(table.version + 1, table.base, max(partitions, table.partitions), groups, keys)


def settled(table: RoutingTable) -> RoutingTable:
    """The next table: earlier places are passed. Groups at home, and keys with theirs, need no route."""
    groups = {
        group: Route(route.partitions)
        for group, route in table.groups.items()
        if route.partitions != (group % table.base,)
    }
    plain = RoutingTable(table.version + 1, table.base, table.partitions, groups)
    keys = {
        key: Route(route.partitions)
        for key, route in table.keys.items()
        if route.partitions != plain.route(key_group(key, table.base), key).partitions
    }
    return replace(plain, keys=keys)
