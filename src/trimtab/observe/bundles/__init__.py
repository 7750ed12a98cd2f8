"""The balancer `bundles`: what Pulsar's brokers report, as tables and snapshots."""
