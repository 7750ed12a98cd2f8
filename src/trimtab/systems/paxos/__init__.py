"""A store of Paxos groups: client, collector, and the port of `masters`."""
