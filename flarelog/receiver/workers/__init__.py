"""Several processes that are one receiver."""
