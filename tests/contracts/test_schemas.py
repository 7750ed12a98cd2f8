"""The published JSON Schemas and the strict readers are one opinion."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from contracts.test_formats import BROKEN_VALUES, small
from support.random_snapshots import random_snapshot
from support.recordings import skewed, tick, written
from tiers import by_tier
from trimtab.balancers.settings import read_settings
from trimtab.files.bundles.plan import bundle_plan_bytes
from trimtab.files.bundles.reports import read_reports, report_line
from trimtab.files.replicas.plan import plan_bytes
from trimtab.files.replicas.snapshot import FORMAT
from trimtab.plan.replicas import trim
from trimtab_common.errors import InputError
from unit.files.bundles import test_bundles_snapshot as bundles
from unit.files.bundles import test_pulsar_policies as policies
from unit.files.bundles.test_bundle_plan import SLIPS, a_plan, changed

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"

BEYOND_A_SCHEMA = {
    # what depends on several places at once, on the calendar, or on JSON's own limits
    *(
        "a broker twice",
        "a partition twice",
        "a replica on an unknown broker",
        "a leader that holds no replica",
    ),
    *("an unknown leader", "in sync without a replica", "a log dir too few", "an undeclared log dir"),
    *("a log dir declared twice", "an impossible day", "NaN", "Infinity"),
}


def test_the_schemas_are_those_of_the_records() -> None:
    """The published schemas equal those of the code; after a change of a record scripts/schemas is run."""
    script = REFERENCE.parents[1] / "scripts" / "schemas"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def schema(name: str) -> Any:
    """A published schema, as a validator."""
    document = json.loads((REFERENCE / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(document)


@pytest.mark.parametrize("kind", sorted(set(BROKEN_VALUES) - BEYOND_A_SCHEMA))
def test_the_schema_rejects_the_files_that_the_reader_rejects(kind: str) -> None:
    """A tool that checks by the schema learns of the same slips before it hands its file over."""
    document = small()
    validator = schema("replicas-snapshot-1")
    assert validator.is_valid(document)
    BROKEN_VALUES[kind][0](document)
    assert not validator.is_valid(document)


@pytest.mark.parametrize("seed", range(by_tier(5, 20, 20)))
def test_files_read_and_written_fit_the_schema(seed: int) -> None:
    """Sound snapshots, our own export of them, and the plan made from them."""
    document = random_snapshot(seed)
    schema("replicas-snapshot-1").validate(document)
    snapshot = FORMAT.from_json(Path("random.json"), json.dumps(document).encode(), "0" * 64)
    schema("replicas-snapshot-1").validate(json.loads(FORMAT.to_json(snapshot)))
    plan = trim.plan(snapshot, read_settings(None, [], {}).balancers["replicas"])
    schema("replicas-plan-1").validate(json.loads(plan_bytes(plan)))


BEYOND_THE_PLAN_SCHEMA = {
    # what depends on several places at once
    *("a move struck out alone", "an order that goes back", "no assignment", "an assignment twice"),
    *("the wrong source", "to where it is", "to nobody", "an unload with boundaries"),
    *("a split with a target", "a split that disturbs", "a boundary at the end", "boundaries that fall"),
    *("a split nowhere", "another boundary", "a part before its split", "a bundle after its split"),
    *("a part that was there before", "a part without assignment", "a split bundle that is still owned"),
    *("a bundle that overlaps", "sessions that do not add up", "unloads that do not add up"),
    *("splits that do not add up", "traffic that does not add up"),
}


@pytest.mark.parametrize("kind", sorted(set(SLIPS) - BEYOND_THE_PLAN_SCHEMA))
def test_the_schema_of_bundle_plans_rejects_the_files_that_the_reader_rejects(kind: str) -> None:
    """Misspelt fields, numbers as text, and names of another balancer are found by the schema."""
    validator = schema("bundles-plan-1")
    assert validator.is_valid(json.loads(bundle_plan_bytes(a_plan())))
    assert not validator.is_valid(json.loads(changed(SLIPS[kind][0])))


BEYOND_THE_BUNDLES_SCHEMA = {
    # what depends on several places at once, on an order, or on what a regular expression is
    *("a load too few", "a bundle twice", "bundles that overlap", "a bundle that is none of the namespace's"),
    *("an unknown owner", "a broker twice", "a topic of no bundle", "a hash outside"),
    *("a departure out of order", "a pattern that is none"),
}


@pytest.mark.parametrize("kind", sorted(set(bundles.SLIPS) - BEYOND_THE_BUNDLES_SCHEMA))
def test_the_schema_of_bundles_snapshots_rejects_the_files_that_the_reader_rejects(kind: str) -> None:
    """A gap in the boundaries, a missing resource, a state that is none."""
    validator = schema("bundles-snapshot-1")
    validator.validate(json.loads(bundles.changed(lambda one: None)))
    assert not validator.is_valid(json.loads(bundles.changed(bundles.SLIPS[kind][0])))


def test_recorded_load_reports_fit_their_schema(tmp_path: Path) -> None:
    """What a broker writes, and what we write of it again, is what the schema describes."""
    recorded = tick(0, skewed())
    schema("pulsar-reports-1").validate(recorded)
    (read,) = read_reports(written(tmp_path / "reports.jsonl", [recorded]))
    schema("pulsar-reports-1").validate(json.loads(report_line(read)))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cpu", {"usage": -1, "limit": 1}),
        ("msgRateIn", -1),
        ("bundles", ["t/n/0x0_0x1"]),
        ("lastStats", None),
    ],
)
def test_the_schema_refuses_the_reports_that_the_reader_refuses(
    field: str, value: object, tmp_path: Path
) -> None:
    """Negative numbers, names that are none, and a missing part."""
    reports = skewed()
    reports["h1:8080"][field] = value
    assert not schema("pulsar-reports-1").is_valid(tick(0, reports))
    with pytest.raises(InputError):
        list(read_reports(written(tmp_path / "reports.jsonl", [tick(0, reports)])))


def test_policies_that_are_read_fit_the_schema() -> None:
    """A quota of zero, an invalid list, and an unknown field are rejected."""
    validator = schema("pulsar-policies-1")
    validator.validate(policies.WHOLE)
    slips: tuple[dict[str, Any], ...] = (
        {"failureDomains": {"rack-a": {"brokers": "b"}}},
        {"resourceQuotas": {policies.BUNDLE: {}}},
        {"resourceQuotas": {"t/a": policies.WHOLE["resourceQuotas"][policies.BUNDLE]}},
        {"isolationPolicies": {}},
    )
    for slip in slips:
        assert not validator.is_valid({**policies.WHOLE, **slip})
