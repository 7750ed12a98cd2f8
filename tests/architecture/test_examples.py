"""What pages give as examples of files and settings, trimtab takes."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from trimtab.balancers.clusters import clusters_of
from trimtab.balancers.settings import execution_table, pipeline_table, read_settings
from trimtab.files.bundles.recording import read_scenarios
from trimtab.files.replicas.snapshot import read_snapshot
from trimtab.history.bundles.replay import strategy_requests
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab_common.settings import Settings

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
TOML = re.compile(r"^```toml\n(.*?)^```|^cat > trimtab\.toml <<'(\w+)'\n(.*?)^\2$", re.MULTILINE | re.DOTALL)
OVERRIDE = re.compile(r"--set[ =]([a-z_]+\.[a-z_.]+=[^\s`]*[^\s`.,;:)])")
VARIABLE = re.compile(r"\bTRIMTAB_[A-Z_]*[A-Z]\b")
SECTIONS = {
    "execution": execution_table(),
    "collect": CollectSettings,
    "capacity": CapacitySettings,
    "pipeline": pipeline_table(),
}


def _bound(settings: Settings) -> Settings:
    """The settings, once every section has been read as the command that uses it would."""
    for name, kind in SECTIONS.items():
        settings.section(name, kind)
    for cluster in clusters_of(settings).values():
        cluster.connection()
    return settings


def _files(page: Path) -> list[str]:
    return [fenced or here for fenced, _, here in TOML.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", [page for page in PAGES if _files(page)], ids=lambda page: page.stem)
def test_settings_files_on_pages_are_taken(page: Path, tmp_path: Path) -> None:
    """Settings files and scenarios on the pages contain no unknown key."""
    for name in ("ca.pem", "password", "token"):
        (tmp_path / name).write_text("x\n")
    for number, text in enumerate(_files(page)):
        path = tmp_path / f"{number}.toml"
        path.write_text(text, encoding="utf-8")
        if "[strategies." in text:
            listed = read_scenarios(path)
            chosen, _ = strategy_requests([], [], [], listed)
            for one in chosen.values():
                one.settled("article", 0, world_answers=True).scenario(java_order=True, world_answers=True)
        else:
            environ = {"TRIMTAB_KAFKA_PASSWORD": "secret"} if "SASL" in text else {}
            _bound(read_settings(path, [], environ))


def test_overrides_on_pages_are_taken() -> None:
    """What a page gives to `--set` is a setting, and its value is in range."""
    found = {
        shlex.split(word)[0]
        for page in PAGES
        for word in OVERRIDE.findall(page.read_text(encoding="utf-8"))
        if not word.startswith("section.key") and "KEY" not in word
    }
    assert len(found) > 3
    for override in sorted(found):
        _bound(read_settings(None, [override], {}))


def test_variables_on_pages_are_read_by_something() -> None:
    """A variable that a page names does something: the code names it too, or it is a setting's."""
    files = [path for top in ("src", "packages") for path in (ROOT / top).rglob("*.py")]
    source = "\n".join(path.read_text(encoding="utf-8") for path in files)
    settings = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    keys = set()
    section = ""
    for line in settings.splitlines():
        if match := re.match(r"## `\[([a-z_.]+)\]`", line):
            section = match[1]
        elif match := re.match(r"\| `(\w+)` \|", line):
            keys.add(f"TRIMTAB_{section}_{match[1]}".upper().replace(".", "_"))
    named = {word for page in PAGES for word in VARIABLE.findall(page.read_text(encoding="utf-8"))}
    # The variable of a secret is made of the system's name and the secret's.
    keys |= set(VARIABLE.findall(settings))
    unknown = {
        word
        for word in named - keys - {"TRIMTAB_SECTION_KEY"}
        if not re.search(rf"\b{word}\b", source) and not any(word.startswith(f"{key}_") for key in keys)
    }
    assert not unknown


def test_the_snapshot_of_the_formats_page_is_one(tmp_path: Path) -> None:
    """The example of the format can be read."""
    text = (ROOT / "docs" / "reference" / "formats.md").read_text(encoding="utf-8")
    path = tmp_path / "snapshot.json"
    path.write_text(re.findall(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[0], encoding="utf-8")
    assert len(read_snapshot(path).partitions) == 1


def test_the_script_of_the_balancer_page_makes_the_snapshot_it_shows(tmp_path: Path) -> None:
    """The script produces the cluster that the page plans for."""
    text = (ROOT / "docs" / "balancers" / "replicas.md").read_text(encoding="utf-8")
    script = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[0]
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    found = read_snapshot(tmp_path / "snapshot.json")
    usage = found.imbalance().usage
    for broker, row in zip(found.brokers.id.tolist(), usage, strict=True):
        shown = re.search(rf"^  {broker}  +broker-{broker} .*$", text, re.MULTILINE)
        assert shown
        assert re.findall(r"(\d+)% \(", shown[0]) == [f"{value:.0%}"[:-1] for value in row]
