"""The demo of the balancer `bundles`: a real Pulsar cluster, uneven under load, balanced and measured."""
