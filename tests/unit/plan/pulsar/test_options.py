"""Options by Pulsar's names, as an operator would paste them from broker.conf."""

import dataclasses
import re

import pytest

from trimtab.model.errors import PlanError
from trimtab.plan.bundles.strategies import SHEDDERS, shedder
from trimtab.plan.pulsar.decision import PLACERS, Placer, Shedder, placer
from trimtab.plan.pulsar.options import PulsarBrokerConfig, fields_by_name, make_options
from trimtab_common.errors import SettingsError


def test_defaults_are_pulsars() -> None:
    """A few that everything hangs on, from ServiceConfiguration."""
    options = make_options({})
    assert options.broker_threshold_shedder_percentage == 10
    assert options.history_resource_percentage == 0.9
    assert options.bundle_unload_min_throughput_threshold == 10
    assert options.max_unload_percentage == 0.2
    assert options.namespace_maximum_bundles == 128


def test_every_field_is_its_pulsar_name_in_snake_case() -> None:
    """Options have Pulsar's names."""
    for pulsars, field in fields_by_name().items():
        name = re.sub(r"^loadBalance[r]?", "", pulsars).replace("CPU", "Cpu").replace("TTL", "Ttl")
        snake = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
        assert field.name == snake


def test_text_is_read_as_broker_conf_holds_it() -> None:
    """Numbers, true or false, and lists parted by commas."""
    options = make_options(
        {
            "loadBalancerBrokerThresholdShedderPercentage": "20",
            "lowerBoundarySheddingEnabled": "true",
            "loadBalancerHistoryResourcePercentage": "0.3",
            "loadBalancerSheddingExcludedNamespaces": "a/b, c/d",
        }
    )
    assert options.broker_threshold_shedder_percentage == 20
    assert options.lower_boundary_shedding_enabled is True
    assert options.history_resource_percentage == 0.3
    assert options.shedding_excluded_namespaces == ("a/b", "c/d")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("loadBalancerBrokerThresholdShedderPercentage", "ten", "a whole number"),
        ("loadBalancerBrokerThresholdShedderPercentage", "10.5", "a whole number"),
        ("loadBalancerBrokerThresholdShedderPercentage", True, "a whole number"),
        ("loadBalancerHistoryResourcePercentage", "nan", "a finite number"),
        ("lowerBoundarySheddingEnabled", "yes", "true or false"),
    ],
)
def test_a_value_of_another_kind_is_refused(name: str, value: object, expected: str) -> None:
    """The message names the option, the value and what it should be."""
    with pytest.raises(SettingsError, match=f"{name} is .*expected {expected}"):
        make_options({name: value})


def test_an_unknown_option_names_near_ones() -> None:
    """A mistyped option is an error: silent defaults would change a replay."""
    with pytest.raises(SettingsError, match="did you mean loadBalancerBrokerThresholdShedderPercentage"):
        make_options({"loadBalancerBrokerThresholdShedderPercent": 20})


def test_memory_weighs_in_the_article_and_never_in_pulsars_modular_manager() -> None:
    """The article's usage is max(CPU, memory, in, out), direct memory not among them; the modular manager of
    Pulsar 4 ignores even a weight given.
    """
    assert make_options({}, "article").weights == (1.0, 1.0, 0.0, 1.0, 1.0)
    assert make_options({}).weights == (1.0, 0.0, 0.0, 1.0, 1.0)
    weighed = make_options({"loadBalancerMemoryResourceWeight": 1})
    assert weighed.weights[1] == 0.0
    assert weighed.extensible_weights[1] == 1.0


def test_misspelt_old_option_names_apply_unless_the_new_names_are_set() -> None:
    """`loadBalancerBandwithInResourceWeight` is what old files have; the newer name goes first."""
    old = {"loadBalancerBandwithInResourceWeight": 0.5, "loadBalancerBandwithOutResourceWeight": 0.25}
    assert make_options(old).weights == (1.0, 0.0, 0.0, 0.5, 0.25)
    assert make_options({**old, "loadBalancerBandwidthInResourceWeight": 2}).weights[3] == 2.0


def test_an_unknown_variant_names_those_there_are() -> None:
    """pulsar-3 is not one of them."""
    with pytest.raises(SettingsError, match="choose one of pulsar-4.2, pulsar-4.0, article"):
        make_options({}, "pulsar-3")


def test_every_row_of_the_table_can_be_imported() -> None:
    """Also by its full Java name, as broker.conf has it."""
    for name in PLACERS:
        found = placer(name)
        assert isinstance(found, Placer) and name.rpartition(".")[2] in (found.choose.__doc__ or "")
    assert len({id(placer(name)) for name in PLACERS}) == len(PLACERS)
    for name in SHEDDERS:
        chosen = shedder(f"org.apache.pulsar.broker.loadbalance.impl.{name}")
        assert isinstance(chosen, Shedder) and chosen == shedder(name)
        assert name == "trim" or f"`{name}.findBundlesForUnloading`" in (chosen.decide.__doc__ or "")
    assert len({repr(shedder(name).decide) for name in SHEDDERS}) == len(SHEDDERS)
    with pytest.raises(PlanError, match="did you mean ThresholdShedder"):
        shedder("TresholdShedder")


def test_no_name_is_used_twice() -> None:
    """Two fields of one name would hide each other."""
    assert len(fields_by_name()) == len(dataclasses.fields(PulsarBrokerConfig)) - 1
