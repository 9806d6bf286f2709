"""Checks of a machine and of the way to a receiver; each failure comes with a fix."""
