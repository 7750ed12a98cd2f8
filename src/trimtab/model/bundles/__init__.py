"""Values of the level `bundles`: Pulsar's brokers, bundles and topics."""
