"""Documents, addresses and scripts on a server of queues, and the settings of brokers."""
