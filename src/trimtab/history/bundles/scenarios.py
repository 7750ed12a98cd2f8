"""Strategies as they are asked for: the words that all share, and those of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trimtab.files.bundles.policies import OperatorPolicies
from trimtab.files.bundles.scenario_file import NO_SETTINGS, ScenarioSettings
from trimtab.history.bundles.replay import ShedderScenario
from trimtab.model.bundles.policies import BundlePolicies, ClusterMetadata
from trimtab.model.errors import SettingsError
from trimtab.plan.bundles.strategies import shedder
from trimtab.plan.pulsar.options import DEFAULT_VARIANT, make_options
from trimtab.plan.pulsar.strategies import placer


@dataclass(frozen=True)
class StrategyRequest:
    """One strategy as it was asked for.

    Attributes
    ----------
    strategy
        The shedder by its name in Pulsar, as given.
    placement
        Likewise; None where there is none.
    options
        Pulsar's options by name, as texts: common ones, then its own.
    variant, seed
        Whose rules, and of all that is drawn; None where it has none of its own.
    """

    strategy: str
    placement: str | None
    options: Mapping[str, str]
    variant: str | None = None
    seed: int | None = None

    @property
    def names(self) -> str:
        """Shedder and placement, in words."""
        return self.strategy if self.placement is None else f"{self.strategy} and {self.placement}"

    def settled(self, variant: str, seed: int, *, world_answers: bool) -> StrategyRequest:
        """The same with nothing left open.

        Where the world answers, every unload needs a destination: Pulsar's default placement, or for
        `AvgShedder`, which plans its own, itself.
        """
        placement = self.placement
        if placement is None and world_answers and not shedder(self.strategy).extensible:
            own = self.strategy.rpartition(".")[2] == "AvgShedder"
            placement = "AvgShedder" if own else "LeastLongTermMessageRate"
        return replace(
            self,
            placement=placement,
            variant=self.variant or variant,
            seed=seed if self.seed is None else self.seed,
        )

    def scenario(
        self, *, java_order: bool, world_answers: bool, laid_down: OperatorPolicies | None = None
    ) -> ShedderScenario:
        """The scenario to replay; in a cluster without policies and quotas if none are laid down.

        Raises
        ------
        TrimtabError
            If a strategy, a placement, an option or the variant is not known.
        """
        metadata = ClusterMetadata(policies=BundlePolicies() if laid_down is None else laid_down.policies)
        return ShedderScenario(
            shedder(self.strategy, metadata),
            make_options(self.options, self.variant or DEFAULT_VARIANT),
            None if self.placement is None else placer(self.placement),
            metadata,
            seed=self.seed or 0,
            java_order=java_order,
            world_answers=world_answers,
            quotas={} if laid_down is None else laid_down.quotas,
        )


def strategy_requests(
    strategies: Sequence[str],
    placements: Sequence[str],
    overrides: Sequence[str],
    listed: tuple[ScenarioSettings, Mapping[str, ScenarioSettings]] = (NO_SETTINGS, {}),
) -> tuple[dict[str, StrategyRequest], dict[str, str]]:
    """The strategies by name, and the options that all have in common.

    Parameters
    ----------
    strategies
        `STRATEGY`, or `NAME=STRATEGY` where one is to appear twice; the name is else the class's.
    placements
        `PLACEMENT` for all, or `NAME=PLACEMENT` for one, which goes first.
    overrides
        `option=value` for all, or `NAME.option=value` for one, which goes first.
    listed
        The same from a file, for all and for each strategy. What is for one goes before what is for all, and
        of two of a kind the one that is not from the file.

    Raises
    ------
    SettingsError
        If two have one name, a name stands for no strategy, or two placements are for the same.
    """
    common, own = listed
    chosen = {name: one.strategy for name, one in own.items()}
    for given in strategies:
        label, _, strategy = given.rpartition("=")
        name = label.strip() or strategy.strip().rpartition(".")[2]
        if name in chosen:
            raise SettingsError(
                f"--strategy {given}: there is another by the name {name}; give one a name of its own, as "
                f"--strategy second={strategy.strip()}"
            )
        chosen[name] = strategy.strip()
    placed = _placements(placements, chosen)
    options = _options(overrides, chosen)
    for_all = {**common.options, **options[""]}
    found = {}
    for name, strategy in chosen.items():
        words = own.get(name, NO_SETTINGS)
        ranked = (placed.get(name), words.placement, placed.get(""), common.placement)
        found[name] = StrategyRequest(
            strategy,
            next((one for one in ranked if one is not None), None),
            {**for_all, **words.options, **options[name]},
            words.variant,
            words.seed,
        )
    return found, for_all


def _placements(placements: Sequence[str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Placements by the strategy's name; the empty one is for all others."""
    placed: dict[str, str] = {}
    for given in placements:
        label, equals, placement = given.rpartition("=")
        name = _name(f"--placement {given}", label, chosen) if equals else ""
        if name in placed:
            raise SettingsError(
                f"--placement {given}: {placed[name]} was named for {name or 'all'} already; name one, or "
                "write --placement STRATEGY=PLACEMENT"
            )
        placed[name] = placement.strip()
    return placed


def _options(overrides: Sequence[str], chosen: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Options by the strategy's name; the empty one has those of all."""
    options: dict[str, dict[str, str]] = {"": {}, **{name: {} for name in chosen}}
    for override in overrides:
        whole, equals, value = override.partition("=")
        label, dot, option = whole.rpartition(".")
        if not equals or not option.strip():
            raise SettingsError(f"--set {override!r} is not name=value; write --set loadBalancerX=value")
        options[_name(f"--set {override}", label, chosen) if dot else ""][option.strip()] = value.strip()
    return options


def _name(values: str, label: str, chosen: Mapping[str, str]) -> str:
    """The strategy that a setting is for; a full Java class name will do too."""
    for name in (label.strip(), label.strip().rpartition(".")[2]):
        if name in chosen:
            return name
    raise SettingsError(
        f"{values}: no strategy has the name {label.strip() or repr(label)}; those named are "
        f"{', '.join(chosen)}"
    )
