"""What searches of several levels have in common: how they are compiled, queues, lower bounds."""
