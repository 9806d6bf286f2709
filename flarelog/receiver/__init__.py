"""The receiver's end: calls taken, runs kept, workers."""
