"""A refusal or a failed call, as every level tells it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a cluster refused something, for one item or for a whole call.

    Attributes
    ----------
    code
        The system's own name of the error (Kafka's, without the word error: `NotController`; Pulsar's HTTP
        status: `409`).
    transient
        Whether the same call may well succeed in a moment.
    """

    code: str
    message: str
    transient: bool = False
