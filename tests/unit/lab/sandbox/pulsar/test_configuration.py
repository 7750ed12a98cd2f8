"""The configuration files of a Pulsar sandbox."""

import re

import pytest

from trimtab.lab.sandbox.pulsar import PulsarSandbox
from trimtab.lab.sandbox.pulsar.runtime import (
    bookie_configuration,
    broker_configuration,
    metadata_store_configuration,
    setup_arguments,
)
from trimtab.lab.sandbox.pulsar.state import (
    PulsarNode,
    PulsarSandboxState,
    declare_nodes,
    metadata_port,
    with_control_groups,
)
from trimtab.lab.sandbox.state import read_state
from trimtab.model.errors import SandboxError

BROKER = PulsarNode(1, "broker", 6650, 8080)


def _properties(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def _declared(folder, **changed) -> PulsarSandboxState:
    arguments = {
        "first_port": None,
        "has_bed": True,
        "version": "4.2.4",
        "load_manager": "modular",
        "secured": False,
    }
    return declare_nodes(2, folder, **arguments | changed)


def test_everything_listens_on_the_loopback_interface(tmp_path):
    """A sandbox is not reachable from outside the machine."""
    broker = _properties(broker_configuration(BROKER, 2181, "modular", {}, {}))
    assert (broker["bindAddress"], broker["advertisedAddress"]) == ("127.0.0.1", "127.0.0.1")
    assert (broker["brokerServicePort"], broker["webServicePort"]) == ("6650", "8080")
    assert broker["metadataStoreUrl"] == "zk:127.0.0.1:2181"
    bookie = _properties(bookie_configuration(tmp_path, 3181, 2181, "lo"))
    assert (bookie["listeningInterface"], bookie["advertisedAddress"]) == ("lo", "127.0.0.1")
    store = _properties(metadata_store_configuration(tmp_path, 2181))
    assert (store["clientPortAddress"], store["admin.enableServer"]) == ("127.0.0.1", "false")


@pytest.mark.parametrize(
    ("load_manager", "name"),
    [("modular", "ModularLoadManagerImpl"), ("extensible", "ExtensibleLoadManagerImpl")],
)
def test_brokers_run_under_the_requested_load_manager(load_manager, name):
    """Both of Pulsar's are offered, each with a shedder of its own kind."""
    broker = _properties(broker_configuration(BROKER, 2181, load_manager, {}, {}))
    assert broker["loadManagerClassName"].endswith(f".{name}")
    shedder = broker.get("loadBalancerLoadSheddingStrategy", "")
    assert shedder.endswith("TransferShedder") == (load_manager == "extensible")


def test_settings_of_the_user_win():
    """An experiment can set any of Pulsar's own names."""
    overrides = {"loadBalancerReportUpdateMaxIntervalMinutes": "7", "webServicePort": "9"}
    broker = _properties(broker_configuration(BROKER, 2181, "modular", {}, overrides))
    assert (broker["loadBalancerReportUpdateMaxIntervalMinutes"], broker["webServicePort"]) == ("7", "9")


def test_the_cluster_is_set_up_with_the_first_brokers_addresses():
    """What Pulsar writes of the cluster names a broker that will be there."""
    arguments = setup_arguments(2181, BROKER, secured=False)
    assert arguments[arguments.index("--broker-service-url") + 1] == "pulsar://127.0.0.1:6650"
    assert arguments[arguments.index("--metadata-store") + 1] == "zk:127.0.0.1:2181"


def test_with_a_compiler_metadata_store_and_bookie_share_a_process(tmp_path):
    """Without one they run apart, in the order in which they need each other."""
    assert [node.role for node in _declared(tmp_path).nodes] == ["bed", "broker", "broker"]
    apart = _declared(tmp_path, has_bed=False)
    assert [node.role for node in apart.nodes] == ["metadata-store", "bookie", "broker", "broker"]
    assert metadata_port(apart) == apart.nodes[0].port


def test_brokers_go_by_the_names_that_pulsar_gives_them(tmp_path):
    """A broker's id is the address of its admin API; fixed ports come in pairs."""
    state = _declared(tmp_path, first_port=31_990)
    assert state.web_urls == {
        "127.0.0.1:31990": "http://127.0.0.1:31990",
        "127.0.0.1:31992": "http://127.0.0.1:31992",
    }
    assert state.service_url == "pulsar://127.0.0.1:31991,127.0.0.1:31993"


def test_a_state_is_read_back_as_it_was_written(tmp_path):
    """What `up` saw is what `down` acts on."""
    state = _declared(tmp_path)
    state.write()
    assert read_state(tmp_path, PulsarSandboxState) == state


def test_without_permission_for_control_groups_the_sandbox_gives_the_reason(tmp_path, monkeypatch):
    """It starts all the same; every broker then reports the CPU of the whole machine."""

    def refuse(name: str, cpus: float) -> None:
        raise SandboxError("not permitted here")

    monkeypatch.setattr("trimtab.lab.sandbox.pulsar.state.make_control_group", refuse)
    state = with_control_groups(_declared(tmp_path), 0.5)
    assert state.without_control_groups == "not permitted here"
    assert state.control_groups == ()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"brokers": 0}, "0 brokers cannot be started: choose 1 to 30"),
        ({"load_manager": "simple"}, "there is no load manager simple: choose modular or extensible"),
        ({"version": "2.11.0"}, "Pulsar 2.11.0 cannot be started"),
        ({"cpus_per_broker": 0.0}, "0 processors for each broker are too few"),
    ],
)
def test_impossible_arguments_are_rejected_before_any_start(tmp_path, monkeypatch, arguments, said):
    """One sentence, and no folder left."""
    monkeypatch.setenv("TRIMTAB_STATE", str(tmp_path))
    with pytest.raises(SandboxError, match=re.escape(said)):
        PulsarSandbox.start(**arguments)
    assert not list(tmp_path.glob("sandbox/*/"))
