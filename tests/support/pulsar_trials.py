"""A real Pulsar cluster on which trimtab is run as a process of its own, and put to the test."""

import subprocess
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from support.trials import TrimtabProcesses
from trimtab.act.bundles.port import SWITCHES
from trimtab.files.bundles.plan import write_bundle_plan
from trimtab.lab.sandbox.pulsar import PulsarSandbox
from trimtab.lab.sandbox.pulsar.namespaces import (
    create_namespace,
    create_tenant,
    create_topic,
    delete_namespace,
)
from trimtab.model.bundles.plan import BundlePlan
from trimtab.model.bundles.snapshot import bundles_between, parse_bundle
from trimtab.model.documents import SnapshotReference
from trimtab.model.errors import SandboxError
from trimtab.systems.pulsar.admin import PulsarAdmin
from trimtab.systems.pulsar.connection import TOKEN_VARIABLE
from trimtab.systems.pulsar.port import PulsarAdminPort, probe_topic

TENANT, NAMESPACE = "trimtab", "trimtab/act"
STARTS = 3


def bring_back(sandbox: PulsarSandbox, broker: str) -> None:
    """Start a killed broker again, and wait until the cluster serves.

    A Pulsar broker that is started soon after kill -9 may end by an uncaught exception of its load manager.
    This was seen once in a full run; the cause is not known. It is started again, as a supervisor does.
    """
    for left in reversed(range(STARTS)):
        sandbox.restart(broker)
        try:
            sandbox.wait_until_serving()
            return
        except SandboxError:
            if left == 0 or sandbox.is_running(broker):
                raise


IMPATIENT = {
    "poll_interval_seconds": "0.2",
    "check_interval_seconds": "0.5",
    "metadata_lag_seconds": "2",
    "broker_timeout_seconds": "6",
    "bundles.batch_pause_seconds": "0.1",
    "bundles.assign_after_seconds": "0.5",
}
"""Settings of all runs: real time is dear."""


@dataclass
class PulsarTrial(TrimtabProcesses):
    """One cluster, one namespace of four bundles, one state folder."""

    impatient = IMPATIENT

    sandbox: PulsarSandbox
    folder: Path
    admin: PulsarAdmin
    namespace: str = NAMESPACE
    processes: "list[subprocess.Popen[str]]" = field(default_factory=list)

    @property
    def brokers(self) -> tuple[str, ...]:
        """The leader, and the others."""
        leader = self.admin.leader()
        return leader, *sorted(set(self.admin.brokers()) - {leader})

    def create(self, topics: int = 24) -> None:
        """The namespace anew, with some topics."""
        if TENANT not in self.admin.tenants():
            create_tenant(self.admin, TENANT)
        delete_namespace(self.admin, self.namespace)
        create_namespace(self.admin, self.namespace, 4)
        self.add_topics(topics)

    def add_topics(self, number: int) -> None:
        """Make so many topics."""
        for one in range(number):
            create_topic(self.admin, f"persistent://{self.namespace}/t{one}")

    @property
    def keys(self) -> list[str]:
        """The bundles, rising."""
        return [one.key for one in bundles_between(self.namespace, self.admin.boundaries(self.namespace))]

    def owner(self, bundle: str) -> str | None:
        """Who says that it owns a bundle; asking assigns nothing."""
        for broker in self.admin.brokers():
            if bundle in self.admin.owned_bundles(broker):
                return broker
        return None

    def place(self, bundle: str, broker: str) -> None:
        """Make a broker own a bundle."""
        topic = probe_topic(parse_bundle(bundle))

        def there() -> bool:
            if self.admin.topic_owner(topic) != broker:
                self.admin.unload(bundle, broker)
            return self.owner(bundle) == broker

        self.wait(f"{bundle} with {broker}", there)

    def assert_given_back(self) -> None:
        """No switch is set, every broker balances by itself again, and nobody claims the cluster."""
        assert set(self.admin.configuration_overrides()) & set(SWITCHES) == set()
        for broker in self.admin.brokers():
            self.wait(
                f"{broker} balancing",
                lambda broker=broker: all(  # type: ignore[misc]
                    self.admin.runtime_configuration(broker)[switch] == "true" for switch in SWITCHES
                ),
            )
        assert PulsarAdminPort(self.admin, time.time).read_claims() == frozenset()

    def write(self, name: str, plan: BundlePlan) -> str:
        """A plan as a file, made just now."""
        path = self.folder / f"{name}.json"
        taken_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        reference = SnapshotReference(self.admin.cluster(), taken_at, "0" * 64)
        write_bundle_plan(replace(plan, snapshot=reference), path)
        return str(path)

    def cluster_words(self) -> list[str]:
        """The arguments that name the cluster, and its certificate."""
        known, address = self.sandbox.connection, "pulsar+" + ",".join(self.sandbox.web_urls.values())
        words = ["--cluster", "sandbox", "--set", f"clusters.sandbox.address={address}"]
        trust = ["--set", f"clusters.sandbox.tls_ca={known.tls_ca}"]
        return [*words, *trust] if known.tls_ca is not None else words

    def environment(self) -> dict[str, str]:
        """Variables for its commands: the token, if the cluster requires one."""
        token = self.sandbox.connection.token
        return {} if token is None else {TOKEN_VARIABLE: token}

    def end_all(self) -> None:
        """End what still runs, and leave the cluster as it was found."""
        self.end()
        delete_namespace(self.admin, self.namespace)

    def end(self) -> None:
        """End what still runs, and take no switch along into the next test."""
        self.kill_processes()
        for switch in set(self.admin.configuration_overrides()) & set(SWITCHES):
            self.admin.delete_configuration(switch)
