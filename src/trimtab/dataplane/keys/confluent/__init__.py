"""Order kept on confluent-kafka: a producer and a consumer."""

from trimtab.dataplane.keys.confluent.consumer import Consumer
from trimtab.dataplane.keys.confluent.producer import Producer

__all__ = ["Consumer", "Producer"]
