"""Wheels of the workspace, built and installed into environments that have nothing but what they ask for."""

from __future__ import annotations

import subprocess
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path

from support.installations import PACKAGES, ROOT, closure, metadata_of

FOLDERS = {"trimtab": ROOT, **{name: ROOT / "packages" / name for name in PACKAGES}}
"""Folder of each package of the workspace, by name."""


def build_wheels(folder: Path, *names: str) -> None:
    """Build wheels of packages of the workspace into a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    for name in names:
        subprocess.run(command, cwd=FOLDERS[name], check=True, capture_output=True)


def needed(name: str, *extras: str) -> set[str]:
    """Distributions that a package and its packages of the workspace ask for, with all that these need."""
    metadata = metadata_of(FOLDERS[name])
    optional = metadata.get("optional-dependencies", {})
    asked = [*metadata["dependencies"], *(one for extra in extras for one in optional[extra])]
    ours = [one.partition("==")[0] for one in asked if one.startswith("trimtab")]
    others = closure(one for one in asked if not one.startswith("trimtab"))
    return {*others, *(one for package in ours for one in needed(package))}


def install(folder: Path, wheels: Path, name: str, *extras: str) -> Path:
    """Install a package and what it asks for into a fresh environment; the environment's Python.

    pip installs without any index, so it refuses if the requirements are not all there.
    """
    venv.create(folder, with_pip=False)
    packages = next((folder / "lib").glob("python3.*")) / "site-packages"
    for one in needed(name, *extras):
        _link(one, packages)
    python = folder / "bin" / "python"
    wanted = f"{name}[{','.join(extras)}]" if extras else name
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-index",
        "--quiet",
    ]
    command += ["--disable-pip-version-check", "--find-links", wheels, wanted]
    subprocess.run(command, check=True, capture_output=True)
    return python


def installed_bytes(python: Path, *without: str) -> int:
    """Bytes of all packages of an environment but some, as installed: without bytecode, which Python adds."""
    packages = next((python.parents[1] / "lib").glob("python3.*")) / "site-packages"
    left_out = {top for name in without for top in _tops(name)}
    return sum(
        file.stat().st_size
        for top in packages.iterdir()
        if top.name not in left_out
        for file in (top.resolve().rglob("*") if top.is_dir() else [top])
        if file.is_file() and file.suffix != ".pyc"
    )


def _tops(name: str) -> set[str]:
    """Files and folders in which a distribution is installed."""
    files = distribution(name).files or ()
    return {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}


def _link(name: str, folder: Path) -> None:
    """Put what a distribution installed into another environment's folder, without fetching it again."""
    for top in _tops(name):
        place = folder / top
        if not place.is_symlink():
            place.symlink_to(Path(str(distribution(name).locate_file(top))).resolve())
