"""Made-up worlds that users run: Pulsar in virtual time, recordings, and skewed clusters of any size."""
