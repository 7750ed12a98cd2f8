"""The rows of balancers name parts that are there, and every balancer fills in the same row."""

from dataclasses import fields

import pytest

from trimtab.act.executor import Executor
from trimtab.balancers import (
    BALANCER_NAMES,
    BALANCERS,
    DEFAULT_BALANCER,
    Balancer,
    LazyImport,
    balancer_named,
    systems,
)
from trimtab.files.plan_format import PlanFormat
from trimtab.files.snapshot_format import SnapshotFormat
from trimtab.observe.collect.sampler import SystemSampler
from trimtab.observe.lake.balancer_pipeline import BalancerPipeline
from trimtab.report.renderer import Renderer
from trimtab_common.errors import InputError
from trimtab_common.settings import Section

KINDS = {
    "settings": Section,
    "snapshot": SnapshotFormat,
    "plan": PlanFormat,
    "pipeline": BalancerPipeline,
    "executor": Executor,
    "renderer": Renderer,
}


@pytest.mark.parametrize("balancer", BALANCERS.values(), ids=BALANCER_NAMES)
def test_every_part_of_a_row_can_be_imported(balancer: Balancer) -> None:
    """Each name leads to something, of the kind that its room defines where it defines one."""
    parts = {one.name: getattr(balancer, one.name) for one in fields(balancer)}
    parts |= {f"form {name}": part for name, part in balancer.formats.items()}
    parts |= {f"planner {name}": part for name, part in balancer.planners.items()}
    for name, part in parts.items():
        if isinstance(part, LazyImport):
            assert isinstance(part(), KINDS.get(name, object)), name


@pytest.mark.parametrize("balancer", BALANCERS.values(), ids=BALANCER_NAMES)
def test_the_parts_of_a_balancer_agree_on_its_name_and_resources(balancer: Balancer) -> None:
    """A plan, an execution, a table and a section of one balancer are all filed under one name."""
    assert (
        balancer.settings().name
        == balancer.plan().balancer
        == balancer.pipeline().name
        == balancer.executor().balancer
    )
    assert balancer.name == balancer.settings().name
    assert balancer.pipeline().resources == balancer.plan().resources == balancer.settings().resources


def test_one_balancer_only_lies_in_the_lake_itself() -> None:
    """The first row is the balancer of files that name none; every other has a place of its own."""
    places = [balancer.pipeline().place for balancer in BALANCERS.values()]
    assert DEFAULT_BALANCER.pipeline().place == ""
    assert len(set(places)) == len(places)


@pytest.mark.parametrize("system", systems(), ids=lambda system: system.name)
def test_every_system_can_be_reached_and_sampled(system) -> None:
    """Its connection is made by a function, its collectors are a value."""
    assert callable(system.connection())
    assert isinstance(system.collecting(), SystemSampler)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("replica", "did you mean replicas?"), ("7", "write replicas or bundles or queues or keys or masters")],
)
def test_an_unknown_balancer_is_refused(name: str, hint: str) -> None:
    """A misspelt name gets the near one, any other the list."""
    with pytest.raises(InputError) as refused:
        balancer_named(name, "--balancer")
    assert str(refused.value) == f"--balancer is {name!r}: {hint}"
