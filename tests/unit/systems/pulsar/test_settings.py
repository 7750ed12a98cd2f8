"""The keys of a Pulsar cluster: valid values, and errors for others."""

from pathlib import Path

import pytest

from support.settings import cluster_table
from trimtab.systems.pulsar.connection import PulsarConnection, pulsar_connection
from trimtab_common.errors import SettingsError


def pulsar_connection_from_table(table, environment=None, folder=Path()):
    """The connection of a settings file in `folder` with the table `[clusters.prod]`."""
    return pulsar_connection(cluster_table(table, environment, folder))


TLS = {"admin": "https://b:8443"}


def test_admin_option_takes_several_addresses():
    """An operator passes a comma-separated list, with or without http://, or a list in a settings file."""
    assert pulsar_connection_from_table({"admin": "http://a:1/, b:2"}).admin == ("http://a:1", "http://b:2")
    assert pulsar_connection_from_table({"admin": ["https://[::1]:2"]}).admin == ("https://[::1]:2",)


def test_token_is_read_from_the_environment_the_file_or_the_table(tmp_path: Path):
    """A token need not stand in the settings; the line end of a mounted secret is not part of it."""
    (tmp_path / "secret").write_text("abc.def\n")
    admin = {"admin": "b:1"}
    assert pulsar_connection_from_table(admin, {"TRIMTAB_PULSAR_TOKEN": "t"}).token == "t"
    assert pulsar_connection_from_table(admin | {"token_file": "secret"}, {}, tmp_path).token == "abc.def"
    assert pulsar_connection_from_table(admin | {"token": "x"}, {}).token == "x"
    assert pulsar_connection_from_table(admin, {}).token is None


def test_token_from_the_environment_overrides_the_file(tmp_path: Path):
    """As with every setting."""
    (tmp_path / "secret").write_text("old")
    table = {"admin": "http://b:1", "token_file": "secret"}
    assert pulsar_connection_from_table(table, {"TRIMTAB_PULSAR_TOKEN": "12345"}, tmp_path).token == "12345"


def test_token_is_not_printed():
    """A connection that gets into a log does not give the token away."""
    assert "hush" not in repr(PulsarConnection(("http://b:1",), token="hush"))


def test_relative_files_count_from_the_settings_file(tmp_path: Path):
    """A settings file and its certificates can be moved together."""
    (tmp_path / "ca.pem").write_text("")
    found = pulsar_connection_from_table(
        TLS | {"tls_ca": "ca.pem", "tls_verify_hostname": False}, {}, tmp_path
    )
    assert (found.tls_ca, found.tls_verify_hostname, found.uses_tls) == (tmp_path / "ca.pem", False, True)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"admin": []}, "no broker is named"),
        ({"admin": 8080}, "clusters.prod.admin is 8080"),
        ({"admin": "ftp://b:1"}, "'ftp://b:1': write it like http://broker1:8080"),
        ({"admin": "http://b:99999"}, "write it like"),
        ({"admin": "http://b:1/admin"}, "write it like"),
        ({"admin": "http://u:hush@b:1"}, "an address with a password in it"),
        ({"admin": "http://a:1,https://b:2"}, "mixes http and https"),
        ({"admin": "b:1", "service_url": "http://b:6650"}, "service_url holds 'http://b:6650'"),
        ({"admin": "b:1", "admn": "x"}, "did you mean clusters.prod.admin"),
        ({"admin": "b:1", "token": 5}, "a secret of the wrong type"),
        ({"admin": "b:1", "token": ""}, "the token for Pulsar is empty"),
        ({"admin": "b:1", "token": "Bearer x"}, "give the bare token"),
        ({"admin": "b:1", "token_file": "gone"}, "there is no such file"),
        ({"admin": "b:1", "tls_ca": __file__}, "the address is plain http"),
        (TLS | {"tls_key": __file__}, "go together"),
        (TLS | {"tls_verify_hostname": "yes"}, 'is "yes", expected true or false'),
        ({"admin": "b:1", "timeout_seconds": 0}, "timeout_seconds is 0.0"),
        (
            {"admin": "b:1", "change_timeout_seconds": "soon"},
            'change_timeout_seconds is "soon", expected a number',
        ),
    ],
)
def test_invalid_settings_give_one_sentence(table: dict[str, object], said: str):
    """Every error names the setting and the remedy, and contains no secret."""
    with pytest.raises(SettingsError) as caught:
        pulsar_connection_from_table(table, {})
    assert said in str(caught.value)
    assert "hush" not in str(caught.value)


def test_one_token_is_enough(tmp_path: Path):
    """Two that differ would be a riddle."""
    (tmp_path / "secret").write_text("a")
    with pytest.raises(SettingsError, match=r"both set: keep one"):
        pulsar_connection_from_table({"admin": "b:1", "token": "b", "token_file": "secret"}, {}, tmp_path)
