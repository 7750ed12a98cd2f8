"""A real Kafka cluster on this machine: brokers on declared hosts and racks, and a separate controller."""

from trimtab.lab.sandbox.kafka.cluster import KafkaSandbox, serving_brokers

__all__ = ["KafkaSandbox", "serving_brokers"]
