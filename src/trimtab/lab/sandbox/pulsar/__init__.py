"""A real Pulsar cluster on this machine: metadata store, bookie, and brokers."""

from trimtab.lab.sandbox.pulsar.cluster import PulsarSandbox

__all__ = ["PulsarSandbox"]
