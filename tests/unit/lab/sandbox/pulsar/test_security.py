"""Tokens of a secured Pulsar sandbox, and what its brokers and clients are told."""

import base64
import hashlib
import hmac
import json

import pytest

from trimtab.lab.sandbox.pulsar.runtime import broker_configuration, setup_arguments
from trimtab.lab.sandbox.pulsar.state import (
    PulsarSandboxState,
    declare_nodes,
    new_security,
    security_settings,
)
from trimtab.lab.sandbox.state import read_state


@pytest.fixture
def state(tmp_path) -> PulsarSandboxState:
    """A secured sandbox of two brokers."""
    return declare_nodes(
        2,
        tmp_path,
        first_port=None,
        has_bed=True,
        version="4.2.4",
        load_manager="modular",
        secured=True,
    )


def _read(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_a_token_names_its_role_and_is_signed_with_the_sandboxs_key():
    """As the brokers check it: HMAC-SHA256 over head and claims."""
    security = new_security()
    head, claims, signature = security.token("nobody").split(".")
    assert json.loads(_read(head)) == {"alg": "HS256"}
    assert json.loads(_read(claims)) == {"sub": "nobody"}
    expected = hmac.new(base64.b64decode(security.key), f"{head}.{claims}".encode(), hashlib.sha256)
    assert _read(signature) == expected.digest()
    assert new_security().token("nobody") != security.token("nobody")


def test_a_secured_broker_has_no_plain_listener(state):
    """With TLS the plain ports are closed; one role may do everything."""
    assert state.security is not None
    node = state.brokers[0]
    text = broker_configuration(node, 2181, "modular", security_settings(state.security, state.folder), {})
    broker = dict(line.split("=", 1) for line in text.splitlines())
    assert (broker["webServicePort"], broker["brokerServicePort"]) == ("", "")
    assert (broker["webServicePortTls"], broker["brokerServicePortTls"]) == (
        str(node.web_port),
        str(node.port),
    )
    assert (broker["authenticationEnabled"], broker["superUserRoles"]) == ("true", "trimtab")
    assert broker["tokenSecretKey"] == f"data:;base64,{state.security.key}"


def test_clients_receive_token_and_certificate(state):
    """The connection alone is enough to get in, by both ways."""
    connection = state.connection
    assert all(url.startswith("https://127.0.0.1:") for url in connection.admin)
    assert connection.service_url is not None
    assert connection.service_url.startswith("pulsar+ssl://127.0.0.1:")
    assert connection.tls_ca == state.folder / "ca.pem"
    assert connection.token is not None
    assert connection.token not in repr(connection) + repr(state)


def test_keys_survive_the_state_file(state):
    """Another command of the same user can connect, and no other user can read the file."""
    state.write()
    assert read_state(state.folder, PulsarSandboxState) == state
    assert (state.folder / "sandbox.json").stat().st_mode & 0o077 == 0


def test_the_cluster_advertises_its_encrypted_addresses(state):
    """What Pulsar's set-up writes names the ports with TLS."""
    arguments = setup_arguments(2181, state.brokers[0], secured=True)
    assert f"pulsar+ssl://127.0.0.1:{state.brokers[0].port}" in arguments
    assert "--broker-service-url" not in arguments
