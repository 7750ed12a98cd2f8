"""The section `[balls]` of the settings."""

from trimtab.files.binding import Refuse, Section, check_fractions
from trimtab.model.balls.plan import BallsSettings
from trimtab.model.balls.snapshot import RESOURCES


def _check(settings: BallsSettings, refuse: Refuse) -> None:
    check_fractions(settings, refuse)


SECTION = Section("balls", BallsSettings, ("theta", "epsilon"), RESOURCES, _check)
