"""Order kept on confluent-kafka: a producer and a consumer."""

from trimtab_keys.clients.confluent.consumer import Consumer
from trimtab_keys.clients.confluent.producer import Producer

__all__ = ["Consumer", "Producer"]
