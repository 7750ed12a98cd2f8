"""axe-core, which finds faults of accessibility in a page, fetched from npm by name and version.

Its licence (MPL-2.0) keeps it out of the packages; a folder of the machine's temporary files holds it.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "axe-core@4.14.1"
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
FOLDER = Path(tempfile.gettempdir()) / "trimtab-axe-core"
FETCH_SECONDS = 60.0

SERIOUS = """axe.run(document, {resultTypes: ["violations"]}).then((found) => JSON.stringify(
  found.violations.filter((one) => ["serious", "critical"].includes(one.impact))
    .map((one) => [one.id, one.nodes.map((node) => node.html.slice(0, 200))])))"""
"""JavaScript whose promise has the serious and critical faults of a page as JSON."""


class MissingError(Exception):
    """npm is missing, or the registry cannot be reached."""


def axe_core() -> str:
    """The script of axe-core.

    Raises
    ------
    MissingError
        If npm is not installed or cannot fetch the package.
    """
    archive = FOLDER / f"{PACKAGE.replace('@', '-')}.tgz"
    if not archive.exists():
        _fetch(archive)
    content = archive.read_bytes()
    assert base64.b64encode(hashlib.sha512(content).digest()).decode() == SHA512, f"{archive} is changed"
    with tarfile.open(archive) as files:
        member = files.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def _fetch(archive: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise MissingError("npm is not installed")
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        command = [npm, "pack", "--silent", "--pack-destination", folder, PACKAGE]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise MissingError(f"npm did not fetch {PACKAGE} within {FETCH_SECONDS:.0f} s") from None
        if done.returncode:
            raise MissingError(f"npm could not fetch {PACKAGE}: {done.stderr.strip()[-200:]}")
        (Path(folder) / done.stdout.split()[-1]).replace(archive)
