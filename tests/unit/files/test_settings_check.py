"""All faults of a section at once, each once, and what is left without them."""

from pathlib import Path

import pytest

from trimtab.balancers import balancer_named
from trimtab.balancers.clusters import cluster_named
from trimtab.balancers.settings import SECTIONS
from trimtab.files.checks import CheckedSection, bound
from trimtab.observe.collect.settings import CollectSettings
from trimtab_common.errors import SettingsError
from trimtab_common.settings import CLUSTERS, read_unchecked


def checked(
    folder: Path, text: str, section: str, words: tuple[str, ...] = (), environ: dict[str, str] | None = None
) -> CheckedSection:
    """The section of a settings file."""
    (folder / "trimtab.toml").write_text(text, encoding="utf-8")
    settings = read_unchecked(folder / "trimtab.toml", words, environ or {}, SECTIONS)
    if section == "collect":
        return bound(settings, section, lambda one: one.section("collect", CollectSettings))
    return bound(settings, section, lambda one: one.bound(balancer_named(section, "test").settings()))


def test_each_fault_is_named_and_the_rest_holds(tmp_path: Path) -> None:
    """An unknown key, one of the wrong type, and one out of range, next to a valid one."""
    text = "[replicas]\nthetta = 0.5\ntheta = 2\nepsilon = 'much'\nmin_utilization = 0.02\n"
    found = checked(tmp_path, text, "replicas")
    assert [one.partition(": ")[2] for one in found.faults] == [
        "replicas.thetta is not a setting; did you mean replicas.theta?",
        "replicas.theta is 2, expected a number, above 0, at most 1; correct it there",
        'replicas.epsilon is "much", expected a number; correct it there',
    ]
    assert found.value.min_utilization == 0.02
    assert found.value.theta == balancer_named("replicas", "test").settings().kind().theta


def test_options_and_variables_are_checked_too(tmp_path: Path) -> None:
    """A fault of the command line or the environment does not hide one of the file."""
    found = checked(
        tmp_path,
        "[collect]\ninterval_seconds = 20\ntimout_seconds = 3\n",
        "collect",
        ("collect.timeout_seconds=soon",),
        {"TRIMTAB_COLLECT_INTERVALL_SECONDS": "3"},
    )
    assert len(found.faults) == 3
    assert {"did you mean" in one for one in found.faults} == {True, False}


def clusters_checked(tmp_path: Path, text: str) -> CheckedSection:
    """The cluster `a` of a settings file, made after every fault is left out."""
    (tmp_path / "trimtab.toml").write_text(text, encoding="utf-8")
    settings = read_unchecked(tmp_path / "trimtab.toml", [], {}, SECTIONS)
    return bound(settings, CLUSTERS, lambda one: cluster_named(one, "a").connection())


def test_a_missing_value_is_reported_once(tmp_path: Path) -> None:
    """No single value is to blame: the fault is named once, and there is no connection."""
    found = clusters_checked(tmp_path, "[clusters.a]\nclient_id = 'x'\n")
    assert found.faults[0].startswith("clusters.a.address is missing: write it like kafka://")
    assert found.value is None


def test_keys_of_a_cluster_that_are_none_are_named(tmp_path: Path) -> None:
    """A slip is left out, and the connection is made of the rest."""
    found = clusters_checked(tmp_path, "[clusters.a]\naddress = 'kafka://a:1'\nusr = 'x'\n")
    assert [one.partition(": ")[2] for one in found.faults] == [
        "clusters.a.usr is not a setting; did you mean clusters.a.user?"
    ]
    assert found.value.bootstrap == ("a:1",)


def test_two_keys_that_contradict_one_another_are_one_fault(tmp_path: Path) -> None:
    """A user and a mechanism without SASL: reported once, and left out one after the other."""
    text = "[clusters.a]\naddress = 'kafka://a:1'\nuser = 'x'\nsasl_mechanism = 'PLAIN'\n"
    found = clusters_checked(tmp_path, text)
    assert len(found.faults) == 1
    assert found.faults[0].startswith("clusters.a: user or sasl_mechanism is set")
    assert (found.value.bootstrap, found.value.user) == (("a:1",), None)


def test_all_unknown_sections_are_reported(tmp_path: Path) -> None:
    """Where a command stops at the first."""
    (tmp_path / "trimtab.toml").write_text("[replcas]\ntheta = 1\n[nothing]\n", encoding="utf-8")
    told: list[str] = []
    read_unchecked(tmp_path / "trimtab.toml", ["x.y=1"], {}, SECTIONS, lambda fault: told.append(str(fault)))
    assert [one.partition("section ")[2].partition(";")[0] for one in told] == [
        "[replcas]",
        "[nothing]",
        "[x]",
    ]
    with pytest.raises(SettingsError, match=r"no section \[replcas\]; did you mean replicas"):
        read_unchecked(tmp_path / "trimtab.toml", [], {}, SECTIONS)


def test_of_two_named_values_the_decisive_one_is_dropped(tmp_path: Path) -> None:
    """A time-out longer than the interval: without the interval it would still be too long."""
    (tmp_path / "trimtab.toml").write_text("[collect]\ninterval_seconds = 20\ntimeout_seconds = 40\n")
    settings = read_unchecked(tmp_path / "trimtab.toml", (), {}, SECTIONS)
    found = bound(settings, "collect", lambda one: one.section("collect", CollectSettings))
    assert len(found.faults) == 1
    assert (found.value.interval_seconds, found.value.timeout_seconds) == (20, None)
