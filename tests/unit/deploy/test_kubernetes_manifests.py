"""The manifests of Kubernetes: kubectl puts them together, and the published schemas judge them.

Nothing here was applied to an API server. Custom resources (KafkaUser, ServiceMonitor) have no schema here.
"""

import copy
import functools
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from trimtab.balancers.clusters import clusters_of
from trimtab.balancers.settings import read_settings
from trimtab.files.serve_settings import SECTION

FOLDER = Path(__file__).parents[3] / "deploy" / "kubernetes"
PAGES = Path(__file__).parents[3] / "docs" / "how-to"
VARIANTS = ("base", "prometheus", "strimzi")
VERSIONS = ("1.33", "1.35", "1.37")
CUSTOM = ("KafkaUser", "ServiceMonitor")
NAME = {"app.kubernetes.io/name": "trimtab"}

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not here")


@functools.cache
def _built(variant: str) -> str:
    command = ["kubectl", "kustomize", str(FOLDER / variant)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def _documents(variant: str) -> dict[str, Any]:
    """Documents of a variant by kind; each kind is there once."""
    found = list(yaml.safe_load_all(_built(variant)))
    by_kind = {one["kind"]: one for one in found}
    assert len(by_kind) == len(found)
    return by_kind


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_schemas_accept_all_documents(variant: str, version: str) -> None:
    """Of three versions of Kubernetes, strictly: an unknown field is a fault."""
    documents = [one for kind, one in _documents(variant).items() if kind not in CUSTOM]
    assert len(documents) == 7
    for one in documents:
        kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.parametrize(
    ("at", "value"), [(("replicas",), "one"), (("strategy", "typ"), "Recreate"), (("template", "spec"), {})]
)
def test_the_schemas_name_a_planted_fault(at: tuple[str, ...], value: object) -> None:
    """A wrong type, an unknown field and a missing one."""
    broken = copy.deepcopy(_documents("base")["Deployment"])
    place = broken["spec"]
    for name in at[:-1]:
        place = place[name]
    place[at[-1]] = value
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_container_is_closed(variant: str) -> None:
    """No root, no writable root, no capabilities, no token, a limit of memory."""
    spec = _documents(variant)["Deployment"]["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["automountServiceAccountToken"] is False
    assert [one["name"] for one in spec["containers"]] == ["serve", "collect", "pipeline"]
    for one in spec["containers"]:
        context = one["securityContext"]
        assert context["readOnlyRootFilesystem"]
        assert not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert one["resources"]["limits"]["memory"]
        mounted = {mount["name"] for mount in one["volumeMounts"]}
        assert mounted == {volume["name"] for volume in spec["volumes"]}


@pytest.mark.parametrize("variant", VARIANTS)
def test_selectors_select_the_pod_alone(variant: str) -> None:
    """An empty selector would be about every pod of the namespace."""
    documents = _documents(variant)
    labels = documents["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert labels == NAME
    selectors = {
        "Deployment": documents["Deployment"]["spec"]["selector"]["matchLabels"],
        "Service": documents["Service"]["spec"]["selector"],
        "PodDisruptionBudget": documents["PodDisruptionBudget"]["spec"]["selector"].get("matchLabels"),
        "NetworkPolicy": documents["NetworkPolicy"]["spec"]["podSelector"].get("matchLabels"),
    }
    assert set(map(str, selectors.values())) == {str(NAME)}
    assert documents["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_settings_are_those_of_trimtab(tmp_path: Path, variant: str) -> None:
    """The settings are valid; the service listens where probes and Service look; files are mounted."""
    documents = _documents(variant)
    content = documents["ConfigMap"]["data"]["trimtab.toml"]
    (tmp_path / "trimtab.toml").write_text(content)
    settings = read_settings(tmp_path / "trimtab.toml", (), {})
    serve = settings.bound(SECTION)
    (cluster,) = clusters_of(settings)
    spec = documents["Deployment"]["spec"]["template"]["spec"]
    container = spec["containers"][0]
    assert serve.listen == f"0.0.0.0:{container['ports'][0]['containerPort']}"
    assert serve.observe == "watch"
    assert cluster in ("main", "my-cluster")
    for probe, path in {
        "livenessProbe": "/livez",
        "startupProbe": "/livez",
        "readinessProbe": "/readyz",
    }.items():
        assert container[probe]["httpGet"] == {"path": path, "port": "http"}
    sources = next(one for one in spec["volumes"] if one["name"] == "settings")["projected"]["sources"]
    mounted = {item["path"] for one in sources for item in one.get("secret", {}).get("items", ())}
    table = tomllib.loads(content)
    named = [
        serve.token_file,
        *(v for k, v in table["clusters"][cluster].items() if k in ("password_file", "tls_ca")),
    ]
    assert {name.removeprefix("/etc/trimtab/") for name in named} == mounted
    assert sources[0]["configMap"]["name"] == documents["ConfigMap"]["metadata"]["name"]


def test_the_user_has_the_rights_of_the_pages() -> None:
    """The rules of the KafkaUser are what the pages on collecting and applying ask for."""
    rules = _documents("strimzi")["KafkaUser"]["spec"]["authorization"]["acls"]
    rights = {rule["resource"]["type"]: set(rule["operations"]) for rule in rules}
    page = (PAGES / "apply.md").read_text(encoding="utf-8")
    for kind, name in {"cluster": "cluster", "topics": "topic"}.items():
        found = re.search(rf"^\| {kind} \| (.*) \|$", page, re.MULTILINE)
        assert found is not None
        assert rights[name] == set(re.findall(r"`(\w+)`", found[1]))
    assert rights["group"] == {"Describe"}


def test_the_monitor_finds_the_service() -> None:
    """Label and port of the ServiceMonitor are those of the Service."""
    documents = _documents("prometheus")
    monitor, service = documents["ServiceMonitor"]["spec"], documents["Service"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert [one["port"] for one in monitor["endpoints"]] == [one["name"] for one in service["spec"]["ports"]]
