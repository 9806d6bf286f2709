"""A site's end: the process that sends its logs."""
