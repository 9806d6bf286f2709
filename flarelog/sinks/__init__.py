"""Readers of the store that copy its bytes elsewhere: one destination a file."""
