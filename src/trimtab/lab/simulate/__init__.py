"""What `trimtab simulate` runs: Pulsar in virtual time, and simulated recordings to replay."""
