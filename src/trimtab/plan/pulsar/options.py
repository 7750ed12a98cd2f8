"""Pulsar's options that affect decisions, with its names and defaults (`ServiceConfiguration`).

A field here is Pulsar's name in snake case without the leading `loadBalancer`; `fields_by_name` is the way
back.
"""

import dataclasses
import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from trimtab_common.errors import SettingsError

VARIANTS: Final = ("pulsar-4.2", "pulsar-4.0", "article")
"""The variants of the rules: Pulsar 4.2.4 (the default), 4.0.7, and the article's text."""

DEFAULT_VARIANT: Final = VARIANTS[0]


def _named(name: str, default: Any) -> Any:
    """An option whose name in Pulsar does not follow from ours."""
    return dataclasses.field(default=default, metadata={"pulsar": name})


@dataclass(frozen=True)
class PulsarBrokerConfig:
    """The part of Pulsar's `broker.conf` that is about load balancing.

    Percentages are percent, as in Pulsar; `..._weight` multiply a percentage; throughputs are MB where
    Pulsar says so in its own description, else bytes per second.

    Attributes
    ----------
    variant
        One of `VARIANTS`; ours, not Pulsar's.
    """

    variant: str = DEFAULT_VARIANT

    # What is done at all.
    enabled: bool = True
    shedding_enabled: bool = True
    auto_bundle_split_enabled: bool = True
    auto_unload_split_bundles_enabled: bool = True

    # Timing of reports and of shedding.
    report_update_threshold_percentage: int = 10
    report_update_min_interval_millis: int = 5000
    report_update_max_interval_minutes: int = 15
    host_usage_check_interval_minutes: int = 1
    resource_quota_update_interval_minutes: int = 15
    shedding_interval_minutes: int = 1
    shedding_grace_period_minutes: int = 30

    # What a broker's usage is.
    cpu_resource_weight: float = _named("loadBalancerCPUResourceWeight", 1.0)
    memory_resource_weight: float = 0.0
    direct_memory_resource_weight: float = 0.0
    bandwidth_in_resource_weight: float = 1.0
    bandwidth_out_resource_weight: float = 1.0
    # Older names of the two, misspelt by Pulsar: they hold where the newer ones are left at 1.
    bandwith_in_resource_weight: float = 1.0
    bandwith_out_resource_weight: float = 1.0
    history_resource_percentage: float = 0.9

    # OverloadShedder, ThresholdShedder.
    broker_overloaded_threshold_percentage: int = 85
    broker_threshold_shedder_percentage: int = 10
    bundle_unload_min_throughput_threshold: float = 10.0
    lower_boundary_shedding_enabled: bool = _named("lowerBoundarySheddingEnabled", False)

    # UniformLoadShedder, and AvgShedder's need.
    msg_rate_difference_shedder_threshold: float = 50.0
    msg_throughput_multiplier_difference_shedder_threshold: float = 4.0
    min_unload_message: int = _named("minUnloadMessage", 1000)
    min_unload_message_throughput: int = _named("minUnloadMessageThroughput", 1024 * 1024)
    max_unload_percentage: float = _named("maxUnloadPercentage", 0.2)
    max_unload_bundle_num_per_shedding: int = _named("maxUnloadBundleNumPerShedding", -1)

    # AvgShedder.
    avg_shedder_low_threshold: int = 15
    avg_shedder_high_threshold: int = 40
    avg_shedder_hit_count_low_threshold: int = 8
    avg_shedder_hit_count_high_threshold: int = 2
    # Ours: as repaired upstream by #26246, after the releases that are followed here.
    avg_shedder_plan_by_bundle_name: bool = _named("avgShedderPlanByBundleName", False)

    # TransferShedder and the rest of the extensible manager.
    transfer_enabled: bool = True
    broker_load_target_std: float = 0.25
    shedding_condition_hit_count_threshold: int = 3
    shedding_delay_in_seconds: int = _named("loadBalanceSheddingDelayInSeconds", 180)
    max_number_of_broker_shedding_per_cycle: int = 3
    broker_load_data_ttl_in_seconds: int = _named("loadBalancerBrokerLoadDataTTLInSeconds", 1800)
    max_number_of_bundles_in_bundle_load_report: int = 10
    shedding_bundles_with_policies_enabled: bool = False
    shedding_excluded_namespaces: tuple[str, ...] = ()
    debug_mode_enabled: bool = False
    # Ours: Pulsar counts what a swap brings back only while its debug mode is on.
    transfer_shedder_swap_gain_counted: bool = _named("transferShedderSwapGainCounted", False)

    # Ours: the goals of `trim`, and from which deviation in all of the last ticks it acts; fractions.
    trim_trigger: float = _named("trimTrigger", 0.3)
    trim_theta: float = _named("trimTheta", 0.8)
    trim_epsilon: float = _named("trimEpsilon", 0.2)

    # Placement.
    average_resource_usage_difference_threshold_percentage: int = 10
    broker_max_topics: int = 50000
    distribute_bundles_evenly_enabled: bool = True
    prefer_later_versions: bool = _named("preferLaterVersions", False)
    failure_domains_enabled: bool = _named("failureDomainsEnabled", False)

    # Splits.
    default_number_of_namespace_bundles: int = _named("defaultNumberOfNamespaceBundles", 4)
    default_namespace_bundle_split_algorithm: str = _named(
        "defaultNamespaceBundleSplitAlgorithm", "range_equally_divide"
    )
    namespace_bundle_max_topics: int = 1000
    namespace_bundle_max_sessions: int = 1000
    namespace_bundle_max_msg_rate: int = 30000
    namespace_bundle_max_bandwidth_mbytes: int = 100
    namespace_maximum_bundles: int = 128
    max_number_of_bundles_to_split_per_cycle: int = 10
    namespace_bundle_split_condition_hit_count_threshold: int = 3
    split_interval_minutes: int = 1
    flow_or_qps_difference_threshold_percentage: int = _named("flowOrQpsDifferenceThresholdPercentage", 10)

    @property
    def heap_memory_counts(self) -> bool:
        """True if a full heap alone makes a broker overloaded: in the article, not in Pulsar 4."""
        return self.variant == "article"

    @property
    def weights(self) -> tuple[float, float, float, float, float]:
        """Weights of `trimtab.model.bundles.reports.BROKER_RESOURCES` in the modular load manager.

        In Pulsar 4 it takes no notice of heap memory, whatever its weight; the article does.
        """
        cpu, memory, direct, bandwidth_in, bandwidth_out = self.extensible_weights
        return (cpu, memory if self.heap_memory_counts else 0.0, direct, bandwidth_in, bandwidth_out)

    @property
    def extensible_weights(self) -> tuple[float, float, float, float, float]:
        """The same in the extensible load manager, which weighs heap memory too."""
        return (
            self.cpu_resource_weight,
            self.memory_resource_weight,
            self.direct_memory_resource_weight,
            _newer(self.bandwidth_in_resource_weight, self.bandwith_in_resource_weight),
            _newer(self.bandwidth_out_resource_weight, self.bandwith_out_resource_weight),
        )


def _newer(weight: float, older_name: float) -> float:
    """The weight under its newer name, unless that was left as it is by default."""
    return weight if weight != 1.0 else older_name


_VARIANT_DEFAULTS: Final[Mapping[str, Mapping[str, object]]] = {
    "pulsar-4.2": {},
    "pulsar-4.0": {},
    # Its usage of a broker is max(CPU, memory, in, out), each of weight 1.0; direct memory is not in it.
    "article": {"memory_resource_weight": 1.0},
}


@cache
def fields_by_name() -> Mapping[str, "dataclasses.Field[Any]"]:
    """Every option by Pulsar's name."""
    options = [field for field in dataclasses.fields(PulsarBrokerConfig) if field.name != "variant"]
    return {field.metadata.get("pulsar") or _usual_name(field.name): field for field in options}


def _usual_name(field: str) -> str:
    return "loadBalancer" + "".join(word.capitalize() for word in field.split("_"))


def make_options(overrides: Mapping[str, object], variant: str = DEFAULT_VARIANT) -> PulsarBrokerConfig:
    """The options in force.

    Parameters
    ----------
    overrides
        By Pulsar's names: values of their type, or the text that `broker.conf` would hold.
    variant
        Whose defaults hold for the rest.

    Raises
    ------
    SettingsError
        If a name or the variant is unknown, or a value is not of the option's type.
    """
    if variant not in VARIANTS:
        raise SettingsError(f"variant {variant!r} is not known: choose one of {', '.join(VARIANTS)}")
    known = fields_by_name()
    values: dict[str, Any] = {"variant": variant, **_VARIANT_DEFAULTS[variant]}
    for name, value in overrides.items():
        if name not in known:
            near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
            remedy = (
                f"did you mean {' or '.join(near)}?"
                if near
                else "docs/reference/pulsar-options.md lists them all"
            )
            raise SettingsError(f"option {name} is not one that decides anything here; {remedy}")
        values[known[name].name] = _read(name, value, known[name].default)
    return PulsarBrokerConfig(**values)


def _read(name: str, value: object, default: object) -> object:
    """A value as the type of its default, as Pulsar's `FieldParser` reads `broker.conf`."""
    kind = type(default)
    text = str(value).strip()
    if kind is bool and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind is tuple:
        parts = value if isinstance(value, list | tuple) else text.split(",")
        return tuple(str(part).strip() for part in parts if str(part).strip())
    if kind is str:
        return text
    if kind in (int, float) and not isinstance(value, bool):
        try:
            number = float(text)
            if math.isfinite(number) and (kind is float or number.is_integer()):
                return kind(number) if kind is float else int(number)
        except ValueError:
            pass
    expected = {bool: "true or false", int: "a whole number", float: "a finite number"}[kind]
    raise SettingsError(f"option {name} is {value!r}, expected {expected}; correct it")
