"""An interactive message system: votes, quizzes and questions, on queues balanced by work."""
