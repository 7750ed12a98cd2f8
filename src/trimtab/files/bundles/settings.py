"""The section `[bundles]` of the settings; `BundlesSettings` names the ranges of its keys."""

from trimtab.model.bundles.plan import BundlesSettings
from trimtab.model.bundles.snapshot import RESOURCES
from trimtab_common.settings import Section

SECTION = Section("bundles", BundlesSettings, ("theta", "epsilon"), RESOURCES)
