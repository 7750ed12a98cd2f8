"""The demo of the level `bundles`: a real Pulsar cluster, uneven under load, levelled and measured."""
