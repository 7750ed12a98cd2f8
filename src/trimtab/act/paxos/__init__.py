"""A store of Paxos groups to act on."""
