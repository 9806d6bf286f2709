"""Viewers: they show lines to people."""
