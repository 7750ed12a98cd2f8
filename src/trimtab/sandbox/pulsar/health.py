"""Whether a broker serves, by its own check of itself: it writes a message to a topic and reads it back."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request


def serves(web_url: str, timeout_seconds: float = 10.0) -> bool:
    """Whether a broker's health check passes.

    `brokers/ready` would not do: it passes while there is no bookie to write to.
    """
    try:
        with urllib.request.urlopen(f"{web_url}/admin/v2/brokers/health", timeout=timeout_seconds) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except (OSError, http.client.HTTPException):
        return False
