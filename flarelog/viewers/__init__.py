"""What shows lines to people."""
