"""What must hold of the bundles that brokers report: sound names, and no topic in two of them."""

import json
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from trimtab.model.bundle_range import BundleRange, parse_bundle
from trimtab.model.errors import InputError


class BundleNames:
    """Names of bundles seen so far in one recording, so that each is looked at once."""

    def __init__(self) -> None:
        self._ranges: dict[str, BundleRange] = {}
        self._sound: frozenset[str] = frozenset()

    def check_report(self, place: str, bundles: Sequence[str], with_stats: Collection[str]) -> None:
        """Refuse a report that names what is no bundle, one bundle twice, or statistics of another's bundle.

        Parameters
        ----------
        place
            The file, the line and the JSON path of the report, for messages.
        bundles, with_stats
            What the broker owns, and what it has statistics of.

        Raises
        ------
        InputError
            If so.
        """
        owned = set(bundles)
        if len(owned) < len(bundles):
            twice = next(bundle for number, bundle in enumerate(bundles) if bundle in bundles[:number])
            raise InputError(f'{place}.bundles names "{twice}" twice; drop one')
        for number, bundle in enumerate(bundles):
            self._range(f"{place}.bundles[{number}]", bundle)
        for bundle in with_stats:
            if bundle not in owned:
                self._range(f"{place}.lastStats", bundle)
                raise InputError(
                    f"{place}.lastStats[{json.dumps(bundle)}] is of a bundle that is not among the broker's "
                    "bundles; add it to bundles, or drop its statistics"
                )

    def check_tick(self, where: str, reports: Iterable[tuple[str, Sequence[str]]]) -> None:
        """Refuse a tick in which two different bundles hold the same topic.

        One bundle at two brokers is no fault: it is changing hands.

        Parameters
        ----------
        where
            The file and the line, for messages.
        reports
            The JSON path of each report, and the bundles of that broker.

        Raises
        ------
        InputError
            If so.
        """
        owner = {bundle: place for place, bundles in reports for bundle in bundles}
        if owner.keys() <= self._sound:
            return
        ordered = sorted(owner, key=lambda bundle: self._ranges[bundle])
        for first, second in pairwise(ordered):
            if self._ranges[first].overlaps(self._ranges[second]):
                raise InputError(
                    f'{where}: {owner[second]}.bundles holds "{second}", which overlaps "{first}" of '
                    f"{owner[first]}: a topic is in one bundle only; drop the report from before the split"
                )
        self._sound = frozenset(ordered)

    def _range(self, place: str, bundle: str) -> BundleRange:
        found = self._ranges.get(bundle)
        if found is None:
            try:
                found = self._ranges[bundle] = parse_bundle(bundle)
            except InputError as fault:
                raise InputError(f"{place}: {fault}") from None
        return found
