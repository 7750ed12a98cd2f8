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
    """The text of every mutant is in the source: after a rewrite of the line the mutant is adapted."""
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


@pytest.mark.parametrize("blocks", [1, 10, 37])
def test_a_rotation_leaves_no_mutant_out(blocks: int) -> None:
    """So many landings in a row run every mutant once."""
    block = script().block
    ran = [mutant for number in range(blocks) for mutant in block(MUTANTS, number, blocks)]
    assert ran == MUTANTS


@pytest.mark.parametrize("old", ["text that stands nowhere", "ORDER", ""])
def test_text_that_does_not_stand_there_once_is_refused(old: str) -> None:
    """An ambiguous text would change another line, or none."""
    with pytest.raises(ValueError, match="expected once"):
        MUTANTS[0]._replace(old=old).applied()


@pytest.mark.parametrize(("tests", "seeds"), [((), 0), (("unit/model/test_imbalance.py",), 8)])
def test_a_mutant_has_tests_or_seeds(tests: tuple[str, ...], seeds: int) -> None:
    """With neither field all tests there would run; with both only one would be used."""
    with pytest.raises(ValueError, match="expected some of one of the two"):
        MUTANTS[0]._replace(tests=tests, seeds=seeds).asked_for()


def test_seeds_of_a_table_are_for_mutants_without_tests_of_their_own() -> None:
    """Those that no seed shows name the test that does."""
    of = {mutant.name: mutant for mutant in MUTANTS}
    shown = of["masters_lease-no_margin_for_drift"]
    assert shown.seeds > 0 and not shown.tests and shown.quick
    hidden = of["masters_lease-authority_comes_back_by_what_was_asked_before"]
    assert hidden.tests and hidden.seeds == 0
