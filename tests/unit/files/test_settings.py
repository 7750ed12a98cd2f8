"""Settings: who wins, and which forms a value may take."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from trimtab.balancers.balancer import setting_overrides
from trimtab.balancers.clusters import clusters_of
from trimtab.balancers.replicas import PLAN_OPTIONS
from trimtab.balancers.settings import read_settings
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab_common.errors import SettingsError
from trimtab_common.settings import RejectCallback, Section, Sections, SettingValue, load_settings


@dataclass(frozen=True)
class Inner:
    """A table within a section."""

    depth: int = 1


@dataclass(frozen=True)
class OwnSection:
    """One field of each kind."""

    name: str = "x"
    share: float = 0.5
    on: bool = False
    names: tuple[str, ...] = ()
    limit: int | None = None
    folder: Path = Path("here")
    table: dict[str, float] | None = None
    inner: Inner = Inner()

    def __post_init__(self) -> None:
        """Refuse a share above one."""
        if self.share > 1:
            raise SettingsError(f"collect.share is {self.share}, expected at most 1; lower it")


OWN: Sections = {"collect": None, "capacity": None}


def written(tmp_path: Path, text: str) -> Path:
    """A settings file."""
    path = tmp_path / "trimtab.toml"
    path.write_text(text)
    return path


def test_nothing_set_gives_the_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without file, environment and overrides, everything is as documented."""
    monkeypatch.chdir(tmp_path)
    assert read_settings(None, [], {}).balancers["replicas"] == ReplicasSettings()


def test_the_later_one_wins(tmp_path: Path) -> None:
    """Defaults yield to the file, the file to the environment, the environment to --set."""
    path = written(tmp_path, "[replicas]\nseed = 1\nmax_moves = 1\ntheta = 0.7\nmax_bytes = 1\n")
    environ = {"TRIMTAB_REPLICAS_MAX_MOVES": "2", "TRIMTAB_REPLICAS_THETA": "0.6", "TRIMTAB_LAKE": "/lake"}
    found = read_settings(path, ["replicas.theta=0.5", "replicas.theta=0.4"], environ).balancers["replicas"]
    assert (found.seed, found.max_bytes, found.max_moves) == (1, 1, 2)
    assert found.theta == (0.4, 0.4, 0.4, 0.4)
    assert found.epsilon == ReplicasSettings().epsilon


def test_limits_per_resource(tmp_path: Path) -> None:
    """One number holds for all resources; a table, or a dotted key, sets some apart."""
    path = written(tmp_path, "[replicas]\ntheta = 0.7\n[replicas.epsilon]\ncpu = 0.2\n")
    environ = {"TRIMTAB_REPLICAS_EPSILON_DISK": "0.3"}
    found = read_settings(path, ["replicas.theta.network_out=0.9"], environ).balancers["replicas"]
    assert found.theta == (0.7, 0.7, 0.7, 0.9)
    assert found.epsilon == (0.2, 0.3, 0.1, 0.1)
    assert read_settings(path, ["replicas.theta={disk = 0.5}"], {}).balancers["replicas"].theta == (
        0.8,
        0.5,
        0.8,
        0.8,
    )


def test_lists_and_nested_tables(tmp_path: Path) -> None:
    """A list may be TOML or parted by commas; a nested key is reached by dots, in the environment by _."""
    path = written(
        tmp_path, '[replicas]\nexcluded_topics = ["a", "b*"]\n[replicas.role_aware]\nliteral = true\n'
    )
    assert read_settings(path, [], {}).balancers["replicas"].excluded_topics == ("a", "b*")
    found = read_settings(
        path,
        ["replicas.excluded_topics=c,d", "replicas.excluded_brokers_for_leaders=[3, 4]"],
        {
            "TRIMTAB_REPLICAS_ROLE_AWARE_LITERAL": "false",
            "TRIMTAB_REPLICAS_EXCLUDED_BROKERS_FOR_REPLICAS": "7",
        },
    ).balancers["replicas"]
    assert found.excluded_topics == ("c", "d")
    assert found.excluded_brokers_for_leaders == (3, 4)
    assert found.excluded_brokers_for_replicas == (7,)
    assert found.role_aware.literal is False


def test_the_settings_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--settings, else TRIMTAB_SETTINGS, else trimtab.toml in the working folder."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "[replicas]\nseed = 1\n")
    (tmp_path / "other.toml").write_text("[replicas]\nseed = 2\n")
    environ = {"TRIMTAB_SETTINGS": str(tmp_path / "other.toml")}
    assert read_settings(None, [], {}).balancers["replicas"].seed == 1
    assert read_settings(None, [], environ).balancers["replicas"].seed == 2
    assert read_settings(Path("trimtab.toml"), [], environ).balancers["replicas"].seed == 1
    with pytest.raises(SettingsError.__mro__[1], match="no such file"):
        read_settings(Path("nothing.toml"), [], {})


def test_another_room_binds_its_own_section(tmp_path: Path) -> None:
    """A section becomes the dataclass of its package; options take the type of their field."""
    path = written(tmp_path, '[collect]\nname = "5"\nfolder = "data"\n[collect.table]\na = 1\n')
    overrides = ["collect.name=7", "collect.limit=3", "collect.names=a", "collect.inner.depth=2"]
    environ = {"TRIMTAB_COLLECT_SHARE": "1", "TRIMTAB_COLLECT_ON": "true"}
    settings = load_settings(path, overrides, environ, OWN)
    found = settings.section("collect", OwnSection)
    assert found == OwnSection(
        name="7",
        share=1.0,
        on=True,
        names=("a",),
        limit=3,
        folder=tmp_path / "data",
        table={"a": 1.0},
        inner=Inner(2),
    )
    assert settings.section("capacity", OwnSection) == OwnSection()


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("collect.shar=1", "did you mean collect.share"),
        ("collect.share=2", "at most 1"),
        ("collect.share=nan", "finite"),
        ("collect.on=maybe", '"maybe", expected true or false'),
        ("collect.limit=1.5", "expected a whole number or null"),
        ("collect.inner=1", r"write \[collect.inner\]"),
        ("collect.inner.width=1", "collect.inner.width is not a setting"),
        ("collect.name.first=1", "collect.name"),
    ],
)
def test_a_slip_in_a_section_is_named(override: str, told: str, tmp_path: Path) -> None:
    """The package's own section is as strict as ours, whether the package or the loader binds it."""
    settings = load_settings(written(tmp_path, ""), [override], {}, OWN)
    with pytest.raises(SettingsError, match=told):
        settings.section("collect", OwnSection)
    with pytest.raises(SettingsError, match=told):
        load_settings(
            written(tmp_path, ""), [override], {}, {"collect": lambda: Section("collect", OwnSection)}
        )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[clusters.a]\nadress = 'kafka://a:1'", "clusters.a.address is missing"),
        ("[clusters.a]\naddress = 'a:1'", "clusters.a.address is 'a:1': write it like kafka://"),
        ("[clusters.a]\naddress = 'kafka://a:1'\nusr = 'x'", "did you mean clusters.a.user?"),
        ("[clusters.a]\naddress = 'kafka://a:1'\nbootstrap = 'x'", "write clusters.a.address"),
        (
            "[clusters.a]\naddress = 'redis://a:1'\npasword_file = 'p'",
            "did you mean clusters.a.password_file?",
        ),
        (
            "[clusters.a]\naddress = 'kafka://a:1'\ntimeout_seconds = 'soon'",
            'clusters.a.timeout_seconds is "soon", expected a number',
        ),
        ("[clusters]\na = 1", "clusters.a is a value, expected a table; write [clusters.a]"),
        ("[clusters.'a b']\naddress = 'kafka://a:1'", "'a b' is not a name"),
        ("[kafka]\nbootstrap = ['a:1']", "there is no section [kafka]"),
        ("[collect]\nintervall_seconds = 30", "did you mean collect.interval_seconds?"),
        ("[capacity]\ncpu_core = 8", "did you mean capacity.cpu_cores?"),
        ("[capacity.brokers.1]\ncpu_core = 8", "did you mean capacity.brokers.1.cpu_cores?"),
        ("[lake]\nraw_day = 1", "lake.raw_day is not a setting"),
        ("[pipeline]\nwindow_second = 60", "did you mean pipeline.window_seconds?"),
        (
            "[pipeline]\nwindow_seconds = 0",
            "pipeline.window_seconds is 0, expected a number, 0.001 or more, at most 31622400",
        ),
        ("[spark]\nmemry = '1g'", "did you mean spark.memory?"),
        ("[execution]\nthrotle = 3", "did you mean execution.throttle?"),
        ("[execution]\npoll_interval_seconds = 0", "must be above 0"),
        ("[keys]\nepsilom = 0.1", "did you mean keys.epsilon?"),
        (
            "[keys]\nmin_placed_share = 1.5",
            "keys.min_placed_share is 1.5, expected a number, 0 or more, at most 1",
        ),
    ],
)
def test_an_error_in_any_section_is_named_by_every_command(text: str, told: str, tmp_path: Path) -> None:
    """A verb that needs a section for nothing refuses its faults, too."""
    with pytest.raises(SettingsError, match=re.escape(told)):
        read_settings(written(tmp_path, text), [], {})


def test_slips_of_the_command_line_and_the_environment_are_named_in_any_section() -> None:
    """`--set` and variables are checked as the file is."""
    with pytest.raises(SettingsError, match=r"--set execution.throtle=3: .* did you mean execution.throttle"):
        read_settings(None, ["execution.throtle=3"], {})
    with pytest.raises(SettingsError, match="did you mean TRIMTAB_COLLECT_INTERVAL_SECONDS"):
        read_settings(None, [], {"TRIMTAB_COLLECT_INTERVALL_SECONDS": "3"})


def test_the_secret_of_a_cluster_is_read_only_when_it_is_used(tmp_path: Path) -> None:
    """A command that needs no cluster runs on a machine without the password file."""
    text = "[clusters.a]\naddress = 'kafka://a:1'\npassword_file = 'not-here'\nx_note = 1\n"
    found = read_settings(written(tmp_path, text), [], {})
    assert list(clusters_of(found)) == ["a"]


def test_an_option_is_named_as_it_was_typed() -> None:
    """An option that is short for a setting is not reported as `--set`."""
    words = setting_overrides(PLAN_OPTIONS, {"drain": ["1,x"]})
    with pytest.raises(SettingsError, match="^--drain 1,x: replicas.drain"):
        read_settings(None, words, {})


def test_a_table_may_be_taken_raw(tmp_path: Path) -> None:
    """Plain values, and each with its origin."""
    path = written(tmp_path, '[clusters.a]\naddress = "kafka://a:1"\n')
    settings = read_settings(path, ["clusters.a.timeout_seconds=3"], {})
    assert settings.table("clusters") == {"a": {"address": "kafka://a:1", "timeout_seconds": 3}}
    table = settings.values("clusters")["a"]
    assert isinstance(table, dict)
    origins = [given.origin for given in table.values() if isinstance(given, SettingValue)]
    assert origins == [str(path), "--set clusters.a.timeout_seconds=3"]
    assert settings.folder == tmp_path


def test_the_loader_knows_the_sections(tmp_path: Path) -> None:
    """A section of a balancer is checked at once, by its own description; no other is known."""
    sizes = Section("sizes", Sizes, ("share",), ("one", "two", "three"), _no_halves)
    path = written(tmp_path, "[sizes]\nshare = 0.25\nx_note = 1\n[own]\na = 1\n")
    settings = load_settings(path, ["sizes.share.two=0.1"], {}, {"sizes": sizes, "own": None})
    assert settings.of(sizes) == Sizes((0.25, 0.1, 0.25))
    with pytest.raises(SettingsError, match=r"--set sizes.share=0.5: sizes.share is 0.5, expected no half"):
        load_settings(path, ["sizes.share=0.5"], {}, {"sizes": sizes, "own": None})
    with pytest.raises(SettingsError, match=r"there is no section \[own\]; known are sizes"):
        load_settings(path, [], {}, {"sizes": sizes})


@dataclass(frozen=True)
class Sizes:
    """The settings of a toy level with three resources."""

    share: tuple[float, ...] = (0.1, 0.2, 0.3)


def _no_halves(settings: Sizes, refuse: RejectCallback) -> None:
    for value in settings.share:
        if value == 0.5:
            refuse("share", value, "no half")
