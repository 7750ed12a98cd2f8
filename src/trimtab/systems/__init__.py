"""Each system in a folder of its own: client, collector, and adapters of the ports of executions."""
