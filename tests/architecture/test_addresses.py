"""No file names a machine's own paths, a package registry or any host that is not public knowledge."""

import re
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[2]

# Names of formats and licences, and what stands for "your host here". Nothing is fetched from any of them.
KNOWN_HOSTS = {
    "127.0.0.1",
    "ant.apache.org",
    "creativecommons.org",  # in the metadata of every drawing by matplotlib, with the next two
    "matplotlib.org",
    "purl.org",
    "json-schema.org",
    "kafka.apache.org",
    "www.apache.org",
    "www.w3.org",
}
EXAMPLES = (".example", ".example.com", ".example.org", ".invalid")
HOME_FOLDERS = re.compile(r"(?<![\w.\-/])/(?:root|work|farm|home/\w+|Users/\w+)/")
ADDRESS = re.compile(r"\b[a-z][a-z0-9+.]*://[^\s\"'`<>()\]}\\,;]+", re.IGNORECASE)
SOCKETS = ("PLAINTEXT", "SASL_SSL", "CONTROLLER", "SSL", "CLIENT", "file")


def _tracked() -> list[Path]:
    """Text files under version control; in an unpacked archive, all of them."""
    answer = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = answer.stdout.split("\0") if answer.returncode == 0 else []
    files = [ROOT / name for name in names if name] or [
        path for path in ROOT.rglob("*") if ".venv" not in path.parts and ".git" not in path.parts
    ]
    return [path for path in files if path.is_file() and b"\0" not in path.read_bytes()[:8000]]


def _hosts(text: str) -> set[str]:
    found = set()
    for address in ADDRESS.findall(text):
        try:
            parts = urlsplit(address)
            host = parts.hostname or ""
        except ValueError:
            continue
        if parts.scheme.upper() not in map(str.upper, SOCKETS) and "{" not in address and "$" not in address:
            found.add(host)
    # A name without a dot stands for "your host here": nothing on the network is called so.
    return {host for host in found if "." in host and host not in KNOWN_HOSTS and not host.endswith(EXAMPLES)}


def test_no_file_names_a_folder_of_somebodys_machine():
    """What works on one machine only must not get into the repository."""
    found = {
        str(path.relative_to(ROOT)): match.group()
        for path in _tracked()
        if (match := HOME_FOLDERS.search(path.read_text(encoding="utf-8", errors="replace")))
    }
    assert not found


def test_no_file_names_an_unknown_host():
    """Registries and mirrors are the machine's affair; a vendored file may name its own project."""
    found = {
        str(path.relative_to(ROOT)): hosts
        for path in _tracked()
        if "vendored" not in path.parts
        and (hosts := _hosts(path.read_text(encoding="utf-8", errors="replace")))
    }
    assert not found


@pytest.mark.parametrize("lock", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda path: path.name)
def test_locks_hold_hashes_and_no_address(lock):
    """Every pinned package has a hash, and no line names an index."""
    text = lock.read_text(encoding="utf-8")
    assert "://" not in text
    packages = re.findall(r"^[a-z0-9][^\n]*==", text, re.MULTILINE | re.IGNORECASE)
    blocks = re.split(r"\n(?=\S)", text.strip())
    assert len(packages) == len(blocks) > 1
    assert all("--hash=sha256:" in block for block in blocks)


def test_the_search_finds_its_targets():
    """The patterns themselves are sound: they would catch the slips they are there for."""
    scheme = "https"
    assert HOME_FOLDERS.search("cd " + "/ro" + "ot/project")
    assert _hosts(f"see {scheme}://packages.somewhere.net/simple") == {"packages.somewhere.net"}
    assert not _hosts("listeners=PLAINTEXT://0.0.0.0:9092")
