"""A throw-away certificate for brokers on the loopback interface."""

from __future__ import annotations

import subprocess
from pathlib import Path

from trimtab.jars.fetch import Java
from trimtab.model.errors import SandboxError

KEYSTORE, CERTIFICATE = "keystore.p12", "ca.pem"


def make_certificate(java: Java, folder: Path, password: str) -> None:
    """Write a key store for the brokers and, for clients, the certificate it holds.

    Raises
    ------
    SandboxError
        If Java's keytool is missing or refuses.
    """
    store = ["-keystore", str(folder / KEYSTORE), "-storetype", "PKCS12", "-storepass", password]
    key = ["-keyalg", "EC", "-groupname", "secp256r1", "-validity", "30"]
    name = ["-dname", "CN=trimtab sandbox", "-ext", "san=ip:127.0.0.1,dns:localhost"]
    _keytool(java, ["-genkeypair", "-alias", "broker", *key, *name, *store])
    _keytool(java, ["-exportcert", "-rfc", "-alias", "broker", "-file", str(folder / CERTIFICATE), *store])


def _keytool(java: Java, arguments: list[str]) -> None:
    try:
        subprocess.run([java.keytool, *arguments], check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise SandboxError(f"{java.keytool} is missing: install the whole of Java {java.version}") from error
    except subprocess.CalledProcessError as error:
        raise SandboxError(
            f"keytool cannot make a certificate: {error.stdout.strip() or error.stderr}"
        ) from error
