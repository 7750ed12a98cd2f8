"""TLS in front of a server that has none: the connection ends here, and its bytes go on in plain."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.hazmat.primitives.serialization.pkcs12 import load_key_and_certificates

from trimtab.jars import find_java
from trimtab.lab.sandbox.cluster import CERTIFICATE, KEYSTORE, make_certificate


@asynccontextmanager
async def tls_front(port: int, folder: Path) -> AsyncIterator[tuple[int, Path]]:
    """A port of 127.0.0.1 with TLS before another one, and the certificate that clients have to trust."""
    make_certificate(find_java("a certificate for a test"), folder, "throw-away")
    key, _, _ = load_key_and_certificates((folder / KEYSTORE).read_bytes(), b"throw-away")
    assert key is not None
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / CERTIFICATE, folder / "key.pem")

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ssl.SSLError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, onward = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(forward(reader, onward), forward(there, writer))

    server = await asyncio.start_server(meet, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1], folder / CERTIFICATE
