"""Logs that are files: found, recognised, and read in the order of their births."""
