"""The receiver: calls, sessions, runs, workers."""
