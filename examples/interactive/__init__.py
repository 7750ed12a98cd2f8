"""An interactive message system: votes, quizzes and questions of many channels, on queues balanced by work."""
