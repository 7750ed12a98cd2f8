"""Checks of the bundles that brokers report: sound names, and ranges that splits may leave."""

from collections.abc import Collection, Iterable, Sequence

from trimtab.model.bundles.range import BundleRange, overlapping, parse_bundle
from trimtab.model.errors import InputError


class BundleNames:
    """Names of bundles seen so far in one recording, so that each is looked at once."""

    def __init__(self) -> None:
        self._ranges: dict[str, BundleRange] = {}
        self._sound: frozenset[str] = frozenset()

    def check_report(self, place: str, bundles: Sequence[str], with_stats: Collection[str]) -> None:
        """Refuse a report that names what is no bundle, or one bundle twice.

        Statistics of a bundle that is not among the broker's are no fault: Pulsar takes them in.

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
        if len(set(bundles)) < len(bundles):
            twice = next(bundle for number, bundle in enumerate(bundles) if bundle in bundles[:number])
            raise InputError(f'{place}.bundles names "{twice}" twice; drop one')
        for number, bundle in enumerate(bundles):
            self._range(f"{place}.bundles[{number}]", bundle)
        for bundle in with_stats:
            self._range(f"{place}.lastStats", bundle)

    def check_tick(self, where: str, reports: Iterable[tuple[str, Sequence[str]]]) -> None:
        """Refuse a tick in which two bundles overlap as no bundles of one namespace ever did.

        One bundle at two brokers is no fault: it is changing hands. Nor is a part beside the whole: a bundle
        was split, and one of two reports is from before.

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
        for first, second in overlapping(self._ranges[bundle] for bundle in owner):
            if second.high > first.high:
                raise InputError(
                    f'{where}: {owner[second.key]}.bundles holds "{second.key}", which reaches beyond '
                    f'"{first.key}" of {owner[first.key]} that it begins in: no split leaves such bundles; '
                    "drop the report that is wrong"
                )
        self._sound = frozenset(owner)

    def _range(self, place: str, bundle: str) -> BundleRange:
        found = self._ranges.get(bundle)
        if found is None:
            try:
                found = self._ranges[bundle] = parse_bundle(bundle)
            except InputError as fault:
                raise InputError(f"{place}: {fault}") from None
        return found
