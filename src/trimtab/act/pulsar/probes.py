"""Names of topics that do not exist, one in any bundle: looked up, they give the bundle an owner.

A lookup assigns an unowned bundle whether the topic exists or not, as long as clients may create topics, and
creates none itself.
"""

from itertools import count

from trimtab.model.bundle_range import BundleRange, topic_hash


def probe_topic(bundle: BundleRange) -> str:
    """The first name of a row that falls into a bundle.

    A bundle of 2^-n of its namespace is hit after 2^n names on average: a second or so at n = 20.
    """
    names = (f"persistent://{bundle.namespace}/trimtab-lookup-{number}" for number in count())
    return next(name for name in names if bundle.holds(topic_hash(name)))
