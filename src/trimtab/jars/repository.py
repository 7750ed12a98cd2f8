"""The repository and the proxy that this machine uses for Maven artifacts."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

SETTINGS_FILES = (Path("~/.m2/settings.xml").expanduser(), Path("/etc/maven/settings.xml"))


def maven_root(
    environment: Mapping[str, str] = os.environ, settings_files: Iterable[Path] = SETTINGS_FILES
) -> str | None:
    """The repository to use instead of the public one, or None.

    `TRIMTAB_MAVEN_ROOT` wins; else the first mirror of everything in a Maven settings file.
    """
    if root := environment.get("TRIMTAB_MAVEN_ROOT"):
        return root
    for path in settings_files:
        try:
            tree = ElementTree.parse(path)
        except (OSError, ElementTree.ParseError):
            continue
        for mirror in tree.iterfind(".//{*}mirror"):
            of = (mirror.findtext("{*}mirrorOf") or "").split(",")
            blocked = (mirror.findtext("{*}blocked") or "").strip() == "true"
            url = (mirror.findtext("{*}url") or "").strip()
            if url and not blocked and {"*", "central", "external:*"} & {name.strip() for name in of}:
                return url
    return None


def proxy_properties(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Java's flags for the proxy of `https_proxy` or `http_proxy`, which Java does not read itself."""
    flags = []
    for scheme in ("http", "https"):
        value = environment.get(f"{scheme}_proxy") or environment.get(f"{scheme}_proxy".upper())
        proxy = urlsplit(value if value and "://" in value else f"//{value}") if value else None
        if proxy is not None and proxy.hostname:
            flags.append(f"-D{scheme}.proxyHost={proxy.hostname}")
            if proxy.port:
                flags.append(f"-D{scheme}.proxyPort={proxy.port}")
    return flags
