"""The list of mutants stays true to the code: each still applies, to be killed by tests that are there."""

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def script() -> ModuleType:
    """`scripts/mutants` as a module; it has no suffix."""
    loader = SourceFileLoader("mutants", str(ROOT / "scripts" / "mutants"))
    spec = spec_from_loader("mutants", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


MUTANTS = script().mutants()


def test_every_mutant_applies_and_names_tests_that_are_there() -> None:
    """Whoever rewrites a line that a mutant changes writes the mutant anew: none is lost without a word."""
    faults = []
    for mutant in MUTANTS:
        try:
            mutant.applied()
            mutant.asked_for()
        except ValueError as error:
            faults.append(str(error))
    assert not faults, "\n".join(["", *faults])


def test_no_two_mutants_are_the_same() -> None:
    """Nor do two have one name; the command takes them by it."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("old", ["text that stands nowhere", "ORDER", ""])
def test_text_that_does_not_stand_there_once_is_refused(old: str) -> None:
    """It would be another mutant than the one meant, or none."""
    with pytest.raises(ValueError, match="expected once"):
        MUTANTS[0]._replace(old=old).applied()
