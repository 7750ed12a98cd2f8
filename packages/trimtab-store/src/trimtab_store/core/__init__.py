"""Multi-Paxos groups whose masters hold leases: events in, effects out. No clock, no I/O."""
