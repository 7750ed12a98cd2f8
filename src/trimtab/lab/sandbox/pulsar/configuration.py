"""The configuration of metadata store, bookie and brokers: small, quick, and on the loopback interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from trimtab.lab.sandbox.pulsar.state import CLUSTER, PulsarNode
from trimtab.model.errors import SandboxError

LOAD_MANAGERS = {
    "modular": {"loadManagerClassName": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"},
    "extensible": {
        "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl",
        "loadBalancerLoadSheddingStrategy": (
            "org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder"
        ),
    },
}

# Few threads and small caches: three brokers share a laptop.
SMALL_BROKER = {
    "managedLedgerDefaultEnsembleSize": "1",
    "managedLedgerDefaultWriteQuorum": "1",
    "managedLedgerDefaultAckQuorum": "1",
    "managedLedgerCacheSizeMB": "16",
    "bookkeeperNumberOfChannelsPerBookie": "2",
    "numIOThreads": "2",
    "numOrderedExecutorThreads": "2",
    "numHttpServerThreads": "8",
    "numExecutorThreadPoolSize": "2",
    "numCacheExecutorThreadPoolSize": "2",
    "webSocketServiceEnabled": "false",
    "functionsWorkerEnabled": "false",
    "transactionCoordinatorEnabled": "false",
    "brokerDeleteInactiveTopicsEnabled": "false",
    "forceDeleteNamespaceAllowed": "true",
    "forceDeleteTenantAllowed": "true",
    "statusFilePath": "",
}
# A dead broker is gone after ten seconds instead of thirty, an asked one leaves as soon.
SHORT_SESSIONS = {
    "brokerShutdownTimeoutMs": "10000",
    "metadataStoreSessionTimeoutMillis": "10000",
    "zooKeeperSessionTimeoutMillis": "10000",
}
# Brokers publish their loads every five seconds, zero minutes being less than that; what they tell of CPU and
# of the network they measure once a minute at most. Metrics of bundles and topics are what collectors read.
FRESH_REPORTS = {
    "loadBalancerEnabled": "true",
    "loadBalancerOverrideBrokerNicSpeedGbps": "1",
    "loadBalancerReportUpdateMaxIntervalMinutes": "0",
    "loadBalancerHostUsageCheckIntervalMinutes": "1",
    "statsUpdateInitialDelayInSecs": "5",
    "statsUpdateFrequencyInSecs": "5",
    "exposeBundlesMetricsInPrometheus": "true",
    "exposeTopicLevelMetricsInPrometheus": "true",
}
SMALL_BOOKIE = {
    "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
    "dbStorage_writeCacheMaxSizeMb": "16",
    "dbStorage_readAheadCacheMaxSizeMb": "8",
    "dbStorage_rocksDB_blockCacheSize": "4194304",
    "dbStorage_rocksDB_writeBufferSizeMB": "2",
    "journalSyncData": "false",
    "journalPreAllocSizeMB": "4",
    "journalMaxSizeMB": "64",
    "journalMaxBackups": "1",
    "journalWriteBufferSizeKB": "64",
    "gcWaitTime": "60000",
    "flushInterval": "60000",
    "diskUsageThreshold": "0.99",
    "diskUsageWarnThreshold": "0.98",
    "numAddWorkerThreads": "1",
    "numReadWorkerThreads": "1",
    "numJournalCallbackThreads": "1",
    "serverNumIOThreads": "1",
    "numLongPollWorkerThreads": "1",
    "httpServerEnabled": "false",
}


def metadata_store_configuration(home: Path, port: int) -> str:
    """`zoo.cfg` of a metadata store that runs by itself."""
    return _text(
        {
            "tickTime": "2000",
            "dataDir": str(home / "metadata"),
            "clientPort": str(port),
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "maxClientCnxns": "200",
            "forceSync": "no",
        }
    )


def bookie_configuration(home: Path, port: int, metadata_port: int, loopback: str) -> str:
    """`bookkeeper.conf` of the one bookie.

    Parameters
    ----------
    home
        Of its process.
    port, metadata_port
        Its own, and the metadata store's.
    loopback
        Name of the loopback network interface.
    """
    return _text(
        {
            "metadataServiceUri": f"zk://127.0.0.1:{metadata_port}/ledgers",
            "bookiePort": str(port),
            "listeningInterface": loopback,
            "allowLoopback": "true",
            "advertisedAddress": "127.0.0.1",
            "journalDirectories": str(home / "journal"),
            "ledgerDirectories": str(home / "ledgers"),
            "indexDirectories": str(home / "ledgers"),
        }
        | SMALL_BOOKIE
    )


def broker_configuration(
    node: PulsarNode,
    metadata_port: int,
    load_manager: str,
    security: Mapping[str, str],
    overrides: Mapping[str, str],
) -> str:
    """`broker.conf` of one broker.

    Parameters
    ----------
    node
        Whose.
    metadata_port
        Of the metadata store.
    load_manager
        A key of `LOAD_MANAGERS`.
    security
        From `security_settings`; empty for a broker that lets everybody in.
    overrides
        Pulsar's own names; win over everything here.
    """
    return _text(
        {
            "metadataStoreUrl": f"zk:127.0.0.1:{metadata_port}",
            "configurationMetadataStoreUrl": f"zk:127.0.0.1:{metadata_port}",
            "clusterName": CLUSTER,
            "bindAddress": "127.0.0.1",
            "advertisedAddress": "127.0.0.1",
        }
        | _ports(node, secured=bool(security))
        | SMALL_BROKER
        | SHORT_SESSIONS
        | FRESH_REPORTS
        | LOAD_MANAGERS[load_manager]
        | dict(security)
        | dict(overrides)
    )


def parse_settings(values: Sequence[str]) -> dict[str, str]:
    """Settings as a command line has them, `NAME=VALUE` each.

    Raises
    ------
    SandboxError
        If one is not of that form.
    """
    settings = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or "\n" in text:
            raise SandboxError(f"{text!r} is not a setting of Pulsar: write NAME=VALUE, as in broker.conf")
        settings[name.strip()] = value.strip()
    return settings


def _ports(node: PulsarNode, *, secured: bool) -> dict[str, str]:
    """A broker listens with TLS or without, never both: a port left open would let everybody in."""
    service, web = str(node.port), str(node.web_port)
    plain, tls = ("", "Tls") if not secured else ("Tls", "")
    return {
        f"brokerServicePort{plain}": service,
        f"webServicePort{plain}": web,
        f"brokerServicePort{tls}": "",
        f"webServicePort{tls}": "",
    }


def setup_arguments(metadata_port: int, broker: PulsarNode, *, secured: bool) -> list[str]:
    """Arguments of Pulsar's own cluster set-up, which writes a cluster's first entries."""
    store = f"zk:127.0.0.1:{metadata_port}"
    web, service = f"127.0.0.1:{broker.web_port}", f"127.0.0.1:{broker.port}"
    arguments = {
        "--cluster": CLUSTER,
        "--metadata-store": store,
        "--configuration-metadata-store": store,
        # Pulsar asks for an address without TLS in any case.
        "--web-service-url": f"http://{web}",
    }
    if secured:
        arguments |= {
            "--web-service-url-tls": f"https://{web}",
            "--broker-service-url-tls": f"pulsar+ssl://{service}",
        }
    else:
        arguments["--broker-service-url"] = f"pulsar://{service}"
    return [part for pair in arguments.items() for part in pair]


def _text(properties: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in properties.items())
