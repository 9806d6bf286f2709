"""The sender: the process at a site that sends its logs."""
