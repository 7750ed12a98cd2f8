"""What one look at the cluster means for one step: leaves of the state machine, without memory of their own.

Everything is decided from what the cluster shows, not from what we think we did, nor from what Pulsar
answered: it says yes to unloads and splits that do nothing.
"""

from dataclasses import replace

from trimtab.act.bundles.observation import BundlesSeen
from trimtab.act.bundles.settings import BundlesSettings
from trimtab.act.bundles.steps import BundleRecord, StepKind, StepState


def reconcile(record: BundleRecord, seen: BundlesSeen, now: float, settings: BundlesSettings) -> BundleRecord:
    """The record after a look that covered its namespace and all brokers."""
    if record.ended:
        return record
    if record.step.follows is not None and record.state is StepState.PENDING:
        return record  # what it is about may not be there yet; the batch chooser knows when it never will
    return current(record, seen, now, settings)


def current(record: BundleRecord, seen: BundlesSeen, now: float, settings: BundlesSettings) -> BundleRecord:
    """The record after a look, whatever it follows."""
    record = _awaited(record, seen, settings)
    namespace = record.step.namespace
    if namespace not in seen.boundaries:
        return ended(record, StepState.SKIPPED, now, f"namespace {namespace} is gone")
    kind = _unload if record.step.kind is StepKind.UNLOAD else _split
    return kind(record, seen, now, settings)


def ended(record: BundleRecord, state: StepState, now: float, reason: str = "") -> BundleRecord:
    """The record at its end."""
    return replace(
        record, state=state, reason=reason, ended_at=now, advanced_at=now, not_before=0.0, waits_for=None
    )


def advanced(record: BundleRecord, state: StepState, now: float) -> BundleRecord:
    """The record a state further (or as it was, if it is there already)."""
    return record if record.state is state else replace(record, state=state, advanced_at=now)


def set_back(record: BundleRecord, now: float, settings: BundlesSettings, why: str) -> BundleRecord:
    """The record to be tried again later, or failed if it has been tried often enough."""
    attempts = record.attempts + 1
    if attempts >= settings.attempts:
        return ended(
            replace(record, attempts=attempts), StepState.FAILED, now, f"{why} ({attempts} attempts)"
        )
    return replace(
        record,
        state=StepState.CUTTING if record.cut else StepState.PENDING,
        attempts=attempts,
        not_before=now + settings.backoff(attempts),
        advanced_at=now,
        reason=why,
        waits_for=None,
    )


def is_lagging(record: BundleRecord, now: float, settings: BundlesSettings) -> bool:
    """Whether what was asked for a moment ago may just not be seen yet."""
    return record.advanced_at is not None and now - record.advanced_at < settings.settle_seconds


def _awaited(record: BundleRecord, seen: BundlesSeen, settings: BundlesSettings) -> BundleRecord:
    """A broker that was waited for answers again, or its session is over: no need to wait so long."""
    if record.waits_for is None or record.waits_for in seen.silent:
        return record
    if record.waits_for not in seen.brokers:
        return replace(record, waits_for=None, not_before=0.0)
    # It is well, so somebody else on the way (the leader) was not: tried again soon, but not at once.
    soon = (record.advanced_at or 0.0) + settings.backoff(record.attempts)
    return replace(record, waits_for=None, not_before=min(record.not_before, soon))


def _unload(record: BundleRecord, seen: BundlesSeen, now: float, settings: BundlesSettings) -> BundleRecord:
    step = record.step
    if not seen.has(step.range):
        begun = record.active or record.attempts > 0
        return ended(record, StepState.FAILED if begun else StepState.SKIPPED, now, gone(record, seen))
    owner = seen.owners.get(step.bundle)
    if owner == step.target:
        return ended(record, StepState.DONE, now, "" if record.started_at else "was so already")
    if record.state is StepState.PENDING:
        return _still_applies(record, owner, now)
    if owner is None:
        return _unowned(record, seen, now, settings)
    if owner != record.origin:
        return set_back(record, now, settings, f"went to {owner}, not to {step.target}")
    if is_lagging(record, now, settings):
        return record
    return set_back(record, now, settings, f"Pulsar left it with {owner}")


def _still_applies(record: BundleRecord, owner: str | None, now: float) -> BundleRecord:
    """A step that has not been begun is for the owner that the plan knew."""
    step = record.step
    if record.attempts == 0 and owner is not None and step.source is not None and owner != step.source:
        return ended(
            record, StepState.SKIPPED, now, f"{owner} owns it now, the step was made for {step.source}"
        )
    return record


def _unowned(record: BundleRecord, seen: BundlesSeen, now: float, settings: BundlesSettings) -> BundleRecord:
    since = record.advanced_at if record.advanced_at is not None else now
    if seen.silent and now - since < settings.pace.session_timeout_seconds:
        return record  # a broker that does not answer may have it
    if now - since < settings.pace.owner_seconds:
        return record
    return set_back(record, now, settings, f"nobody took it in {now - since:.0f} s")


def _split(record: BundleRecord, seen: BundlesSeen, now: float, settings: BundlesSettings) -> BundleRecord:
    step = record.step
    cuts = seen.cuts(step.range)
    begun = record.state is not StepState.PENDING or record.attempts > 0
    if cuts is None:
        return ended(record, StepState.FAILED if begun else StepState.SKIPPED, now, gone(record, seen))
    foreign = sorted(set(cuts) - set(step.boundaries))
    missing = [one for one in step.boundaries if one not in cuts]
    if foreign and not begun:
        return ended(record, StepState.SKIPPED, now, f"somebody else has split it at {_hex(foreign)}")
    if not missing:
        also = f"somebody else has split it, too, at {_hex(foreign)}" if foreign else ""
        return ended(record, StepState.DONE, now, also or ("" if begun else "was so already"))
    cut = len(step.boundaries) - len(missing)
    if cut > record.cut and begun:
        return replace(advanced(record, StepState.CUTTING, now), cut=cut, not_before=0.0)
    if record.state is not StepState.REQUESTED or is_lagging(record, now, settings):
        return record
    why = "Pulsar said yes and cut nothing (it cuts no bundle of fewer than two topics)"
    return set_back(record, now, settings, why)


def gone(record: BundleRecord, seen: BundlesSeen) -> str:
    """Why a bundle is not there any more, as far as can be told."""
    inside = seen.cuts(record.step.range)
    if inside:
        return f"the bundle is gone: split at {_hex(inside)}"
    return "the bundle is gone: its namespace has other boundaries now"


def _hex(boundaries: "tuple[int, ...] | list[int]") -> str:
    shown = ", ".join(f"0x{one:08x}" for one in boundaries[:4])
    return shown if len(boundaries) <= 4 else f"{shown} and {len(boundaries) - 4} more"
