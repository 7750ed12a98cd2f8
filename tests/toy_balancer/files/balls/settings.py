"""The section `[balls]` of the settings."""

from trimtab.files.binding import RejectCallback, Section, check_fractions
from trimtab.model.balls.plan import BallsSettings
from trimtab.model.balls.snapshot import RESOURCES


def _check(settings: BallsSettings, refuse: RejectCallback) -> None:
    check_fractions(settings, refuse)


SECTION = Section("balls", BallsSettings, ("theta", "epsilon"), RESOURCES, _check)
