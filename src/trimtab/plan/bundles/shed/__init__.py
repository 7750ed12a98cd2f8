"""Which bundles a broker gives up, one Pulsar strategy a file."""
