"""Parquet files of a lake."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet
import pytest

if TYPE_CHECKING:
    from pathlib import Path

FILES, ROWS, GROUP, COLUMNS = 4, 400_000, 20_000, "abcdefgh"
READERS = {
    "folder": "parquet.rows_of_folder(place_of(sys.argv[1]), None, field('a') == 7)",
    "files": "parquet.rows_of_files(list(Path(sys.argv[1]).iterdir()), list('abcdefgh'), field('a') == 7)",
}
PROGRAM = """
import sys
from pathlib import Path
import pyarrow
from pyarrow.dataset import field
from trimtab.files.store import place_of
from trimtab.observe.lake import parquet
print({read}.num_rows, pyarrow.default_memory_pool().max_memory())
"""


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_few_rows_of_a_large_folder_are_read_in_little_memory(tmp_path: Path, read: str) -> None:
    """Batches that the filter drops are not held."""
    rows = pa.table(dict.fromkeys(COLUMNS, pa.array(range(ROWS), pa.int64())))
    for number in range(FILES):
        pyarrow.parquet.write_table(
            rows, tmp_path / f"{number}.parquet", row_group_size=GROUP, write_statistics=False
        )
    command = [sys.executable, "-c", PROGRAM.format(read=read), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found, peak = map(int, done.stdout.split())
    assert found == FILES
    assert GROUP * len(COLUMNS) < peak < FILES * rows.nbytes / 2
