"""A Kafka cluster as an execution sees and changes it, by kafka-python's admin client."""
