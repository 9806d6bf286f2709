"""Viewers, which show lines to people."""
