"""Which look at the cluster is asked for next."""

from trimtab.act.bundles.commands import Observe
from trimtab.act.bundles.state import BundlesState


def next_look(state: BundlesState, *, deep: bool = False) -> Observe:
    """Owners and boundaries while something is under way; switches and health, too, between batches."""
    records = [record for record in state.records if not record.ended]
    namespaces = dict.fromkeys(record.step.namespace for record in records)
    deep = deep or not state.active
    destinations = dict.fromkeys(record.step.target for record in records if record.step.target is not None)
    return Observe(tuple(namespaces), tuple(destinations) if deep else (), deep=deep)
