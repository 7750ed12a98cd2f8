"""An S3 server on this machine, out of the package moto: what a lake's address leads to in tests."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

_numbers = itertools.count()

SECRETS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


class ObjectStore:
    """A running server.

    Attributes
    ----------
    endpoint
        Its URL, as in `environment`.
    """

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which clients find it."""
        return {**SECRETS, "AWS_ENDPOINT_URL": self.endpoint}

    def bucket(self) -> str:
        """Make a bucket, and give its address."""
        name = f"bucket-{os.getpid()}-{next(_numbers)}"
        self._ask("PUT", name)
        return f"s3://{name}"

    def remove_bucket(self, address: str, keys: list[str]) -> None:
        """Remove a bucket with the objects named."""
        name = address.removeprefix("s3://")
        for key in keys:
            self._ask("DELETE", f"{name}/{key}")
        self._ask("DELETE", name)

    def refuse(self, refused: bool) -> None:
        """Revoke the access key, or give it back."""
        self._ask("POST", "moto-api/reset-auth", b"0" if refused else b"inf")

    def lose(self) -> None:
        """Remove all buckets with what is in them."""
        self._ask("POST", "moto-api/reset")

    def _ask(self, method: str, path: str, body: bytes | None = None) -> None:
        headers = {"Content-Type": "text/plain"}
        request = urllib.request.Request(f"{self.endpoint}/{path}", body, headers, method=method)
        with urllib.request.urlopen(request):
            pass


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Run the server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + 120
            while True:
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/").close()
                    break
                except urllib.error.HTTPError as answer:
                    answer.close()
                    break
                except OSError:
                    assert server.poll() is None, "the S3 server ended"
                    assert time.monotonic() < deadline, "the S3 server does not answer"
                    time.sleep(0.1)
            yield ObjectStore(port)
        finally:
            server.terminate()
            server.wait(30)
