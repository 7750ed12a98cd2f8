"""Folders: whether they are there, or can be made, read and written, without making them."""

import os
from collections.abc import Iterator
from pathlib import Path

from trimtab.files.object_store import StoreError
from trimtab.files.store import Location, reach
from trimtab.model.finding import Finding, broken, fine

PART = "folders"


def folder_findings(subject: str, folder: Location, remedy: str) -> Iterator[Finding]:
    """One finding on a folder of ours.

    Parameters
    ----------
    subject
        The name of the folder for people.
    remedy
        How to name another one.
    """
    if not isinstance(folder, Path):
        try:
            reach(folder)
            yield fine(PART, subject, f"{folder}")
        except StoreError as error:
            yield broken(PART, subject, str(error), remedy)
        return
    above = next(one for one in (folder, *folder.parents) if os.path.lexists(one))
    if not above.is_dir():
        yield broken(PART, subject, f"{folder}: {above} is no folder", remedy)
    elif not os.access(above, os.R_OK | os.W_OK | os.X_OK):
        yield broken(PART, subject, f"{folder}: this user may not read and write in {above}", remedy)
    elif above == folder:
        yield fine(PART, subject, f"{folder}")
    else:
        yield fine(PART, subject, f"{folder}: not there yet, made when first needed")
