"""The format of a snapshot, told before anything else of it is read."""

from pathlib import Path

import pytest

from simulate.instances import lognormal_skew
from trimtab.files.replicas.snapshot import FORMAT, write_snapshot
from trimtab.files.snapshot_format import format_of
from trimtab_common.errors import InputError

KNOWN = ("trimtab/other-snapshot/1", FORMAT.name)


@pytest.mark.parametrize("name", ["snapshot.json", "snapshot.json.gz", "snapshot"])
def test_every_form_has_a_recognisable_format(tmp_path: Path, name: str) -> None:
    """A file, a compressed one, and a folder; the class of what it holds is known without reading it."""
    snapshot = lognormal_skew(brokers=3, replicas=12, seed=1)
    write_snapshot(snapshot, tmp_path / name)
    assert format_of(tmp_path / name, KNOWN) == FORMAT.name
    assert isinstance(snapshot, FORMAT.kind)
    assert snapshot.row_names == (0, 1, 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"format": "trimtab/plan/1"}', r'\$\.format is "trimtab/plan/1", expected one of trimtab/other'),
        ('{"format": 1}', r"\$\.format is 1, expected text in quotes"),
        ("{}", r'\$ has no field "format"; add it'),
        ("[]", r"\$ is \[\], expected an object"),
    ],
)
def test_an_invalid_snapshot_is_rejected(tmp_path: Path, text: str, said: str) -> None:
    """With the file, the place, what was found and what was expected."""
    path = tmp_path / "snapshot.json"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        format_of(path, KNOWN)


def test_a_folder_without_its_head_is_refused(tmp_path: Path) -> None:
    """The file that is missing is named."""
    with pytest.raises(InputError, match=r"meta\.json"):
        format_of(tmp_path, KNOWN)
