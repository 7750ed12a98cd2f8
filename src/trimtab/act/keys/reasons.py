"""Reasons to publish no table: whose order it would break, who is not seen, what has gone meanwhile."""

from __future__ import annotations

from trimtab.act.keys.observation import KeysObservation
from trimtab.act.keys.settings import KeysExecutionSettings
from trimtab.act.keys.state import TableLocation

VOUCH = "--set execution.keys.allow_unverified=true"
REPLACE = "--set execution.keys.overwrite_invalid=true"
MAX_LISTED = 3


def unguarded(found: KeysObservation, settings: KeysExecutionSettings) -> str:
    """Who would break the order of a key that moves, as far as anybody can see; empty for nobody."""
    if settings.publishing.allow_unverified:
        return ""
    if not found.sends_heartbeats:
        return (
            "tables in a file have no heartbeats, so that nobody is seen to keep order: publish to a topic "
            f"(keys.table_location), or vouch for all clients with {VOUCH}"
        )
    those = found.unguarded
    if those:
        more = f" and {len(those) - MAX_LISTED} more" if len(those) > MAX_LISTED else ""
        return (
            f"{', '.join(those[:MAX_LISTED])}{more} would break the order of keys that move: wrap them "
            "(trimtab.dataplane.keys), or end them"
        )
    return ""


def unverified_reason(found: KeysObservation, settings: KeysExecutionSettings) -> str:
    """The group of which nobody can see whether it keeps order; empty for none."""
    if settings.publishing.allow_unverified:
        return ""
    for one in found.groups:
        if one.unlisted_reason:
            return (
                f"group {one.name} {one.unlisted_reason}, so that nobody sees whether they keep order: let "
                "its "
                f"consumers use group.protocol=classic, or vouch for them with {VOUCH}"
            )
        if one.down:
            return (
                f"group {one.name} has commits on the topic and no members, so that nobody sees whether its "
                "consumers keep order when they come back: start them, delete its offsets of this topic if "
                f"it is gone for good, or vouch for it with {VOUCH}"
            )
    return ""


def rebalancing(found: KeysObservation, settings: KeysExecutionSettings) -> str:
    """The group whose members are not seen just now, since it gives out partitions anew; empty for none."""
    if settings.publishing.allow_unverified:
        return ""
    those = [one.name for one in found.groups if one.rebalancing]
    return f"group {those[0]} is rebalancing, so that its members are not seen" if those else ""


def other_topic(place: TableLocation, found: KeysObservation) -> str:
    """Why a plan is not for the topic of its name any more; empty where it is."""
    if not place.topic_id:
        return (
            f"the journal does not say which topic {place.topic!r} it was begun for, since an older trimtab "
            "wrote it: apply the plan again"
        )
    if not found.topic_id:
        return (
            f"there is no topic {place.topic!r} any more, and the plan was made for that of id "
            f"{place.topic_id}: it was deleted, and nothing is left to be done"
        )
    if found.topic_id != place.topic_id:
        return (
            f"topic {place.topic} has the id {found.topic_id}, and the plan is for {place.topic_id}: it was "
            "deleted and made anew, or this is another cluster; observe it and plan again"
        )
    return ""


def damaged(found: KeysObservation, settings: KeysExecutionSettings) -> str:
    """Why a table must not be published over what lies there; empty where it may."""
    if not found.damaged or settings.publishing.overwrite_invalid:
        return ""
    remedy = "" if REPLACE in found.damaged else f"; publish over it with {REPLACE}"
    return f"{found.damaged}{remedy}"
