"""The parts of a search that several balancers share: compilation, queues, lower bounds."""
