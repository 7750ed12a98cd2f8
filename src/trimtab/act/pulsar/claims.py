"""Claims in a Pulsar cluster: properties of the namespace `pulsar/system`, which every cluster has.

The name of a property is made from its text, so that two trimtabs do not overwrite each other; Pulsar changes
the properties of a namespace by comparing versions, so that neither gets lost. docs/decisions/
0014-lease-in-pulsar.md says what else was weighed.
"""

import json
from collections.abc import Collection
from hashlib import sha256
from typing import Final

from trimtab.connect.pulsar import PulsarAdmin, PulsarAdminError

NAMESPACE: Final = "pulsar/system"
PREFIX: Final = "trimtab.lease."


def read_claims(admin: PulsarAdmin) -> frozenset[str]:
    """The texts of all claims.

    Raises
    ------
    PulsarAdminError
        If they cannot be read.
    """
    found = admin.get_json(f"namespaces/{NAMESPACE}/properties", dict[str, str])
    return frozenset(value for name, value in found.items() if name.startswith(PREFIX))


def write_claims(admin: PulsarAdmin, added: Collection[str], removed: Collection[str]) -> None:
    """Leave some texts and remove others; removing one that is not there is no error.

    Raises
    ------
    PulsarAdminError
        If they cannot be written.
    """
    if added:
        body = json.dumps({_name(text): text for text in added}).encode()
        admin.change("PUT", f"namespaces/{NAMESPACE}/properties", body=body)
    for text in removed:
        if text in added:
            continue
        try:
            admin.change("DELETE", f"namespaces/{NAMESPACE}/property/{_name(text)}")
        except PulsarAdminError as error:
            if error.status != 404:
                raise


def _name(text: str) -> str:
    return PREFIX + sha256(text.encode()).hexdigest()[:16]
