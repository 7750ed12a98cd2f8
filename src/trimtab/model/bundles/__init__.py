"""Values of the balancer `bundles`: Pulsar's brokers, bundles and topics."""
