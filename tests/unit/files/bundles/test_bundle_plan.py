"""Plans of the balancer bundles in files: canonical bytes, and what a slip of an editing hand is answered."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.bundle_plans import bundle_plan_of, key, split, unload
from support.plans import plan_of
from trimtab.files.bundles.plan import (
    bundle_plan_bytes,
    bundle_plan_from,
    read_bundle_plan,
    write_bundle_plan,
)
from trimtab.files.plan_format import balancer_of, open_plan
from trimtab.files.replicas.plan import read_plan, write_plan
from trimtab.model.bundles.plan import BundleMove, BundlePlan
from trimtab.model.load import ImbalanceSummary
from trimtab.model.plan import Prediction, Problem
from trimtab_common.errors import InputError

WHOLE = key(0, 0x8000)
LEFT, RIGHT = key(0, 0x4000), key(0x4000, 0x8000)
LEVELS = ("replicas", "bundles")
OTHER = key(0x8000, 0xFFFFFFFF)


def a_plan() -> BundlePlan:
    """An unload, a split and an unload of a part, with everything that a plan can carry."""
    even = ImbalanceSummary({"cpu": 0.01}, {"cpu": 0.1, "message_rate": 0.0}, {"cpu": 1 / 3})
    plan = bundle_plan_of(
        unload(OTHER, "b:1", "ü:2", sessions=7),
        split(WHOLE, "b:1", 0x4000),
        unload(RIGHT, "b:1", "c:3"),
        problems=(Problem("hot_topic", "one topic", 3, "cpu", {"topic": "persistent://t/n/a"}),),
    )
    return replace(plan, predicted=Prediction(even, even), settings={"theta": {"cpu": 0.8}, "max": None})


def changed(change: Callable[[Any], object]) -> bytes:
    """The file of `a_plan` after an edit."""
    document = json.loads(bundle_plan_bytes(a_plan()))
    change(document)
    return json.dumps(document).encode()


def test_a_plan_is_read_back_unchanged(tmp_path: Path) -> None:
    """Written, read, and written again: the same value and the same bytes, a move a line."""
    path = tmp_path / "plan.json"
    write_bundle_plan(a_plan(), path)
    assert read_bundle_plan(path) == a_plan()
    assert bundle_plan_bytes(read_bundle_plan(path)) == path.read_bytes()
    assert sum(line.startswith('  {"order"') for line in path.read_text().splitlines()) == 3


def test_the_balancer_is_read_without_reading_the_whole_file(tmp_path: Path) -> None:
    """Commands choose their way by the balancer; each reader sends the other balancer's plans away."""
    ours, theirs = tmp_path / "bundles.json", tmp_path / "replicas.json"
    write_bundle_plan(a_plan(), ours)
    write_plan(plan_of(("t", 0, (1, 2), (2, 1))), theirs)
    assert (balancer_of(open_plan(ours), LEVELS), balancer_of(open_plan(theirs), LEVELS)) == (
        "bundles",
        "replicas",
    )
    with pytest.raises(InputError, match=r'\$\.balancer is "bundles", expected one of replicas'):
        read_plan(ours)
    with pytest.raises(InputError, match=r'\$\.balancer is "replicas", expected one of bundles'):
        read_bundle_plan(theirs)


def test_a_balancer_without_plans_is_rejected(tmp_path: Path) -> None:
    """A typing slip in the balancer is named with those that there are."""
    path = tmp_path / "plan.json"
    path.write_bytes(changed(lambda plan: plan.update(balancer="bundle")))
    with pytest.raises(InputError, match=r"\$\.balancer is \"bundle\", expected one of replicas, bundles"):
        balancer_of(open_plan(path), LEVELS)
    path.write_bytes(changed(lambda plan: plan.pop("balancer")))
    with pytest.raises(InputError, match=r'\$ has no field "balancer"'):
        balancer_of(open_plan(path), LEVELS)


SLIPS: dict[str, tuple[Callable[[Any], object], str]] = {
    # kind: (what an editing hand did, what the message must say)
    "another kind": (
        lambda plan: plan["moves"][0].update(kind="transfer"),
        r"\$\.moves\[0\]\.kind is \"transfer\", expected one of unload, split",
    ),
    "a move struck out alone": (
        lambda plan: plan["moves"].pop(0),
        r'\$\.assignments\[0\]\.after is "ü:2", expected b:1',
    ),
    "an order that goes back": (
        lambda plan: plan["moves"][1].update(order=1),
        r"\$\.moves\[1\]\.order is 1, expected more than 1",
    ),
    "no assignment": (
        lambda plan: plan["assignments"].pop(0),
        r"\$\.moves\[0\] moves .* has no assignment; add one",
    ),
    "an assignment twice": (
        lambda plan: plan["assignments"].append(plan["assignments"][0]),
        r"\$\.assignments\[4\] is a second one for",
    ),
    "the wrong source": (
        lambda plan: plan["moves"][0].update(source="c:3"),
        r'\$\.moves\[0\]\.source is "c:3", expected b:1, who owns',
    ),
    "to where it is": (
        lambda plan: plan["moves"][0].update(target="b:1"),
        r'\$\.moves\[0\]\.target is "b:1", expected another broker',
    ),
    "to nobody": (
        lambda plan: plan["moves"][0].update(target=None),
        r"\$\.moves\[0\]\.target is null, expected another broker",
    ),
    "an unload with boundaries": (
        lambda plan: plan["moves"][0].update(boundaries=[5]),
        r"\$\.moves\[0\]\.boundaries is \[5\], expected none for an unload",
    ),
    "a split with a target": (
        lambda plan: plan["moves"][1].update(target="c:3"),
        r"\$\.moves\[1\]\.target is \"c:3\", expected null for a split",
    ),
    "a split that disturbs": (
        lambda plan: plan["moves"][1].update(sessions=4),
        r"\$\.moves\[1\]\.sessions is 4, expected 0: a split alone",
    ),
    "a boundary at the end": (
        lambda plan: plan["moves"][1].update(boundaries=[0x8000]),
        r"\$\.moves\[1\]\.boundaries\[0\] is 32768, expected more than 0 and less than 32768",
    ),
    "boundaries that fall": (
        lambda plan: plan["moves"][1].update(boundaries=[0x4000, 0x2000]),
        r"\$\.moves\[1\]\.boundaries\[1\] is 8192, expected more than 16384",
    ),
    "a split nowhere": (
        lambda plan: plan["moves"][1].update(boundaries=[]),
        r"\$\.moves\[1\]\.boundaries is \[\], expected at least one",
    ),
    "another boundary": (
        lambda plan: plan["moves"][1].update(boundaries=[0x3000]),
        r"\$\.assignments holds t/n/0x00000000_0x00004000 and t/n/0x00000000_0x00008000, which overlap",
    ),
    "a part before its split": (
        lambda plan: (
            plan["moves"][1].update(order=3),
            plan["moves"][2].update(order=2),
            plan["moves"].sort(key=lambda move: move["order"]),
        ),
        r"\$\.moves\[1\] moves t/n/0x00004000_0x00008000, which only \$\.moves\[2\] makes",
    ),
    "a bundle after its split": (
        lambda plan: plan["moves"][2].update(bundle=WHOLE),
        r"\$\.moves\[2\] moves t/n/0x00000000_0x00008000, which \$\.moves\[1\] has split",
    ),
    "a part that was there before": (
        lambda plan: plan["assignments"][2].update(before="b:1"),
        r"\$\.assignments\[2\]\.before is \"b:1\", expected null: it does not exist before",
    ),
    "a part without assignment": (
        lambda plan: plan["assignments"].pop(2),
        r"\$\.moves\[1\] makes t/n/0x00000000_0x00004000, which has no assignment",
    ),
    "a split bundle that is still owned": (
        lambda plan: plan["assignments"][1].update(after="b:1"),
        r"\$\.assignments\[1\]\.after is \"b:1\", expected null: \$\.moves\[1\] splits it",
    ),
    "a bundle that overlaps": (
        lambda plan: plan["assignments"].append(
            {"bundle": key(0x7000, 0x9000), "before": "b:1", "after": "b:1"}
        ),
        r"overlap; no split of the plan makes either: drop one",
    ),
    "no bundle's name": (
        lambda plan: plan["moves"][0].update(bundle="t/n/0x0_0x1"),
        r"\$\.moves\[0\]\.bundle: bundle \"t/n/0x0_0x1\" is not a bundle's name",
    ),
    "sessions that do not add up": (
        lambda plan: plan["cost"].update(sessions=9),
        r"\$\.cost\.sessions is 9, expected 10, the sum of the moves",
    ),
    "unloads that do not add up": (
        lambda plan: plan["cost"].update(unloads=1),
        r"\$\.cost\.unloads is 1, expected 2",
    ),
    "splits that do not add up": (
        lambda plan: plan["cost"].update(splits=0),
        r"\$\.cost\.splits is 0, expected 1",
    ),
    "traffic that does not add up": (
        lambda plan: plan["cost"].update(bytes_per_second=1.0),
        r"\$\.cost\.bytes_per_second is 1\.0, expected 10000\.0",
    ),
    "a resource of another level": (
        lambda plan: plan["predicted"]["after"]["sigma"].update(disk=0.1),
        r"\$\.predicted\.after\.sigma is \"disk\", expected one of cpu, bandwidth_in",
    ),
    "a reason of another level": (
        lambda plan: plan["moves"][0]["reason"].update(resource="disk"),
        r"\$\.moves\[0\]\.reason\.resource is \"disk\"",
    ),
    "a misspelt field": (
        lambda plan: plan["moves"][0].update(boundary=[1]),
        r'\$\.moves\[0\] has an unknown field "boundary"; did you mean "boundaries"',
    ),
    "a number as text": (
        lambda plan: plan["moves"][0].update(sessions="7"),
        r'\$\.moves\[0\]\.sessions is "7", expected a whole number',
    ),
    "a negative count": (
        lambda plan: plan["moves"][0].update(topics=-1),
        r"\$\.moves\[0\]\.topics is -1",
    ),
    "a verdict that is none": (
        lambda plan: plan.update(verdict="fine"),
        r'\$\.verdict is "fine", expected one of balanced, improved',
    ),
}


@pytest.mark.parametrize("kind", SLIPS)
def test_a_slip_of_the_editing_hand_is_named(kind: str) -> None:
    """File, JSON path, value, what was expected, and what to do; in one line."""
    change, message = SLIPS[kind]
    with pytest.raises(InputError, match=message) as refused:
        bundle_plan_from(Path("plan.json"), changed(change))
    text = str(refused.value)
    assert text.startswith("plan.json: ")
    assert "\n" not in text
    assert ";" in text


def test_fields_of_ones_own_change_nothing() -> None:
    """Notes of a reviewer (`x_...`) may stand anywhere."""

    def note(plan: Any) -> None:
        plan["x_reviewed"] = "yes"
        plan["moves"][0]["x_note"] = {"by": "me"}
        plan["cost"]["x_note"] = 1

    assert bundle_plan_from(Path("plan.json"), changed(note)) == a_plan()


def test_a_move_struck_out_with_its_effects_is_fine() -> None:
    """Gaps in the order may stay; assignments and cost must follow."""

    def strike(plan: Any) -> None:
        struck = plan["moves"].pop(2)
        plan["assignments"][3]["after"] = "b:1"
        plan["cost"]["sessions"] -= struck["sessions"]
        plan["cost"]["unloads"] -= 1
        plan["cost"]["bytes_per_second"] -= struck["bytes_per_second"]

    assert [move.order for move in bundle_plan_from(Path("p"), changed(strike)).moves] == [1, 2]


@st.composite
def plans(draw: st.DrawFn) -> BundlePlan:
    """Sound plans: any splits and unloads, also of parts of parts."""
    width = 1 << 16
    owner: dict[tuple[str, int, int], str | None] = {}
    brokers = [f"b{number}:8080" for number in range(3)]
    for namespace in ("t/n", "t/ü"):
        for place in range(draw(st.integers(0, 4))):
            owner[namespace, place * width, (place + 1) * width] = draw(st.sampled_from([None, *brokers]))
    moves: list[BundleMove] = []
    for _ in range(draw(st.integers(0, 8)) if owner else 0):
        namespace, low, high = draw(st.sampled_from(sorted(owner)))
        name, source = key(low, high, namespace), owner[namespace, low, high]
        if draw(st.booleans()):
            target = draw(st.sampled_from([broker for broker in brokers if broker != source]))
            moves.append(unload(name, source, target, sessions=draw(st.integers(0, 2**40))))
            owner[namespace, low, high] = target
        elif high - low > 2:
            cuts = sorted(draw(st.sets(st.integers(low + 1, high - 1), min_size=1, max_size=3)))
            moves.append(split(name, source, *cuts))
            del owner[namespace, low, high]
            for part_low, part_high in zip((low, *cuts), (*cuts, high), strict=True):
                owner[namespace, part_low, part_high] = source
    return bundle_plan_of(*moves)


@settings(max_examples=60, deadline=None)
@given(plans())
def test_every_valid_plan_is_read_back(plan: BundlePlan) -> None:
    """For any sequence of splits and unloads: bytes to value and back again."""
    data = bundle_plan_bytes(plan)
    assert bundle_plan_from(Path("plan.json"), data) == plan
    assert bundle_plan_bytes(bundle_plan_from(Path("plan.json"), data)) == data
