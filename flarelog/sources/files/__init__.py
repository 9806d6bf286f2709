"""Logs that are files: found, identified, and read in the order of their births."""
