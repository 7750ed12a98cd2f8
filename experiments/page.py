"""Tables of an experiment's README.md, between its marks."""

from __future__ import annotations

from pathlib import Path


def tell(parts: dict[str, str], page: Path | None) -> None:
    """Print texts, or put each into a page between `<!-- name: begin -->` and `<!-- name: end -->`."""
    if page is None:
        print("\n\n".join(parts.values()))
        return
    told = page.read_text()
    for name, text in parts.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, rest = told.split(begin)
        told = f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}"
    page.write_text(told)
