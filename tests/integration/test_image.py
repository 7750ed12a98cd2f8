"""The image without Docker: its root is made, and trimtab runs in it as its user.

What `docker build` makes of the Dockerfile is not tried; both run the same steps.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from simulate.instances import lognormal_skew
from trimtab.files.replicas.snapshot import write_snapshot

ROOT = Path(__file__).parents[2]
USER = 65532


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="debootstrap needs root")
@pytest.mark.skipif(shutil.which("apt-get") is None, reason="debootstrap comes from Debian")
def test_trimtab_runs_in_the_root_as_its_user(tmp_path: Path) -> None:
    """A plan is made by Python 3.13 without Java, by a user that can write to the folder of data alone."""
    image = tmp_path / "image"
    environment = {**os.environ, "WITH_SPARK": "no", "ROOT_ONLY": "yes"}
    command = [str(ROOT / "scripts" / "build-image"), str(image)]
    built = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert built.returncode == 0, built.stderr
    data = image / "var" / "lib" / "trimtab"
    write_snapshot(lognormal_skew(brokers=6, replicas=60, seed=1), data / "snapshot.json")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        inside = ["/usr/bin/env", "-i", "HOME=/var/lib/trimtab", *arguments]
        command = ["chroot", f"--userspec={USER}:{USER}", str(image), *inside]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    data_folder = "/var/lib/trimtab"
    options = ["--snapshot", f"{data_folder}/snapshot.json", "--out", f"{data_folder}/plan.json"]
    planned = run("/opt/trimtab/bin/trimtab", "plan", "replicas", *options)
    assert planned.returncode == 0, planned.stderr
    assert (data / "plan.json").stat().st_uid == USER
    assert run("/opt/trimtab/bin/python", "-c", "import starlette, uvicorn, obstore").returncode == 0
    assert run("/opt/trimtab/bin/python", "-c", "import pyspark").returncode != 0
    assert run("/usr/bin/touch", "/opt/trimtab/here").returncode != 0
    assert not list((image / "tmp").iterdir())
