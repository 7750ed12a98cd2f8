"""The `[execution]` table of trimtab.toml, whatever level is carried out."""

from dataclasses import asdict, dataclass, field, fields

from trimtab.act.bundles.settings import BundlesSettings, UnloadPace
from trimtab.act.execution.settings import Patience
from trimtab.act.replicas.settings import ExecutionSettings


@dataclass(frozen=True)
class ExecutionTable(ExecutionSettings):
    """Limits, patience and pace of an execution; every key has a default that suits a busy cluster.

    The keys about copies and throttles are for the level `replicas`; `[execution.bundles]` is for `bundles`.
    """

    bundles: UnloadPace = field(default_factory=UnloadPace)

    @property
    def for_replicas(self) -> ExecutionSettings:
        """What an execution of replicas goes by."""
        return ExecutionSettings(
            **{field.name: getattr(self, field.name) for field in fields(ExecutionSettings)}
        )

    @property
    def for_bundles(self) -> BundlesSettings:
        """What an execution of bundles goes by."""
        shared = {field.name: getattr(self, field.name) for field in fields(Patience)}
        return BundlesSettings(**shared, pace=UnloadPace(**asdict(self.bundles)))
