"""flarelog inside other processes: one framework a file."""
