"""The section `[balls]` of the settings."""

from trimtab.model.balls.plan import BallsSettings
from trimtab.model.balls.snapshot import RESOURCES
from trimtab_common.settings import RejectCallback, Section, check_fractions


def _check(settings: BallsSettings, refuse: RejectCallback) -> None:
    check_fractions(settings, refuse)


SECTION = Section("balls", BallsSettings, ("theta", "epsilon"), RESOURCES, _check)
