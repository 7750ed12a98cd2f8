"""Who may enter a secured Pulsar sandbox: tokens of its own key, over TLS."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from trimtab.lab.sandbox.certificates import CERTIFICATE, KEYSTORE

ROLE = "trimtab"
PLUGINS = {
    "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
    "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
}


@dataclass(frozen=True)
class PulsarSecurity:
    """The key that signs tokens (base64), and the password of the brokers' key store.

    The role `trimtab` may do everything, any other nothing.
    """

    key: str = field(repr=False)
    store_password: str = field(repr=False)

    def token(self, role: str = ROLE) -> str:
        """A token for a role (a JSON web token, HMAC-SHA256), without end."""
        head, claims = _part({"alg": "HS256"}), _part({"sub": role})
        signed = hmac.new(base64.b64decode(self.key), f"{head}.{claims}".encode(), hashlib.sha256)
        return f"{head}.{claims}.{_base64(signed.digest())}"


def new_security() -> PulsarSecurity:
    """A key and a password that nobody has had before."""
    return PulsarSecurity(base64.b64encode(secrets.token_bytes(32)).decode(), secrets.token_urlsafe(18))


def security_settings(security: PulsarSecurity, folder: Path) -> dict[str, str]:
    """The brokers' settings: tokens over TLS, the key store in the sandbox's folder, one superuser."""
    return PLUGINS | {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "superUserRoles": ROLE,
        "tokenSecretKey": f"data:;base64,{security.key}",
        "tlsEnabledWithKeyStore": "true",
        "tlsKeyStoreType": "PKCS12",
        "tlsKeyStore": str(folder / KEYSTORE),
        "tlsKeyStorePassword": security.store_password,
        "brokerClientTlsEnabled": "true",
        "brokerClientTrustCertsFilePath": str(folder / CERTIFICATE),
        "brokerClientAuthenticationParameters": f"token:{security.token()}",
    }


def _part(value: dict[str, str]) -> str:
    return _base64(json.dumps(value, separators=(",", ":")).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
