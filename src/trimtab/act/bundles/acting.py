"""The level `bundles` as those who carry plans out see it."""

from trimtab.act.acting import Acting, Entry, Newest, Prepared
from trimtab.act.bundles.figures import forecast
from trimtab.act.bundles.machine import BundlesMachine, new_execution
from trimtab.act.bundles.port import BundlesPort, BundlesSeen
from trimtab.act.bundles.prepare import compare, refuse_if_elsewhere, steps_of
from trimtab.act.bundles.sensing import LoadSense
from trimtab.act.bundles.settings import UnloadSettings
from trimtab.act.bundles.state import BundlesState
from trimtab.act.bundles.steps import BundleRecord, StepKind, StepState
from trimtab.act.execution.codec import Codec
from trimtab.model.bundles.plan import BundlePlan
from trimtab.model.bundles.range import namespace_of
from trimtab.model.bundles.receipt import BundleOutcome, BundlesReceipt


def look(port: BundlesPort, plan: BundlePlan) -> tuple[str, BundlesSeen]:
    """See `Acting.look`."""
    namespaces = dict.fromkeys(namespace_of(move.bundle) for move in plan.moves)
    seen = port.observe(tuple(namespaces), (), deep=True)
    refuse_if_elsewhere(plan, seen)
    return seen.cluster, seen


def prepare(plan: BundlePlan, seen: BundlesSeen, rebase: bool) -> Prepared:
    """See `Acting.prepare`."""
    comparison = compare(plan, seen)
    comparison.refuse_if_changed("moves have been overtaken", rebase=rebase)
    return Prepared(plan, seen.cluster, seen, comparison, steps_of(plan, comparison))


def warnings(port: BundlesPort, prepared: Prepared, settings: UnloadSettings, expected: object) -> list[str]:
    """See `Acting.warnings`: silent brokers, bundles with more clients than a minute allows."""
    found = []
    if prepared.seen.silent:
        broker, why = sorted(prepared.seen.silent.items())[0]
        found.append(f"{len(prepared.seen.silent)} brokers do not answer, {broker} for one ({why})")
    over = [s for s in prepared.steps if s.sessions > settings.pace.sessions_per_minute]
    if over:
        found.append(
            f"{over[0].bundle} alone has {over[0].sessions} clients, more than "
            f"execution.bundles.sessions_per_minute ({settings.pace.sessions_per_minute}): they are "
            "disconnected at once, since a bundle moves as a whole"
        )
    return found


def sense(plan: BundlePlan, newest: Newest, settings: UnloadSettings) -> LoadSense | None:
    """See `Acting.sense`: the load of the newest snapshots, and of the brokers; None where there is none."""
    first = newest()
    return LoadSense(plan, first[1], newest) if first is not None and settings.pace.sense_load else None


def receipt_of(entry: Entry, state: BundlesState, sense: object) -> BundlesReceipt:
    """See `Acting.receipt`."""
    return BundlesReceipt(
        outcomes=tuple(_outcome(record) for record in state.records),
        notes=state.notes,
        **entry.receipt_fields(state),
    )


def _outcome(record: BundleRecord) -> BundleOutcome:
    step = record.step
    asked, done = record.started_at, record.ended_at
    moved = step.kind is StepKind.UNLOAD and record.state is StepState.DONE
    seconds = done - asked if moved and asked is not None and done is not None else None
    return BundleOutcome(
        kind=step.kind,
        moves=step.moves,
        **record.told(),
        bundle=step.bundle,
        source=step.source,
        target=step.target,
        boundaries=step.boundaries,
        unloads=record.unloads,
        sessions=step.sessions * record.unloads,
        attempts=record.attempts,
        under_way_seconds=seconds,
    )


ACTING = Acting(
    codec=Codec(BundlesState, BundleRecord),
    settings=UnloadSettings,
    look=look,
    prepare=prepare,
    forecast=lambda prepared, settings, sense: forecast(prepared.steps, settings),
    warnings=warnings,
    new_execution=new_execution,
    sense=sense,
    machine=BundlesMachine,
    receipt=receipt_of,
)
