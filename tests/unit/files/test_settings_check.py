"""All faults of a section at once, each once, and what is left without them."""

from pathlib import Path

import pytest

from trimtab.balancers import balancer_named
from trimtab.balancers.settings import SECTIONS
from trimtab.balancers.systems import KAFKA
from trimtab.files.settings_check import CheckedSection, bound
from trimtab.observe.collect.settings import CollectSettings
from trimtab_common.errors import SettingsError
from trimtab_common.settings import read_unchecked


def checked(
    folder: Path, text: str, section: str, words: tuple[str, ...] = (), environ: dict[str, str] | None = None
) -> CheckedSection:
    """The section of a settings file."""
    (folder / "trimtab.toml").write_text(text, encoding="utf-8")
    settings = read_unchecked(folder / "trimtab.toml", words, environ or {}, SECTIONS)
    if section == KAFKA.name:
        return bound(settings, section, KAFKA.connection())
    return bound(settings, section, lambda one: one.bound(balancer_named(section, "test").settings()))


def test_each_fault_is_named_and_the_rest_holds(tmp_path: Path) -> None:
    """A key nobody knows, one of the wrong type, and one out of range, beside one that is sound."""
    text = "[replicas]\nthetta = 0.5\ntheta = 2\nepsilon = 'much'\nmin_utilization = 0.02\n"
    found = checked(tmp_path, text, "replicas")
    assert [one.partition(": ")[2] for one in found.faults] == [
        "replicas.thetta is not a setting; did you mean replicas.theta?",
        'replicas.epsilon is "much", expected a number; correct it there',
        "replicas.theta is 2.0, expected a fraction above 0, at most 1; correct it there",
    ]
    assert found.value.min_utilization == 0.02
    assert found.value.theta == balancer_named("replicas", "test").settings().kind().theta


def test_words_and_variables_are_to_blame_too(tmp_path: Path) -> None:
    """A fault of the command line or the environment does not hide one of the file."""
    found = checked(
        tmp_path,
        "[kafka]\nbootstrap = ['a:1']\nusr = 'x'\n",
        "kafka",
        ("kafka.timeout_seconds=soon",),
        {"TRIMTAB_KAFKA_CLIENT_IDD": "x"},
    )
    assert sorted(one.partition(": ")[2] or one for one in found.faults) == [
        "kafka.client_idd is not a setting; did you mean kafka.client_id?",
        'kafka.timeout_seconds is "soon", expected a number; correct it there',
        "kafka.usr is not a setting; did you mean kafka.user?",
    ]
    assert found.value.bootstrap == ("a:1",)


def test_what_is_missing_cannot_be_left_out(tmp_path: Path) -> None:
    """No single value is to blame: the fault is named once, after unknown keys; there is no connection."""
    found = checked(tmp_path, "[kafka]\nclient_id = 'x'\nbootstap = ['y:1']\n", "kafka")
    assert len(found.faults) == 2
    assert found.faults[0].endswith("kafka.bootstap is not a setting; did you mean kafka.bootstrap?")
    assert found.faults[1].startswith("kafka.bootstrap is missing")
    assert found.value is None


def test_two_keys_that_contradict_one_another_are_one_fault(tmp_path: Path) -> None:
    """A user and a mechanism without SASL: said once, and left out one after the other."""
    text = "[kafka]\nbootstrap = ['a:1']\nuser = 'x'\nsasl_mechanism = 'PLAIN'\n"
    found = checked(tmp_path, text, "kafka")
    assert len(found.faults) == 1
    assert found.faults[0].startswith("kafka.user or kafka.sasl_mechanism is set")


def test_sections_that_are_none_are_all_told(tmp_path: Path) -> None:
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


def test_of_two_values_that_are_named_the_one_goes_without_which_all_is_sound(tmp_path: Path) -> None:
    """A time-out longer than the interval: without the interval it would still be too long."""
    (tmp_path / "trimtab.toml").write_text("[collect]\ninterval_seconds = 20\ntimeout_seconds = 40\n")
    settings = read_unchecked(tmp_path / "trimtab.toml", (), {}, SECTIONS)
    found = bound(settings, "collect", lambda one: one.section("collect", CollectSettings))
    assert len(found.faults) == 1
    assert (found.value.interval_seconds, found.value.timeout_seconds) == (20, None)
