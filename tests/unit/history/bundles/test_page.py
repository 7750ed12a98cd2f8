"""The Python of the page about the balancer."""

import re
from pathlib import Path

import pytest

from support.bundle_views import key
from support.recordings import skewed, tick, written

PAGE = Path(__file__).parents[4] / "docs" / "balancers" / "bundles.md"


def test_the_python_of_the_page_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on the page, over three minutes of a hot broker next to a cold one."""
    written(tmp_path / "reports.jsonl", [tick(minute, skewed()) for minute in range(3)])
    monkeypatch.chdir(tmp_path)
    found = re.search(r"## From Python.*?```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    names: dict[str, object] = {}
    exec(found[1], names)
    first = ({"h1:8080": (key(1),)}, pytest.approx(0.55))
    decided = names["decided"]
    assert isinstance(decided, list)
    assert decided[0] == first
    assert len(decided) == 3


def test_every_class_of_the_page_exists_at_its_path() -> None:
    """The table's second column: modules and names below `trimtab.plan.pulsar`."""
    from importlib import import_module

    table = PAGE.read_text(encoding="utf-8").partition("in `trimtab.plan.pulsar` |")[2].partition("\n\n")[0]
    named = re.findall(r"`((?:\w+_shedders?|placers|selection|splits|view|leader)\.\w+)`", table)
    assert len(named) > 15
    for name in named:
        module, _, attribute = name.rpartition(".")
        whole = f"trimtab.plan.pulsar.{name}"
        if attribute[0].isupper() or attribute in dir(import_module(f"trimtab.plan.pulsar.{module}")):
            assert hasattr(import_module(f"trimtab.plan.pulsar.{module}"), attribute)
        else:
            import_module(whole)
