"""Which broker a bundle goes to: Pulsar's placement strategies, a file each, and the way to them."""
