"""Settings of a simulated Pulsar, and the events that are told of it."""

from dataclasses import dataclass, field

from trimtab.lab.simulate.pulsar.leader import LeaderSettings


@dataclass(frozen=True)
class WorldSettings:
    """The settings of a simulated world.

    Attributes
    ----------
    leader
        By what rules its leader decides.
    seed
        Of all chance.
    round_seconds
        From one round of reports, shedding and splits to the next.
    session_seconds
        How long a dead broker's locks stand (`metadataStoreSessionTimeoutMillis`).
    hop_seconds, closing_seconds
        Means, exponentially distributed: of a message's travel, and of closing a bundle's topics.
    back_off_seconds, longest_back_off_seconds
        A client's first pause before it tries again, which doubles each time, and its longest; up to a tenth
        less by chance. Defaults are those of Pulsar's Java client.
    lookups
        How many clients of a bundle look their topics up at once; the others follow.
    """

    leader: LeaderSettings = field(default_factory=LeaderSettings)
    seed: int = 0
    round_seconds: float = 60.0
    session_seconds: float = 30.0
    hop_seconds: float = 0.005
    closing_seconds: float = 0.1
    back_off_seconds: float = 0.1
    longest_back_off_seconds: float = 60.0
    lookups: int = 2


@dataclass(frozen=True)
class WorldEvent:
    """Something that came to pass.

    Attributes
    ----------
    at
        Virtual seconds.
    what
        `assigned`, `connected`, `closed`, `released`, `split`, `died`, `expired` or `elected`.
    bundle, broker
        Whom it is about; empty where it is not about any.
    topics
        Whose clients were connected or closed.
    seconds
        For `connected`: how long they had been without their broker.
    """

    at: float
    what: str
    bundle: str = ""
    broker: str = ""
    topics: int = 0
    seconds: float = 0.0
