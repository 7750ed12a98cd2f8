"""The parts that searches of several levels share: compilation, queues, lower bounds."""
