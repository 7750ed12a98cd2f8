"""The section `[balls]` of the settings."""

from trimtab.model.balls.plan import BallsSettings
from trimtab.model.balls.snapshot import RESOURCES
from trimtab_common.settings import Section

SECTION = Section("balls", BallsSettings, ("theta", "epsilon"), RESOURCES)
