"""The errors of requests to Pulsar's admin API, each of which says whether to try again."""

from __future__ import annotations

import json
import re
import ssl
from http import HTTPStatus

from trimtab_common.errors import ConnectError

PASSING = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
"""Answers that the same request may not get a moment later; 500 is none of them: Pulsar gives it for good to
what a load manager does not support."""

_REMEDIES = {
    HTTPStatus.UNAUTHORIZED: "set the cluster's token_file (or TRIMTAB_PULSAR_TOKEN, or a certificate) to "
    "one that the brokers know",
    HTTPStatus.FORBIDDEN: "give our role the rights of a superuser, or use the token of one that has them",
    HTTPStatus.NOT_FOUND: "check that it exists, and that the address is a broker's web address",
    HTTPStatus.METHOD_NOT_ALLOWED: "this Pulsar is older or newer than the request; 4.0 and 4.2 are tried",
    HTTPStatus.CONFLICT: "look at the cluster as it is now, and ask again",
    HTTPStatus.PRECONDITION_FAILED: "look at the cluster as it is now, and ask again",
}
_LONGEST_REASON = 300


class NoAnswerError(Exception):
    """A broker gave no answer.

    Attributes
    ----------
    reason
        In the words of the operating system or of TLS.
    sent
        Whether it may have got the request.
    transient
        Whether a later try may succeed.
    """

    def __init__(self, reason: str, *, sent: bool, transient: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sent = sent
        self.transient = transient


class PulsarAdminError(ConnectError):
    """A request that was not answered, or not as asked.

    Attributes
    ----------
    reason
        In the broker's words, or in ours where it said nothing.
    status
        Of HTTP; None where there was no answer.
    transient
        Whether the same request may well succeed a little later: nobody answered, a broker that is gone is
        still believed in, the cluster is busy.
    """

    def __init__(
        self, message: str, *, reason: str, status: int | None = None, transient: bool = False
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = status
        self.transient = transient


def request_error(call: str, url: str, status: int, body: bytes) -> PulsarAdminError:
    """The error for an answer that says no."""
    known = HTTPStatus(status) if status in set(HTTPStatus) else None
    reason = response_reason(body) or (known.phrase if known is not None else "no reason given")
    remedy = _REMEDIES.get(known) if known is not None else None
    if remedy is None:
        remedy = "try again in a moment" if status in PASSING else "the broker's log tells more"
    return PulsarAdminError(
        f"Pulsar at {url} answers {call} with {status} ({reason}): {remedy}",
        reason=reason,
        status=status,
        transient=status in PASSING,
    )


def response_reason(body: bytes) -> str:
    """The words of a broker that refuses: the field `reason` of a JSON object, or text without its markup."""
    text = body.decode("utf-8", "replace").strip()
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = None
    if isinstance(told, dict):
        text = str(told.get("reason") or told.get("message") or "")
    elif text.startswith("<"):
        text = re.sub(r"<style.*?</style>|<[^>]*>", " ", text, flags=re.DOTALL)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    # A broker may send its stack trace along; what happened stands in front of it.
    first = " ".join(line for line in lines[:6] if line and not line.startswith(("at ", "---", "Stacktrace")))
    return first if len(first) <= _LONGEST_REASON else f"{first[:_LONGEST_REASON]}..."


def unconnected(error: BaseException) -> NoAnswerError:
    """The error where there is no connection, in the words of the operating system or of TLS."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return NoAnswerError(
            f"its certificate is not trusted ({cause.verify_message}); name the authority that signed it "
            "with pulsar.tls_ca",
            sent=False,
            transient=False,
        )
    if isinstance(cause, ssl.SSLError):
        return NoAnswerError(
            f"it does not speak TLS as we do ({cause.reason or cause}); check scheme and port in "
            "the address, and tls_certificate",
            sent=False,
            transient=False,
        )
    text = getattr(cause, "strerror", None) or str(cause or error) or type(error).__name__
    return NoAnswerError(text, sent=False)
